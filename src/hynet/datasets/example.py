"""Two photos to try things on, with the truth about them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import images
from ..geometry import transfer_error
from ..types import Array
from . import synthetic


@dataclass(frozen=True)
class Example:
    """A pair of grey photos, and how far a match is from the truth."""

    about: str
    photos: tuple[Array, Array]  # (H, W) uint8
    error: Callable[[Array, Array], Array]  # (K, 2), (K, 2) -> (K,) pixels, nan where the truth is not known


def example() -> Example:
    """The motorcycle of Middlebury's stereo benchmark where scikit-image is installed, else a pair we make."""
    # Only looked up, not imported: its photos are files in its folder.
    found = importlib.util.find_spec("skimage")
    folder = Path(found.origin).parent / "data" if found is not None and found.origin else None
    if folder is not None and (folder / "motorcycle_disp.npz").exists():
        return _motorcycle(folder)
    return _made()


def _motorcycle(folder: Path) -> Example:
    photos = images.read(folder / "motorcycle_left.png"), images.read(folder / "motorcycle_right.png")
    with np.load(folder / "motorcycle_disp.npz") as stored:
        disparity = stored["arr_0"]  # (H, W) of the left photo: x_right = x_left - disparity

    def error(first: Array, second: Array) -> Array:
        column, row = np.rint(first).astype(int).clip(0, np.array(disparity.shape[::-1]) - 1).T
        expected = first - np.column_stack([disparity[row, column], np.zeros(len(first))])
        away = np.linalg.norm(expected - second, axis=1)
        return np.where(np.isfinite(away), away, np.nan)

    return Example("a stereo pair of a motorcycle (Middlebury 2014, from scikit-image)", photos, error)


def _made() -> Example:
    first, second, second_from_first = synthetic.photo_pair(seed=0)
    return Example(
        "a pair that was made (for real photos: pip install scikit-image, or give two of yours)",
        (first, second),
        lambda a, b: transfer_error(second_from_first, a, b),
    )
