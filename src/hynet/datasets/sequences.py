"""Photos of one flat (or far) scene with the homographies between them, as Oxford's affine set and HPatches have it.

root/SEQUENCE/1.jpg ... 6.jpg, H_1_2 ... H_1_6        H_1_k maps pixels of photo 1 to photo k
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import BadData, DataNotFound
from ..images import SUFFIXES
from ..types import Array


@dataclass(frozen=True)
class ImageSequence:
    """The first photo, and how every other is reached from it."""

    name: str
    photos: Sequence[Path]  # the first, then the others
    homographies: Sequence[Array]  # (3, 3) each: other_from_first, one less than photos


def load(root: str | Path) -> list[ImageSequence]:
    """All sequences in a folder, or the folder's own; every photo after the first that has an H_1_k."""
    root = Path(root)
    return [_sequence(path) for path in ([root] if photo(root, 1) else folders(root))]


def recognise(root: Path) -> bool:
    """Whether a folder has this layout, or holds folders that have."""
    return any(photo(folder, 1) and homography_file(folder, 2) for folder in (root, *root.glob("*")))


def folders(root: str | Path) -> list[Path]:
    """The folders that hold a photo 1, sorted."""
    found = sorted(path for path in Path(root).glob("*") if path.is_dir() and photo(path, 1))
    if not found:
        raise DataNotFound(f"no SEQUENCE/1.ppm (or .png, .jpg) in {root}; give the folder of the sequences.")
    return found


def photo(folder: Path, number: int) -> Path | None:
    """The photo of that number, whatever its format."""
    return next((path for path in sorted(folder.glob(f"{number}.*")) if path.suffix.lower() in SUFFIXES), None)


def homography_file(folder: Path, number: int) -> Path | None:
    """H_1_k, under any of the names in use."""
    names = (f"H_1_{number}", f"H1to{number}p", f"H1to{number}")
    return next((folder / name for name in names if (folder / name).exists()), None)


def homography(path: Path) -> Array:
    """(3, 3), scaled so that what lies in front has a positive divisor."""
    try:
        H = np.loadtxt(path)
        if H.shape == (3, 3) and np.isfinite(H).all() and abs(np.linalg.det(H)) > 1e-12:
            with np.errstate(all="ignore"):
                H = H / H[2, 2]
            if np.isfinite(H).all():
                return H
    except (ValueError, OSError):
        pass
    raise BadData(f"{path} is not an invertible 3 x 3 matrix of numbers.")


def _sequence(folder: Path) -> ImageSequence:
    first = photo(folder, 1)
    tables, others = [], []
    number = 2
    while (table := homography_file(folder, number)) is not None:
        other = photo(folder, number)
        if other is None:
            raise DataNotFound(f"no photo {number} in {folder}, although {table.name} is there; unpack it again.")
        tables.append(homography(table))
        others.append(other)
        number += 1
    if first is None or not others:
        raise DataNotFound(f"no H_1_2 in {folder}; a sequence has photos 1, 2 ... and H_1_2 ...")
    return ImageSequence(folder.resolve().name, [first, *others], tables)
