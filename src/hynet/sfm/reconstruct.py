"""Folder of photos -> COLMAP model, by our own features and matches.

Every step leaves its result on disk (docs/reconstruction.md says where), so a run that was killed goes on where it
was, photos added to the folder are added to the model, and a run that is done matches and maps nothing again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from .. import images
from ..errors import BadData, BadInput, DataNotFound, choose
from ..features.folder import extract_all, extract_collection
from ..features.hloc_file import are_features, h5_identities, h5_names, read_h5
from ..features.settings import FeatureOptions, FeatureSettings, with_options
from ..matching.consensus import Consensus
from ..matching.nearest import Nearest
from ..runtime import fingerprints
from ..runtime.files import as_path, make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.long_runs import note_what_is_kept
from ..runtime.machine import cores
from ..runtime.pool import Pool
from ..types import Array, Progress, silent
from . import colmap
from . import pairs as pairing
from .colmap import NotReconstructed, Store
from .inputs import KEYPOINTS, Inputs
from .mapping import Reconstructed, map_folder
from .matches import match_all
from .pairs import ALL_PAIRS, match_in_rounds
from .run_folder import DATABASE, NOTE, RunNote, write_json

_LOG = logging.getLogger(__name__)

DEFAULTS = FeatureSettings(max_keypoints=KEYPOINTS)


@with_options(FeatureSettings)
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
    **options: Unpack[FeatureOptions],
) -> Reconstructed:
    """Reconstruct a COLMAP model in the folder `out` from the photos in a folder.

    settings: options of features as one value, 4096 keypoints a photo by default.
    features: a file of features in hloc's layout from any program, in place of detector and model.
    matches: a file of matches between those features in hloc's layout from any program, in place of our own.
    pairs: "auto" (all pairs of up to 50 photos, rounds for up to 200, retrieval beyond), "exhaustive", "retrieval",
        "sequence" or a file. With `matches`: those that are in that file, too.
    ratio: of a ratio test; None: matches are kept that are probably right (the matcher "consensus"), or, of keypoints
        without size, mutual ones.
    camera: "auto" (by EXIF), "shared" (one for all photos of a size), or a known one such as "PINHOLE,fx,fy,cx,cy", of
        all photos or of each by its name.
    mapper_threads: more than one map large scenes faster, but are not deterministic.
    refine: locate the keypoints of the model more exactly, by aligning the photos that see a point.
    jobs: processes that describe and threads that match; 0 means one per core.
    cluster: describes and matches in their place; the features are then a collection.
    overwrite: make the model anew where `out` has one made with other settings or photos, instead of refusing.
    """
    out = images.home(as_path(out, "the folder for the model"))
    settings = DEFAULTS if settings is None else settings
    if not isinstance(settings, FeatureSettings):
        raise BadInput(f"settings must be FeatureSettings, got {type(settings).__name__}; give model=... and so on.")
    colmap.pycolmap()  # fails before anything is read if the package is missing
    inputs = Inputs.read(photos, settings.replace(**options), features, matches, ratio, camera)
    _check(inputs, pairs, mapper, mapper_threads, jobs)
    jobs = jobs or len(cores())
    with exclusive_lock(make_folder(out)), note_what_is_kept(out):
        found = _extract(inputs, out, jobs, cluster, overwrite, progress)
        with colmap.opened(out / DATABASE) as store:
            _add_photos(store, found, camera, progress)
            _match(store, found, inputs, pairs, jobs, cluster, progress)
        known, aligned = camera not in ("auto", "shared"), inputs.aligned(found.photos) if refine else None
        how: Any = {"mapper": mapper, "threads": mapper_threads, "known_cameras": known, "progress": progress}
        return map_folder(out, inputs.photos, found.unreadable, aligned=aligned, **how)


@dataclass(frozen=True)
class Described:
    """Photos with features, and the file of these."""

    file: Path
    photos: Mapping[str, Path]
    unreadable: Mapping[str, str]  # name -> why

    def descriptors(self, name: str) -> Array:
        """(N, D) descriptors of a photo."""
        return read_h5(self.file, name).descriptors


def _check(inputs: Inputs, pairs: str, mapper: str, mapper_threads: int, jobs: int) -> None:
    """Refuse what would fail after hours."""
    pairing.check(pairs, inputs.photos)
    choose(colmap.MAPPERS, mapper, "mapper")
    if mapper_threads < 1:
        raise BadInput(f"the mapper needs at least 1 thread, got {mapper_threads}.")
    if jobs < 0:
        raise BadInput(f"the jobs must be at least 1, or 0 for one per core, got {jobs}.")


def _extract(
    inputs: Inputs, out: Path, jobs: int, cluster: Pool | None, overwrite: bool, progress: Progress
) -> Described:
    """Make the features where they are not there yet, and note what the model is made of."""
    note = RunNote(out, overwrite)
    file = inputs.file or out / ("features.h5" if cluster is None else "features")
    named = file.name if file.parent == out else str(file.resolve())  # then the folder may be moved
    note.check_settings(inputs.noted, named)
    contents = {}
    for count, (name, photo) in enumerate(inputs.photos.items(), start=1):
        contents[name] = fingerprints.photo(photo, inputs.masks.get(name))
        progress(count, len(inputs.photos), "checking")
    note.check_photos(contents)
    how: Any = {"overwrite": overwrite, "progress": progress}
    if inputs.extract is None:
        unreadable = _without_features(inputs.photos, file)
    else:
        if cluster is not None:
            done = extract_collection([inputs.folder], file, inputs.settings, cluster=cluster, **how)
        else:
            done = extract_all(inputs.folder, file, inputs.settings, jobs=jobs, extract=inputs.extract, **how)
        unreadable = {**done.unreadable, **done.quarantined}
    readable = {name: photo for name, photo in inputs.photos.items() if name not in unreadable}
    if len(readable) < 2:
        why = next(iter(unreadable.values()))
        raise NotReconstructed(f"only one photo can be read, and a reconstruction needs two: {why}")
    known = h5_identities(file)
    described = {name: known[name] for name in readable}
    note.check_described(described)
    write_json(
        out / NOTE,
        {
            "photos": str(inputs.folder.resolve()),
            "features": named,
            "settings": dict(inputs.noted),
            "unreadable": unreadable,
            "contents": {name: contents[name] for name in readable},
            "described": described,
        },
    )
    return Described(file, readable, unreadable)


def _without_features(photos: Mapping[str, Path], file: Path) -> dict[str, str]:
    """Say which photos a features file does not hold."""
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


def _add_photos(store: Store, found: Described, camera: str | Mapping[str, str], progress: Progress) -> None:
    """Store the photos that are new, all at once, so that a killed run cannot change their order."""
    known = set(store.names)
    new = [name for name in found.photos if name not in known]
    width = found.descriptors(next(iter(found.photos))).shape[1]
    cameras = store.cameras()
    same = {each: number for number, each in cameras.items()}  # of one size and EXIF focal length
    of_size = {each.size: number for number, each in cameras.items()}
    with store.transaction():
        for count, name in enumerate(new, start=1):
            progress(count, len(new), "storing keypoints")
            features = read_h5(found.file, name, found.photos[name])
            if features.descriptors.shape[1] != width:
                raise BadData(f"{found.file} holds descriptors of sizes {width} and {features.descriptors.shape[1]}.")
            asked = camera[name] if isinstance(camera, Mapping) else camera
            if asked in ("auto", "shared"):
                seen_with = colmap.guess_camera(features.image_size, found.photos[name])
            else:
                seen_with = colmap.parse_camera(asked, features.image_size)
            if camera == "shared":
                number = of_size.get(seen_with.size)
            else:
                number = same.get(seen_with) if seen_with.known_focal else None
            if number is None:
                number = same[seen_with] = of_size[seen_with.size] = store.add_camera(seen_with)
            store.add_photo(name, number, features.keypoints.frames)


def _match(
    store: Store, found: Described, inputs: Inputs, pairs: str, jobs: int, cluster: Pool | None, progress: Progress
) -> None:
    """Match in rounds, or the chosen pairs, the earlier photo first; only pairs in the given matches, if any."""
    matched, ratio = inputs.matched, inputs.noted["ratio"]
    match = partial(
        match_all,
        store,
        found.file,
        matcher=Consensus(rounded=True) if ratio is None else Nearest(ratio),
        threads=jobs,
        matched=matched,
        cluster=cluster,
        progress=progress,
    )
    if pairs == "auto" and matched is None and ALL_PAIRS < len(store.names) <= pairing.EXHAUSTIVE:
        match_in_rounds(store, found.descriptors, match, progress)
        return
    if matched is not None and pairs == "auto":
        known = set(store.names)
        chosen = pairing.each_once((pair for pair in matched.pairs() if known.issuperset(pair)), store.names)
    else:
        chosen = pairing.choose_pairs(pairs, store.names, found.descriptors, progress)
        chosen = chosen if matched is None else [pair for pair in chosen if pair in matched]
    _LOG.info("matching %d pairs of %d photos", len(chosen), len(store.names))
    match(chosen)
