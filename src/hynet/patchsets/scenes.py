"""Photos -> cameras, keypoints and 3-D points, from which patch sets are made: by SIFT, and where SIFT's matches do not
join the photos, by the same keypoints described and matched by our own model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from .. import images
from ..errors import UnreadableImage
from ..features.descriptors.loading import load
from ..features.extractors.patchwise import Extractor
from ..features.hloc_file import read_h5, write_group
from ..matching.consensus import Consensus
from ..runtime.files import atomic_write
from ..runtime.processes import EndedEarly
from ..sfm import colmap
from ..sfm.colmap import NotReconstructed
from ..sfm.colmap.programs import match_sift
from ..sfm.matches import match_all
from ..sfm.pairs import choose_pairs
from ..types import Array, Keypoints, Progress, silent

SIFT = "sift"
LONGEST_SIDE = 1600  # pixels; larger photos are shrunk, keypoints are in pixels of the shrunken photo
SMALLEST_MODEL = 3  # photos; two cannot check each other
EXHAUSTIVE = 200  # photos; in larger scenes each is matched with its neighbours in the order of their names only
NEIGHBOURS = 20
CONTRAST = 0.02  # half of OpenCV's default: dull walls have corners too
MODEL = "default"
ENOUGH = 0.5  # of the photos; where SIFT's matches join fewer, ours are mapped as well


@dataclass(frozen=True)
class Photo:
    """One registered photo. `path` is the grey copy that the keypoints were detected in."""

    name: str
    path: Path
    camera: colmap.Camera
    cam_from_world: Array  # (3, 4)
    keypoints: Keypoints
    points: Array  # (N,) row in Scene.points of each keypoint, -1 where it was not triangulated


@dataclass(frozen=True)
class Scene:
    """The largest reconstruction that a folder of photos gave."""

    photos: tuple[Photo, ...]
    points: Array  # (M, 3) in the world
    matches: Mapping[tuple[int, int], Array]  # (a, b), a < b: what SIFT matching found, (K, 2) keypoints of a and of b
    unreadable: tuple[str, ...]
    registered_by: str = SIFT  # whose matches were mapped


@dataclass(frozen=True)
class SiftMatches:
    """COLMAP's database of keypoints and matches of a scene, and the grey copies that it names."""

    database: Path
    folder: Path
    unreadable: tuple[str, ...]


def reconstruct_sift(
    photos: Sequence[Path],
    work: Path,
    *,
    max_keypoints: int,
    threads: int = -1,
    mapper_threads: int = 1,
    progress: Progress = silent,
) -> Scene:
    """Reconstruct by SIFT alone in the folder `work`; what is done there already is not done again.

    threads: that match; mapper_threads: with more than one, the same photos do not always give the same scene.
    """
    matched = match_by_sift(photos, work, max_keypoints=max_keypoints, threads=threads, progress=progress)
    progress(0, 1, "mapping")
    return map_scene(matched, threads=mapper_threads)


def reconstruct_scene(
    photos: Sequence[Path],
    work: Path,
    *,
    max_keypoints: int,
    threads: int = 1,
    mapper_threads: int = 1,
    progress: Progress = silent,
) -> Scene:
    """Reconstruct by SIFT's matches; where they join fewer than half of the photos, by ours, if these join more."""
    matched = match_by_sift(photos, work, max_keypoints=max_keypoints, threads=threads, progress=progress)
    progress(0, 1, "mapping")
    try:
        by_sift = map_scene(matched, threads=mapper_threads)
    except NotReconstructed:
        return _map_ours(matched, threads, mapper_threads, progress)
    if len(by_sift.photos) >= ENOUGH * (len(photos) - len(matched.unreadable)):
        return by_sift
    try:
        ours = _map_ours(matched, threads, mapper_threads, progress)
    except (NotReconstructed, EndedEarly):
        return by_sift
    return max(by_sift, ours, key=lambda scene: len(scene.photos))  # SIFT's if they are equal


def match_by_sift(
    photos: Sequence[Path], work: Path, *, max_keypoints: int, threads: int = -1, progress: Progress = silent
) -> SiftMatches:
    """Extract and match SIFT: all that `map_scene` needs."""
    colmap.pycolmap()  # fails before anything is read if the package is missing
    readable, unreadable = _grey_copies(photos, work / "photos", progress)
    if len(readable) < SMALLEST_MODEL:
        raise NotReconstructed(f"{len(readable)} readable photos; a scene needs at least {SMALLEST_MODEL}.")
    database = work / "database.db"
    _extract(database, work / "photos", readable, max_keypoints, progress)
    progress(0, 1, "matching")
    match_sift(database, neighbours=None if len(readable) <= EXHAUSTIVE else NEIGHBOURS, threads=threads)
    return SiftMatches(database, work / "photos", unreadable)


def map_scene(matched: SiftMatches, *, threads: int, by: str = SIFT, database: Path | None = None) -> Scene:
    """Map incrementally. database: the same keypoints with the matches of another model, whose name is `by`."""
    # Depth is needed at as many keypoints as there are, so points that two photos see count as well.
    asked = colmap.MappingTask(smallest=SMALLEST_MODEL, two_view_tracks=True, most_models=3, threads=threads)
    model = colmap.as_arrays(colmap.map_photos(database or matched.database, asked=asked))
    with colmap.opened(matched.database) as store:
        photos = tuple(_photo(photo, store.frames(photo.name), matched.folder) for photo in model.photos)
        found = {(a, b): store.matches(photos[a].name, photos[b].name) for a, b in combinations(range(len(photos)), 2)}
    matches = {pair: rows for pair, rows in found.items() if rows is not None}
    return Scene(photos, model.xyz, matches, matched.unreadable, by)


def _grey_copies(photos: Sequence[Path], folder: Path, progress: Progress) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Upright grey copies, so that COLMAP and we see the same pixels whatever the format or EXIF turn."""
    readable, unreadable = {}, []
    for number, photo in enumerate(photos):
        progress(number, len(photos), "reading photos")
        name = f"{number:05}.png"  # sorted as the photos are, and no two alike
        try:
            if not (folder / name).exists():
                grey, _ = images.shrink(images.read(photo), LONGEST_SIDE)
                with atomic_write(folder / name) as temporary:
                    cv2.imwrite(str(temporary), grey, [cv2.IMWRITE_PNG_COMPRESSION, 1])
            readable[name] = photo
        except UnreadableImage as error:
            unreadable.append(str(error))
    return readable, tuple(unreadable)


def _extract(database: Path, folder: Path, photos: Mapping[str, Path], max_keypoints: int, progress: Progress) -> None:
    """OpenCV's SIFT, four times as fast as COLMAP's on a CPU, and the keypoints that `hynet match` will meet."""
    # Without the precise upscale every keypoint is a quarter of a pixel off.
    sift = cv2.SIFT.create(max_keypoints, contrastThreshold=CONTRAST, enable_precise_upscale=True)
    with colmap.opened(database) as store:
        for done, (name, original) in enumerate(photos.items()):
            progress(done, len(photos), "finding keypoints")
            if name in store.names:
                continue
            grey = images.read(folder / name)
            found, descriptors = sift.detectAndCompute(grey, None)
            if not found:
                descriptors = np.zeros((0, 128), np.float32)
            with store.transaction():
                # The grey copy has lost its EXIF.
                camera = store.add_camera(colmap.guess_camera(grey.shape[::-1], original))
                store.add_photo(name, camera, _frames(found), _root_sift(descriptors))


def _frames(found: Sequence[Any]) -> Array:
    """(N, 2, 3) of OpenCV's keypoints, whose size is two sigma."""
    circles = np.array([(*k.pt, k.size / 2, np.deg2rad(k.angle)) for k in found], np.float64).reshape(-1, 4)
    return Keypoints.from_circles(circles[:, :2], circles[:, 2], circles[:, 3], circles[:, 2]).frames


def _root_sift(descriptors: Array) -> Array:
    """Convert to what COLMAP stores: the square root of the L1-normalised histogram, times 512, in bytes."""
    total = descriptors.sum(1, keepdims=True) + 1e-9
    return np.clip(np.rint(512 * np.sqrt(descriptors / total)), 0, 255).astype(np.uint8)


def _photo(photo: colmap.ModelPhoto, frames: Array, folder: Path) -> Photo:
    return Photo(
        name=photo.name,
        path=folder / photo.name,
        camera=photo.camera,
        cam_from_world=photo.cam_from_world,
        keypoints=Keypoints(frames, np.ones(len(frames))),
        points=photo.points,
    )


# --- Our own matches of the same keypoints ---


def _map_ours(matched: SiftMatches, threads: int, mapper_threads: int, progress: Progress) -> Scene:
    database = _match_again(matched, threads, progress)
    progress(0, 1, "mapping")
    return map_scene(matched, threads=mapper_threads, by=MODEL, database=database)


def _match_again(matched: SiftMatches, threads: int, progress: Progress) -> Path:
    """Make a database of the same photos and keypoints with our matches; the pairs that it has already are kept."""
    features, again = matched.database.with_name("features.h5"), matched.database.with_name("again.db")
    if not features.exists():
        _describe(matched, features, progress)
    if not again.exists():
        with atomic_write(again) as temporary:
            shutil.copyfile(matched.database, temporary)
            with colmap.opened(temporary) as store:
                store.forget_pairs()
    with colmap.opened(again) as store:
        pairs = choose_pairs("auto", store.names, lambda name: read_h5(features, name).descriptors, progress)
        match_all(store, features, pairs, matcher=Consensus(), threads=threads, progress=progress)
    return again


def _describe(matched: SiftMatches, features: Path, progress: Progress) -> None:
    import h5py  # here, since most scenes do not need it

    extract = Extractor(model=load(MODEL))  # not by name: what a user calibrated for it must not change a set
    with (
        colmap.opened(matched.database) as store,
        atomic_write(features) as temporary,
        h5py.File(temporary, "w") as file,
    ):
        for done, name in enumerate(store.names):
            progress(done, len(store.names), "describing")
            frames = store.frames(name)
            keypoints = Keypoints(frames, np.ones(len(frames)))
            write_group(file, name, extract.describe(images.read(matched.folder / name), keypoints))
