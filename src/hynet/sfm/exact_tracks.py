"""A model -> the same, more exactly: of every point, the photos that see it are aligned with one of them.

As `matchers.refinement` does for two photos. Everything is then adjusted once more to the places so found.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import colmap, images
from ..errors import UnreadableImage
from ..matchers.refinement import located
from ..patches import Pyramid
from ..system.processes import Helper
from ..types import Array

AT_HAND = 16  # photos, so that memory is bounded; pairs are taken in squares of half as many


def exact(
    model: Any, database: Path, photos: Mapping[str, Path], *, known_cameras: bool = False, threads: int = 1
) -> Any:
    """The model (a pycolmap.Reconstruction) from photos by name; `database` has the keypoints it was made from.

    In a process of its own, which Ctrl-C can end, as for mapping.
    """
    scratch = database.with_name(".exact")
    shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed here
    scratch.mkdir()
    try:
        model.write_binary(scratch)
        with Helper() as helper:
            helper.call(f"{__name__}:exact_here", scratch, database, dict(photos), known_cameras, threads)
        return colmap.pycolmap().Reconstruction(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def exact_here(folder: Path, database: Path, photos: Mapping[str, Path], known_cameras: bool, threads: int) -> None:
    """The model of a folder, in its place."""
    model = colmap.pycolmap().Reconstruction(folder)
    with colmap.opened(database) as store:
        frames = {image.name: store.frames(image.name).astype(np.float64) for image in model.images.values()}
    if move_keypoints(model, frames, photos):
        colmap.adjust(model, known_cameras=known_cameras, threads=threads)
        model.write_binary(folder)


def move_keypoints(model: Any, frames: Mapping[str, Array], photos: Mapping[str, Path]) -> int:
    """To where each shows what its point's reference does; how many were aligned. frames: (N, 2, 3) by photo.

    Keypoints without a size, and those of photos that are gone or have become others, stay where they are.
    """
    sizes = {name: np.linalg.det(own[:, :, :2]) for name, own in frames.items()}
    if not all(len(some) and some.min() > 0 and np.ptp(some) > 0 for some in sizes.values()):
        return 0

    @lru_cache(maxsize=AT_HAND)
    def pyramid(name: str) -> Pyramid | None:
        try:
            image = images.read(photos[name])
        except (KeyError, UnreadableImage):
            return None
        camera = model.cameras[numbered[name].camera_id]
        return Pyramid(image) if image.shape == (camera.height, camera.width) else None

    numbered = {image.name: image for image in model.images.values()}
    aligned = 0
    for name, other, rows, columns in _aligned_pairs(colmap.as_arrays(model), sizes):
        first, second = pyramid(name), pyramid(other)
        if first is None or second is None:
            continue
        places = located(first, frames[name][rows], second, frames[other][columns])
        for column, place in zip(columns.tolist(), places + colmap.HALF, strict=True):
            numbered[other].points2D[column].xy = place
        aligned += len(rows)
    return aligned


def _aligned_pairs(model: colmap.Model, sizes: Mapping[str, Array]) -> Iterator[tuple[str, str, Array, Array]]:
    """Two photos, and the keypoints (K,), (K,) of points of which the first is the reference and the second another.

    The reference of a point is the keypoint of middle size: nothing is aligned across more of a zoom than needed.
    """
    names = [photo.name for photo in model.photos]
    seen = [np.flatnonzero(photo.points >= 0) for photo in model.photos]
    photo = np.repeat(np.arange(len(names)), [len(rows) for rows in seen])  # of each observation
    keypoint = np.concatenate(seen)
    point = np.concatenate([each.points[rows] for each, rows in zip(model.photos, seen, strict=True)])
    size = np.concatenate([sizes[name][rows] for name, rows in zip(names, seen, strict=True)])
    order = np.lexsort([size, point])
    starts = np.flatnonzero(np.r_[True, np.diff(point[order]) != 0])
    lengths = np.diff(np.r_[starts, len(order)])
    reference = np.repeat(order[starts + lengths // 2], lengths)  # of each observation in this order
    others = order[order != reference]
    reference = reference[order != reference]
    near = AT_HAND // 2
    squares = photo[reference] // near, photo[others] // near
    together = np.lexsort([photo[others], photo[reference], squares[1], squares[0]])
    pairs = np.column_stack([photo[reference], photo[others]])[together]
    for some in np.split(together, np.flatnonzero(np.any(np.diff(pairs, axis=0) != 0, axis=1)) + 1):
        if len(some):
            a, b = reference[some], others[some]
            yield names[photo[a[0]]], names[photo[b[0]]], keypoint[a], keypoint[b]
