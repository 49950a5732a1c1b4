"""Two photos to try things on, with the truth about them where it is known."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..types import Array
from . import read

# Their ATTRIBUTION.md says who took them.
SACRE_COEUR = Path(__file__).with_name("sacre_coeur")


@dataclass(frozen=True)
class Example:
    """A pair of photos, and how far a match is from the truth."""

    about: str
    paths: tuple[Path, Path]
    error: Callable[[Array, Array], Array] | None = None  # (K, 2), (K, 2) -> (K,) pixels, nan where not known

    @property
    def photos(self) -> tuple[Array, Array]:
        """(H, W) grey each."""
        return read(self.paths[0]), read(self.paths[1])


def example() -> Example:
    """The motorcycle of Middlebury's stereo benchmark where scikit-image is installed, else the Sacré-Cœur."""
    # Only looked up, not imported: its photos are files in its folder.
    found = importlib.util.find_spec("skimage")
    folder = Path(found.origin).parent / "data" if found is not None and found.origin else None
    if folder is not None and (folder / "motorcycle_disp.npz").exists():
        return _motorcycle(folder)
    return sacre_coeur()


def sacre_coeur() -> Example:
    """The pair that ships with the package: one building, two cameras, noon and evening."""
    about = "the Sacré-Cœur at noon and in the evening (photos by dullhunk and beggs, CC BY 2.0)"
    return Example(about, (SACRE_COEUR / "noon.jpg", SACRE_COEUR / "evening.jpg"))


def _motorcycle(folder: Path) -> Example:
    with np.load(folder / "motorcycle_disp.npz") as stored:
        disparity = stored["arr_0"]  # (H, W) of the left photo: x_right = x_left - disparity

    def error(first: Array, second: Array) -> Array:
        column, row = np.rint(first).astype(int).clip(0, np.array(disparity.shape[::-1]) - 1).T
        expected = first - np.column_stack([disparity[row, column], np.zeros(len(first))])
        away = np.linalg.norm(expected - second, axis=1)
        return np.where(np.isfinite(away), away, np.nan)

    about = "a stereo pair of a motorcycle (Middlebury 2014, from scikit-image)"
    return Example(about, (folder / "motorcycle_left.png", folder / "motorcycle_right.png"), error)
