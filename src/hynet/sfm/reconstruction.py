"""Folder of photos -> COLMAP model, by our own features and matches.

Every step leaves its result on disk (docs/reconstruction.md says where), so a run that was killed goes on where it
was, photos added to the folder are added to the model, and a run that is done costs nothing again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from .. import colmap, images
from ..colmap import Funnel, Model, NotReconstructed, Store
from ..errors import BadData, BadInput, DataNotFound, choose
from ..extractors.folder import Settings, extract_all, find_masks, name_photos
from ..extractors.hloc_file import h5_names, opened, read_h5
from ..system import fingerprints
from ..system.files import make_folder, whole
from ..system.locks import alone
from ..system.machine import cores
from ..types import Array, Features, Progress, Table, silent
from . import pairs as pairing
from .matches import match_all

KEYPOINTS = 4096  # a photo, unless told otherwise


@dataclass(frozen=True)
class Reconstructed:
    """The largest model that the photos gave, in numbers: the columns of the ETH benchmark."""

    model: str  # the folder
    photos: int
    registered: int
    points: int
    observations: int
    track_length: float
    observations_per_photo: float
    reprojection_error: float  # pixels, mean over points
    inlier_pairs: int
    inlier_matches: int
    unreadable: Mapping[str, str] = field(default_factory=dict)  # name -> why

    def table(self) -> Table:
        """One row, the photos that could not be read left out."""
        columns = [key for key in asdict(self) if key not in ("model", "unreadable")]
        return Table("Reconstruction", columns, {Path(self.model).name: asdict(self)})


def reconstruct(
    photos: str | Path,
    out: str | Path,
    *,
    settings: Settings | None = None,
    features: str | Path | None = None,
    pairs: str = "auto",
    ratio: float | None = None,
    camera: str = "auto",
    mapper: str = "incremental",
    jobs: int = 0,
    progress: Progress = silent,
) -> Reconstructed:
    """Photos in a folder -> a COLMAP model in the folder `out`.

    settings: how features are made; `features`: a file of them in hloc's layout instead.
    pairs: "auto" (all of up to 200 photos, else by likeness), "exhaustive", "retrieval", "sequence" or a file.
    ratio: of the ratio test; None: as calibrated for the model, and none for the features of others.
    camera: "auto" (by EXIF), "shared" (one for all photos of a size), or a known one such as "PINHOLE,fx,fy,cx,cy".
    jobs: processes that describe and threads that match; 0 means one per core.
    """
    out = Path(out)
    colmap.pycolmap()  # a missing package is told before anything is read
    named = name_photos(_folder(photos))
    _check(named, pairs, camera, mapper)
    settings = settings or Settings(max_keypoints=KEYPOINTS)
    ratio = _ratio(ratio, settings, features)
    jobs = jobs or len(cores())
    file = out / "features.h5" if features is None else Path(features)
    masks = find_masks(settings.mask, named) if features is None else {}
    with alone(make_folder(out)), _kept(out):
        note = _note(out, Path(photos), file, _options(settings, features, ratio, camera))
        contents = {name: fingerprints.photo(photo, masks.get(name)) for name, photo in named.items()}
        _check_photos(out, contents)
        if features is None:
            unreadable = _extract(Path(photos), file, settings, len(named), jobs, progress)
        else:
            unreadable = _missing(named, file)
        readable = {name: named[name] for name in named if name not in unreadable}
        seen = {name: contents[name] for name in readable}
        _write(out / "photos.json", {**note, "unreadable": unreadable, "contents": seen})
        with colmap.opened(out / "database.db") as store:
            _add_photos(store, readable, file, camera)
            chosen = pairing.choose_pairs(pairs, store.names, lambda name: read_h5(file, name).descriptors)
            match_all(store, file, chosen, ratio=ratio, threads=jobs, progress=progress)
        progress(0, 1, "mapping")  # COLMAP does not say how far it is
        return _map(out, named, unreadable, mapper=mapper, known_cameras=camera not in ("auto", "shared"))


# --- At the door ---


def _folder(photos: str | Path) -> Path:
    if not Path(photos).is_dir():
        raise DataNotFound(f"no folder {photos}; give the folder that holds the photos.")
    return Path(photos)


def _check(photos: Mapping[str, Path], pairs: str, camera: str, mapper: str) -> None:
    """What would fail after hours is told at once."""
    if len(photos) < 2:
        raise NotReconstructed("one photo is no model; a reconstruction needs two or more that overlap.")
    pairing.check(pairs, photos)
    choose(colmap.MAPPERS, mapper, "mapper")
    if camera not in ("auto", "shared"):
        colmap.parse_camera(camera, (1, 1))


def _ratio(ratio: float | None, settings: Settings, features: str | Path | None) -> float | None:
    if ratio is not None and not 0 < ratio <= 1:
        raise BadInput(f"the ratio must be above 0 and at most 1, got {ratio:g}; 0.8 is usual, 1 keeps all.")
    return settings.extractor().ratio if ratio is None and features is None else ratio


@contextmanager
def _kept(out: Path) -> Iterator[None]:
    """An interruption says what is kept."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(f"what is done is kept in {out}, run the same command again to go on")
        raise


def _options(settings: Settings, features: str | Path | None, ratio: float | None, camera: str) -> dict[str, Any]:
    """What matches depend on, by the names of the command's options, for who runs it again."""
    matched_with = {"ratio": ratio, "camera": camera}
    if features is not None:
        return matched_with
    made_with = {"detector": settings.detector, "model": settings.descriptor, "max_keypoints": settings.max_keypoints}
    return made_with | matched_with


def _note(out: Path, photos: Path, features: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What photos.json will say. Matches of an earlier run are taken up only if they were made alike."""
    inside = features.parent == out  # then the folder may be moved
    note = {
        "photos": str(photos.resolve()),
        "features": features.name if inside else str(features.resolve()),
        "settings": dict(settings),
    }
    before = _before(out)
    if before and any(before[key] != note[key] for key in ("features", "settings")):
        made_with = {**before["settings"], "features": before["features"]}
        raise BadInput(f"{out} was made with other settings ({made_with}); choose another folder, or delete it.")
    return note


def _before(out: Path) -> dict[str, Any]:
    """What photos.json says of an earlier run; nothing where there was none."""
    try:
        told = json.loads((out / "photos.json").read_text())
        return {key: told[key] for key in ("features", "settings", "contents")}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise BadData(
            f"{out}/photos.json is of another program or version; choose another folder, or delete it."
        ) from None


def _check_photos(out: Path, contents: Mapping[str, str | None]) -> None:
    """Those that are in the model already must still be there, and the same: it keeps what it saw of them."""
    for name, before in _before(out).get("contents", {}).items():
        if name not in contents:
            raise BadInput(f"{out} also holds {name}, which is not in the folder; choose another folder for the model.")
        if contents[name] != before:
            raise BadInput(
                f"{out} was made from another photo {name}, or with another mask; choose another folder for the model."
            )


# --- Features ---


def _extract(photos: Path, file: Path, settings: Settings, count: int, jobs: int, progress: Progress) -> dict[str, str]:
    """Features of all photos into the file; which could not be read, and why."""
    unreadable = dict(extract_all(photos, file, settings, jobs=jobs, progress=progress).unreadable)
    if count - len(unreadable) < 2:
        why = next(iter(unreadable.values()))
        raise NotReconstructed(f"only one photo can be read, and a reconstruction needs two: {why}")
    return unreadable


def _missing(photos: Mapping[str, Path], file: Path) -> dict[str, str]:
    """Which photos a features file does not know."""
    if not file.is_file():
        raise DataNotFound(f"no features file {file}; `hynet extract` makes one.")
    known = set(h5_names(file))
    missing = {name: f"{name} has no features in {file}." for name in photos if name not in known}
    if len(photos) - len(missing) < 2:
        raise BadInput(
            f"{file} holds features of {len(photos) - len(missing)} of the {len(photos)} photos; a group must be named "
            "like its photo's path in the folder."
        )
    return missing


def _add_photos(store: Store, photos: Mapping[str, Path], file: Path, camera: str) -> None:
    """Those that are not there yet, all at once, so that a killed run cannot change their order."""
    known = set(store.names)
    new = [name for name in photos if name not in known]
    width = read_h5(file, next(iter(photos))).descriptors.shape[1]
    cameras = store.cameras()
    alike = {each: number for number, each in cameras.items()}  # of one size and EXIF focal length
    of_size = {each.size: number for number, each in cameras.items()}
    with store.transaction():
        for name in new:
            features = _read(file, name, photos[name])
            if features.descriptors.shape[1] != width:
                raise BadData(f"{file} holds descriptors of sizes {width} and {features.descriptors.shape[1]}.")
            seen_with = _camera(camera, features.image_size, photos[name])
            if camera == "shared":
                number = of_size.get(seen_with.size)
            else:
                number = alike.get(seen_with) if seen_with.known_focal else None
            if number is None:
                number = alike[seen_with] = of_size[seen_with.size] = store.add_camera(seen_with)
            store.add_photo(name, number, features.keypoints.frames)


def _read(file: Path, name: str, photo: Path) -> Features:
    """Of one photo; its size is that of the photo itself where the file does not tell."""
    features = read_h5(file, name)
    if not (np.isfinite(features.descriptors).all() and np.isfinite(features.keypoints.frames).all()):
        raise BadData(f"{file} holds features of {name} that are not numbers; extract them again.")
    with opened(file) as stored:
        if "image_size" in stored[name]:
            return features
    height, width = images.read(photo).shape
    return replace(features, image_size=(width, height))


def _camera(camera: str, size: tuple[int, int], photo: Path) -> colmap.Camera:
    if camera in ("auto", "shared"):
        return colmap.guess_camera(size, photo)
    return colmap.parse_camera(camera, size)


# --- The model ---


def _map(
    out: Path, photos: Mapping[str, Path], unreadable: Mapping[str, str], mapper: str, known_cameras: bool
) -> Reconstructed:
    """From disk, where the model there was made from the same matches."""
    funnel = colmap.read_funnel(out / "database.db")
    made_from = _digest(funnel, mapper, known_cameras)
    table = out / "table.json"
    if table.exists() and all((out / name).exists() for name in colmap.MODEL_FILES):
        told = _table(table)
        if told.pop("made_from", None) == made_from:
            return Reconstructed(**{**told, "model": str(out), "photos": len(photos), "unreadable": dict(unreadable)})
    verified = {pair: count for pair, count in funnel.inliers.items() if count}
    try:
        mapped = _mapped(out / "database.db", mapper, known_cameras)
    except NotReconstructed:
        raise NotReconstructed(
            f"the {len(funnel.keypoints)} photos overlap too little to be reconstructed, or show the scene from one "
            f"spot only: {len(verified)} of {len(funnel.matches)} pairs agree on a geometry; `hynet doctor {out}` says "
            "more."
        ) from None
    model = colmap.as_arrays(mapped)
    done = Reconstructed(
        model=str(out),
        photos=len(photos),
        registered=len(model.photos),
        points=len(model.xyz),
        observations=model.observations,
        track_length=model.track_length,
        observations_per_photo=model.observations / len(model.photos),
        reprojection_error=model.reprojection_error,
        inlier_pairs=len(verified),
        inlier_matches=sum(verified.values()),
        unreadable=dict(unreadable),
    )
    table.unlink(missing_ok=True)  # killed in between, it would vouch for files of two models
    colmap.write_model(mapped, out, _colours(model, photos))
    with whole(out / "table.md") as file:
        file.write_text(done.table().markdown() + "\n")
    _write(table, {**asdict(done), "made_from": made_from})  # last: it vouches for the rest
    return done


def _table(path: Path) -> dict[str, Any]:
    """What the table of an earlier run says; one that was cut short says nothing, and the model is made again."""
    try:
        told = json.loads(path.read_text())
        fields = {field.name for field in dataclasses.fields(Reconstructed)}
        return told if isinstance(told, dict) and told.keys() - {"made_from"} == fields else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _mapped(database: Path, mapper: str, known_cameras: bool) -> Any:
    """Points that only two photos see are left out, as COLMAP does, unless there is no model without them."""
    asked = colmap.MappingTask(known_cameras=known_cameras, refined=True)
    try:
        return colmap.map_photos(database, mapper, asked)
    except NotReconstructed:
        return colmap.map_photos(database, mapper, replace(asked, two_view_tracks=True))


def _digest(funnel: Funnel, mapper: str, known_cameras: bool) -> str:
    pairs = sorted((*pair, count, funnel.inliers[pair]) for pair, count in funnel.matches.items())
    return fingerprints.values([list(funnel.keypoints.items()), pairs, mapper, known_cameras])


def _colours(model: Model, photos: Mapping[str, Path]) -> Array:
    """(M, 3) uint8 RGB, the mean over the keypoints that see a point; black where its photos cannot be read."""
    total, count = np.zeros((len(model.xyz), 3)), np.zeros((len(model.xyz), 1))
    for photo in model.photos:
        pixels = cv2.imread(str(photos[photo.name]))  # turned upright, as the keypoints are
        width, height = photo.camera.size
        if pixels is None or pixels.shape[:2] != (height, width):
            continue
        seen = photo.points >= 0
        x, y = np.rint(photo.xy[seen]).astype(int).clip(0, (width - 1, height - 1)).T
        np.add.at(total, photo.points[seen], pixels[y, x, ::-1])
        np.add.at(count, photo.points[seen], 1)
    return np.rint(total / np.maximum(count, 1)).astype(np.uint8)


def _write(path: Path, value: Mapping[str, Any]) -> None:
    with whole(path) as file:
        file.write_text(json.dumps(value, indent=1) + "\n")
