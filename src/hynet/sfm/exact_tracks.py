"""Refining a model: the photos that see a point are aligned with one of them.

As `matchers.refinement` does for two photos, near the detected places. Everything is then adjusted once more to the
places so found.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import images
from ..errors import BadInput, HynetError, UnreadableImage
from ..images.patches import Pyramid
from ..matching.refinement import SIZE, Templates, located
from ..runtime.processes import EndedEarly, Worker, tell
from ..types import Array, Progress, silent
from . import colmap
from .colmap import Model

SCRATCH = ".exact"  # a folder beside the model while it is refined
Observed = tuple[Array, Array]  # of one photo: rows (K,) of its frames, rows (K,) of the model's points


def exact(
    model: Path,
    database: Path,
    photos: Mapping[str, Path],
    *,
    known_cameras: bool,
    threads: int,
    progress: Progress = silent,
) -> Any:
    """Refine the model of a folder with photos by name: a pycolmap.Reconstruction. `database` has its keypoints.

    In a process of its own, which Ctrl-C can end, as for mapping.
    """
    scratch = model / SCRATCH
    scratch.mkdir()

    def read(count: int) -> None:
        progress(count, 2 * len(photos), "refining")

    read(0)
    task = model, scratch, database, dict(photos), known_cameras, threads
    try:
        with Worker(threads=threads) as worker:
            worker.call(f"{__name__}:exact_here", *task, news=read)
        return colmap.open_model(scratch)
    except (EndedEarly, ValueError, RuntimeError, np.linalg.LinAlgError) as error:
        raise HynetError(
            f"the model could not be refined ({error}) and is kept as it was mapped; --no-refine leaves it so."
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def exact_here(
    folder: Path, out: Path, database: Path, photos: Mapping[str, Path], known_cameras: bool, threads: int
) -> None:
    """Refine the model of one folder into another; as it is where refining would lose a photo."""
    model = colmap.open_model(folder)
    before = model.num_reg_images()
    with colmap.opened(database) as store:
        frames = {name: store.frames(name) for name in colmap.registered(model)}
    if move_keypoints(model, frames, photos, out):
        colmap.adjust(model, known_cameras=known_cameras, threads=threads)
    if model.num_reg_images() < before:
        model = colmap.open_model(folder)
    model.write_binary(out)


def move_keypoints(model: Any, frames: Mapping[str, Array], photos: Mapping[str, Path], scratch: Path) -> int:
    """Move keypoints to where they look like their point's reference; count them. frames: (N, 2, 3) by photo.

    Every photo is read twice, one at a time: once for what its references show, once to be aligned with others'.
    Keypoints without a size, and those of photos that are gone or have become others, stay where they are.
    """
    found = colmap.as_arrays(model)
    sigmas = {name: np.sqrt(np.abs(np.linalg.det(own[:, :, :2].astype(np.float64)))) for name, own in frames.items()}
    if any(not len(some) or some.min() <= 0 or np.ptp(some) == 0 for some in sigmas.values()):
        return 0
    patches = np.memmap(scratch / "templates", np.uint8, "w+", shape=(max(1, len(found.xyz)), SIZE, SIZE))
    blur = np.full(len(found.xyz), np.nan)  # of points whose reference was not seen
    references, others = _observations(found, sigmas)
    aligned = 0
    for count, (name, (rows, points)) in enumerate(references.items(), start=1):
        pyramid = _pyramid(found, name, photos)
        if pyramid is not None:
            templates = Templates.of(pyramid, frames[name][rows].astype(np.float64))
            patches[points] = templates.patches
            blur[points] = templates.blur
        tell(count)
    for count, (name, (rows, points)) in enumerate(others.items(), start=1 + len(references)):
        pyramid = _pyramid(found, name, photos)
        known = np.isfinite(blur[points])
        if pyramid is not None and known.any():
            rows, points = rows[known], points[known]
            templates = Templates(patches[points], blur[points])
            colmap.move(model, name, rows, located(templates, pyramid, frames[name][rows].astype(np.float64)))
            aligned += len(rows)
        tell(count)
    return aligned


def _observations(model: Model, sigmas: Mapping[str, Array]) -> tuple[dict[str, Observed], dict[str, Observed]]:
    """Split the keypoints of each photo into references of points and the others.

    The reference of a point is its keypoint of middle size: nothing is aligned across more of a zoom than needed.
    """
    names = [photo.name for photo in model.photos]
    seen = [np.flatnonzero(photo.points >= 0) for photo in model.photos]
    photo = np.repeat(np.arange(len(names)), [len(rows) for rows in seen])  # of each observation
    row = np.concatenate(seen)
    point = np.concatenate([each.points[rows] for each, rows in zip(model.photos, seen, strict=True)])
    order = np.lexsort([np.concatenate([sigmas[name][rows] for name, rows in zip(names, seen, strict=True)]), point])
    starts = np.flatnonzero(np.diff(point[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    is_reference = np.zeros(len(order), bool)
    is_reference[order[starts + lengths // 2]] = True

    def by_photo(which: Array) -> dict[str, Observed]:
        return {name: (row[some], point[some]) for k, name in enumerate(names) if (some := which & (photo == k)).any()}

    return by_photo(is_reference), by_photo(~is_reference)


def _pyramid(model: Model, name: str, photos: Mapping[str, Path]) -> Pyramid | None:
    """Read the photo that the keypoints were detected in; None where it is gone or has become another."""
    try:
        image = images.read(photos[name])
        size = next(photo.camera.size for photo in model.photos if photo.name == name)
        return Pyramid(image) if image.shape[::-1] == size else None
    except (KeyError, UnreadableImage, BadInput):
        return None
