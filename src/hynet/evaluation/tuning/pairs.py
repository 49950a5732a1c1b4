"""Pairs of photos with the truth about them, from what people have.

SEQUENCE/1.jpg, 2.jpg ..., H_1_2 ...     homography sequences
SCENE/*.jpg                              plain photos that overlap: structure from motion finds points they share
cameras.bin, images.bin ... and photos   a COLMAP model, which knows them already
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, inf
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from ... import images
from ...datasets import sequences
from ...errors import BadInput, DataNotFound, UnreadableImage
from ...geometry import estimators, two_views
from ...patchsets import scenes as sfm
from ...runtime import fingerprints
from ...runtime.files import make_folder
from ...runtime.locks import exclusive_lock
from ...runtime.machine import cache_folder
from ...runtime.processes import EndedEarly
from ...sfm import colmap
from ...sfm.colmap.reading import read_model
from ...types import Array, Features, Progress, silent

Item = TypeVar("Item")

MAX_KEYPOINTS = 4000  # a photo, for structure from motion
FEWEST_SHARED = 30  # points that both photos of a pair see
STRICT = 2.0  # pixels from one epipolar geometry within which most shared points must be


class Truth(Protocol):
    @property
    def geometry(self) -> str:
        """The kind of geometry that can be verified against it."""
        ...

    def distances(self, first: Array, second: Array) -> Array:
        """Distances of matches (K, 2), (K, 2) from the truth in pixels: (K,)."""
        ...

    def error(self, model: Array | None, a: Features) -> float:
        """Error of a (3, 3) geometry found for the pair, in pixels; infinite if none was found."""
        ...


@dataclass(frozen=True)
class Homography:
    """A plane, or a camera that only turned. An error is how far the corners of the first photo go wrong on average."""

    second_from_first: Array  # (3, 3)
    geometry: str = "homography"

    def distances(self, first: Array, second: Array) -> Array:
        return two_views.transfer_error(self.second_from_first, first, second)

    def error(self, model: Array | None, a: Features) -> float:
        return inf if model is None else two_views.corner_error(model, self.second_from_first, a.image_size)


@dataclass(frozen=True)
class SharedPoints:
    """Pixels at which both photos see the same 3-D points. An error is the third quartile of their distances.

    No camera is asked: where focal lengths had to be guessed, poses are worth little, but the points still agree.
    """

    first: Array  # (M, 2) pixels
    second: Array  # (M, 2)
    fundamental: Array  # (3, 3), of these points
    geometry: str = "fundamental"

    def distances(self, first: Array, second: Array) -> Array:
        return two_views.sampson_distance(self.fundamental, first, second)

    def error(self, model: Array | None, a: Features) -> float:
        return (
            inf
            if model is None
            else float(np.quantile(two_views.sampson_distance(model, self.first, self.second), 0.75))
        )


@dataclass(frozen=True)
class Pair:
    first: Path
    second: Path
    truth: Truth


def find_pairs(folder: str | Path, most: int, *, progress: Progress = silent) -> list[Pair]:
    """At most about so many pairs, evenly from all that the folder holds."""
    folder = Path(folder)
    if most < 1:
        raise BadInput(f"at least one pair is needed, got {most}.")
    if not folder.is_dir():
        raise DataNotFound(f"no folder {folder}; give homography sequences, folders of photos or a COLMAP model.")
    if any(sequences.homography_file(path, 2) for path in (folder, *folder.glob("*/"))):
        return spread([pair for sequence in sequences.load(folder) for pair in _sequence_pairs(sequence)], most)
    if model := next((path for path in (folder, folder / "sparse", folder / "sparse/0") if _is_model(path)), None):
        return _model_pairs(model, folder, most)
    scenes = [path for path in sorted(folder.glob("*/")) if _photos(path)] or [folder]
    pairs, problem = [], "there are no photos"
    for done, scene in enumerate(scenes):
        progress(done, len(scenes), f"reconstructing {scene.name}")
        try:
            pairs += _photo_pairs(_photos(scene), ceil(most / len(scenes)), progress)
        except (colmap.NotReconstructed, EndedEarly) as error:
            problem = f"{scene.name}: {error}"
    if not pairs:
        raise DataNotFound(f"no two photos in {folder} have a known geometry ({problem}); add photos that overlap.")
    return pairs


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most so many items, evenly from first to last."""
    return [items[round(k)] for k in np.linspace(0, len(items) - 1, min(most, len(items)))]


def _sequence_pairs(sequence: sequences.ImageSequence) -> list[Pair]:
    first, *others = sequence.photos
    return [Pair(first, other, Homography(H)) for other, H in zip(others, sequence.homographies, strict=True)]


@dataclass(frozen=True)
class _View:
    path: Path
    xy: Array  # (N, 2) in pixels of the photo
    points: Array  # (N,) the 3-D point seen there, -1 for none


def _photo_pairs(photos: Sequence[Path], most: int, progress: Progress) -> list[Pair]:
    work = make_folder(_cache(photos))
    with exclusive_lock(work, wait=True):
        scene = sfm.reconstruct_sift(photos, work, max_keypoints=MAX_KEYPOINTS, progress=progress)
    views = []
    for photo in scene.photos:
        original = photos[int(photo.path.stem)]  # the scene is in pixels of copies, numbered and perhaps smaller
        scale = max(images.read(photo.path).shape) / max(images.read(original).shape)
        views.append(_View(original, images.unshrink(photo.keypoints.xy, scale), photo.points))
    return _overlapping(views, most)


def _model_pairs(model: Path, folder: Path, most: int) -> list[Pair]:
    named = {
        path.relative_to(place).as_posix(): path for place in (folder, folder / "images") for path in _photos(place)
    }
    views = [
        _View(named[photo.name], photo.xy, photo.points)
        for photo in read_model(model).photos
        if photo.name in named and _size(named[photo.name]) == photo.camera.size
    ]
    if pairs := _overlapping(views, most):
        return pairs
    raise DataNotFound(
        f"no two photos of the COLMAP model in {model} are in {folder} or {folder / 'images'}, upright and of the size "
        "that the model has; put them there."
    )


def _size(photo: Path) -> tuple[int, int] | None:
    """None where it cannot be read."""
    try:
        return images.size(photo)
    except UnreadableImage:
        return None


def _overlapping(views: Sequence[_View], most: int) -> list[Pair]:
    """Pairs that share points on one geometry, evenly from those that share most to those that share least."""
    found = sorted(_sharing(views), key=lambda each: -each[0])
    return spread([pair for _, pair in found], most)


def _sharing(views: Sequence[_View]) -> Iterator[tuple[float, Pair]]:
    """Each pair, and the share of their points that both see."""
    for a, b in combinations(views, 2):
        shared, in_a, in_b = np.intersect1d(a.points, b.points, return_indices=True)
        in_a, in_b = in_a[shared >= 0], in_b[shared >= 0]
        if len(in_a) < FEWEST_SHARED:
            continue
        first, second = a.xy[in_a], b.xy[in_b]
        F, agree = estimators.fundamental(first, second, STRICT)
        if F is not None and agree.mean() > 0.75:
            points = min((view.points >= 0).sum() for view in (a, b))
            yield len(in_a) / points, Pair(a.path, b.path, SharedPoints(first[agree], second[agree], F))


def _cache(photos: Sequence[Path]) -> Path:
    """Folder of keypoints and matches of photos with this content."""
    return cache_folder() / "truth" / fingerprints.values([fingerprints.photo(photo) for photo in photos])


def _is_model(folder: Path) -> bool:
    return any((folder / f"images.{ending}").is_file() for ending in ("bin", "txt"))


def _photos(folder: Path) -> list[Path]:
    try:
        return images.list_photos(folder)
    except DataNotFound:
        return []
