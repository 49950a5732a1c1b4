"""Folder of photos -> COLMAP model, by our own features and matches.

Every step leaves its result on disk (docs/reconstruction.md says where), so a run that was killed goes on where it
was, photos added to the folder are added to the model, and a run that is done matches and maps nothing again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .. import images
from ..errors import BadData, BadInput, DataNotFound, choose
from ..features.addresses import find_masks, name_photos
from ..features.folder import extract_all, extract_collection
from ..features.hloc_file import FeaturesFile, are_features, h5_identities, h5_names, read_h5
from ..features.settings import FeatureSettings
from ..matching.consensus import Consensus
from ..matching.hloc_matches import MatchesFile
from ..matching.nearest import Nearest, check_ratio
from ..runtime import fingerprints
from ..runtime.files import as_path, make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.long_runs import note_what_is_kept
from ..runtime.machine import cores
from ..runtime.pool import Pool
from ..types import Progress, silent
from . import colmap
from . import pairs as pairing
from .colmap import NotReconstructed, Store
from .mapping import Reconstructed, map_folder
from .matches import match_all
from .rounds import ALL_PAIRS, match_in_rounds
from .run_folder import check_described, check_photos, note_of_run, write_json

_LOG = logging.getLogger(__name__)

KEYPOINTS = 4096  # per photo, by default


def reconstruct(
    photos: str | Path,
    out: str | Path,
    *,
    settings: FeatureSettings | None = None,
    features: str | Path | None = None,
    matches: str | Path | None = None,
    pairs: str = "auto",
    ratio: float | None = None,
    camera: str | Mapping[str, str] = "auto",
    mapper: str = "incremental",
    mapper_threads: int = 1,
    refine: bool = True,
    jobs: int = 0,
    cluster: Pool | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Reconstructed:
    """Photos in a folder -> a COLMAP model in the folder `out`.

    settings: how features are made; `features`: a file of them in hloc's layout instead, as is a settings.extractor
        that is such a file.
    matches: a file of anyone's matches between those features in hloc's layout, instead of our own matching.
    pairs: "auto" (all pairs of up to 50 photos, rounds for up to 200, retrieval beyond), "exhaustive", "retrieval",
        "sequence" or a file.
        With `matches`: those that are in that file, too.
    ratio: of a ratio test; None: matches are kept that are probably right (the matcher "consensus"), or, of keypoints
        without size, mutual ones.
    camera: "auto" (by EXIF), "shared" (one for all photos of a size), or a known one such as "PINHOLE,fx,fy,cx,cy", of
        all photos or of each by its name.
    mapper_threads: more than one map large scenes faster, but the same matches then give now this model, now another.
    refine: locate the keypoints of the model more exactly, by aligning the photos that see a point.
    jobs: processes that describe and threads that match; 0 means one per core.
    cluster: who describes and matches in their place (runtime/cluster); the features are then a collection.
    overwrite: make the model anew where `out` has one made with other settings or photos, instead of refusing.
    """
    out = images.home(as_path(out, "the folder for the model"))
    photos = images.home(as_path(photos, "the folder of the photos"))
    colmap.pycolmap()  # a missing package is told before anything is read
    named = name_photos(_folder(photos))
    _check(named, pairs, camera, mapper)
    settings = settings or FeatureSettings(max_keypoints=KEYPOINTS)
    if not isinstance(settings, FeatureSettings):
        raise BadInput(f"settings must be hynet.features.settings.FeatureSettings, got {type(settings).__name__}.")
    check_ratio(ratio)
    if mapper_threads < 1:
        raise BadInput(f"the mapper needs at least 1 thread, got {mapper_threads}.")
    if jobs < 0:
        raise BadInput(f"the jobs must be at least 1, or 0 for one per core, got {jobs}.")
    if features is not None:
        _check_unused(settings, features)
    extract = settings.open_extractor() if features is None else None
    if isinstance(extract, FeaturesFile):
        features, extract = extract.path, None
    matched = None if matches is None else _open_matches(matches, named, features, ratio)
    jobs = jobs or len(cores())
    ours = out / ("features.h5" if cluster is None else "features")
    file = ours if features is None else Path(features)
    masks = find_masks(settings.mask, named) if features is None else {}
    with exclusive_lock(make_folder(out)), note_what_is_kept(out):
        note = note_of_run(out, Path(photos), file, _options(settings, features, matches, ratio, camera), overwrite)
        contents = {}
        for count, (name, photo) in enumerate(named.items(), start=1):
            contents[name] = fingerprints.photo(photo, masks.get(name))
            progress(count, len(named), "checking")
        check_photos(out, contents, overwrite)
        if extract is None:
            unreadable = _missing(named, file)
        elif cluster is not None:
            collected = extract_collection(
                [photos], file, settings, cluster=cluster, overwrite=overwrite, progress=progress
            )
            unreadable = _enough(len(named), {**collected.unreadable, **collected.quarantined})
        else:
            done = extract_all(
                photos, file, settings, jobs=jobs, extract=extract, overwrite=overwrite, progress=progress
            )
            unreadable = _enough(len(named), done.unreadable)
        readable = {name: named[name] for name in named if name not in unreadable}
        known = h5_identities(file)
        described = {name: known[name] for name in readable}
        check_described(out, described, overwrite)
        seen = {name: contents[name] for name in readable}
        write_json(out / "photos.json", {**note, "unreadable": unreadable, "contents": seen, "described": described})
        with colmap.opened(out / "database.db") as store:
            _add_photos(store, readable, file, camera, progress)
            match = partial(
                match_all,
                store,
                file,
                matcher=Consensus(rounded=True) if ratio is None else Nearest(ratio),
                threads=jobs,
                matched=matched,
                cluster=cluster,
                progress=progress,
            )
            if pairs == "auto" and matched is None and ALL_PAIRS < len(store.names) <= pairing.EXHAUSTIVE:
                match_in_rounds(store, lambda name: read_h5(file, name).descriptors, match, progress)
            else:
                chosen = _chosen_pairs(pairs, store, file, matched, progress)
                _LOG.info("matching %d pairs of %d photos", len(chosen), len(store.names))
                match(chosen)
        progress(0, len(readable), "mapping")
        known_cameras = camera not in ("auto", "shared")
        # Of photos that EXIF turns, other programs may have detected keypoints as they lie.
        aligned = {name: photo for name, photo in readable.items() if features is None or not images.is_turned(photo)}
        return map_folder(
            out, named, unreadable, mapper, known_cameras, mapper_threads, progress, aligned=aligned if refine else None
        )


# --- At the door ---


def _folder(photos: str | Path) -> Path:
    if not Path(photos).is_dir():
        raise DataNotFound(f"no folder {photos}; give the folder that holds the photos.")
    return Path(photos)


def _check(photos: Mapping[str, Path], pairs: str, camera: str | Mapping[str, str], mapper: str) -> None:
    """What would fail after hours is told at once."""
    if len(photos) < 2:
        raise NotReconstructed("one photo is not enough; a reconstruction needs two or more that overlap.")
    pairing.check(pairs, photos)
    choose(colmap.MAPPERS, mapper, "mapper")
    if isinstance(camera, Mapping) and (without := next((name for name in photos if name not in camera), None)):
        raise BadInput(f"no camera of {without} is given; give one of each photo, by its name.")
    for each in camera.values() if isinstance(camera, Mapping) else [camera]:
        if each not in ("auto", "shared"):
            colmap.parse_camera(each, (1, 1))
        elif isinstance(camera, Mapping):
            raise BadInput(
                f"{each!r} is for all photos; give a known camera of each, or {each!r} in place of them all."
            )


def _check_unused(settings: FeatureSettings, features: str | Path) -> None:
    """What is asked of features that are there already would be ignored."""
    if settings.extractor is not None:
        raise BadInput(f"{features} and the extractor {settings.extractor} both give features; leave one of them out.")
    asked = settings.asked_of_patchwise()
    asked += ["max-keypoints"] if settings.max_keypoints not in (KEYPOINTS, FeatureSettings.max_keypoints) else []
    asked += ["mask"] if settings.mask else []
    if asked:
        raise BadInput(f"{features} holds features that are made already; leave out {', '.join(asked)}, or the file.")


def _open_matches(
    matches: str | Path, photos: Mapping[str, Path], features: str | Path | None, ratio: float | None
) -> MatchesFile:
    if features is None:
        raise BadInput("matches are pairs of rows of a features file; give that file as the features, too.")
    if ratio is not None:
        raise BadInput("the ratio test is for matches of our own; leave out the ratio, or the matches.")
    return MatchesFile(matches, photos.keys())


def _options(
    settings: FeatureSettings,
    features: str | Path | None,
    matches: str | Path | None,
    ratio: float | None,
    camera: str | Mapping[str, str],
) -> dict[str, Any]:
    """What matches depend on, by the names of the command's options, for who runs it again."""
    matched_with: dict[str, Any] = {"ratio": ratio, "camera": camera if isinstance(camera, str) else dict(camera)}
    if matches is not None:
        matched_with["matches"] = str(Path(matches).resolve())
        matched_with["matches_content"] = fingerprints.content(Path(matches))[:16]
    if features is not None:
        return matched_with
    if settings.patchwise:
        made_with: dict[str, Any] = {"detector": settings.detector, "model": settings.model}
        made_with |= {} if settings.shape in ("auto", "none") else {"shape": settings.shape}
        made_with |= {} if settings.orientation == "auto" else {"orientation": settings.orientation}
    else:
        made_with = {"extractor": settings.extractor}
    return made_with | {"max_keypoints": settings.max_keypoints} | matched_with


# --- Features and pairs ---


def _enough(count: int, unreadable: Mapping[str, str]) -> dict[str, str]:
    """Which photos could not be read, and why, if that leaves two."""
    if count - len(unreadable) < 2:
        why = next(iter(unreadable.values()))
        raise NotReconstructed(f"only one photo can be read, and a reconstruction needs two: {why}")
    return dict(unreadable)


def _missing(photos: Mapping[str, Path], file: Path) -> dict[str, str]:
    """Which photos a features file does not know."""
    if not are_features(file):
        raise DataNotFound(f"no features file {file}; `hynet extract` makes one.")
    known = set(h5_names(file))
    missing = {name: f"{name} has no features in {file}." for name in photos if name not in known}
    if len(photos) - len(missing) < 2:
        raise BadInput(
            f"{file} holds features of {len(photos) - len(missing)} of the {len(photos)} photos; a group must be named "
            "like its photo's path in the folder."
        )
    return missing


def _add_photos(
    store: Store, photos: Mapping[str, Path], file: Path, camera: str | Mapping[str, str], progress: Progress
) -> None:
    """Those that are not there yet, all at once, so that a killed run cannot change their order."""
    known = set(store.names)
    new = [name for name in photos if name not in known]
    width = read_h5(file, next(iter(photos))).descriptors.shape[1]
    cameras = store.cameras()
    alike = {each: number for number, each in cameras.items()}  # of one size and EXIF focal length
    of_size = {each.size: number for number, each in cameras.items()}
    with store.transaction():
        for count, name in enumerate(new, start=1):
            progress(count, len(new), "storing keypoints")
            features = read_h5(file, name, photos[name])
            if features.descriptors.shape[1] != width:
                raise BadData(f"{file} holds descriptors of sizes {width} and {features.descriptors.shape[1]}.")
            asked = camera[name] if isinstance(camera, Mapping) else camera
            seen_with = _camera(asked, features.image_size, photos[name])
            if camera == "shared":
                number = of_size.get(seen_with.size)
            else:
                number = alike.get(seen_with) if seen_with.known_focal else None
            if number is None:
                number = alike[seen_with] = of_size[seen_with.size] = store.add_camera(seen_with)
            store.add_photo(name, number, features.keypoints.frames)


def _chosen_pairs(
    pairs: str, store: Store, file: Path, matched: MatchesFile | None, progress: Progress
) -> list[tuple[str, str]]:
    """The earlier photo first; only those that were matched, where matches are given."""
    if matched is not None and pairs == "auto":
        known = set(store.names)
        return pairing.each_once((pair for pair in matched.pairs() if known.issuperset(pair)), store.names)
    chosen = pairing.choose_pairs(pairs, store.names, lambda name: read_h5(file, name).descriptors, progress)
    return chosen if matched is None else [pair for pair in chosen if pair in matched]


def _camera(camera: str, size: tuple[int, int], photo: Path) -> colmap.Camera:
    if camera in ("auto", "shared"):
        return colmap.guess_camera(size, photo)
    return colmap.parse_camera(camera, size)
