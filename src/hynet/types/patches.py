"""Patches with the 3-D points that they show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import BadInput
from ..runtime.arrays import Array


@dataclass(frozen=True)
class PatchSet:
    """Grey patches and which of them show the same 3-D point. `patches` may be memory-mapped."""

    patches: Array  # (P, S, S) uint8
    points: Array  # (P,) int64; same number = same 3-D point
    images: Array | None = None  # (P,) reference image: two points of one image are certainly different
    scenes: Array | None = None  # (P,) scene number: two points of different scenes are certainly different
    places: Array | None = None  # (P, 2) where in the reference image
    hard_pairs: Array | None = None  # (K, 2) rows: the same point, seen very differently

    def __post_init__(self) -> None:
        if self.patches.ndim != 3 or self.patches.shape[1] != self.patches.shape[2] or self.patches.dtype != np.uint8:
            raise BadInput(f"patches must be (P, S, S) uint8, got {self.patches.shape} {self.patches.dtype}.")
        for name in ("points", "images", "scenes"):
            column = getattr(self, name)
            if column is not None and column.shape != (len(self.patches),):
                raise BadInput(f"{name} must have one number per patch ({len(self.patches)}), got {column.shape}.")
        if self.places is not None and self.places.shape != (len(self.patches), 2):
            raise BadInput(f"places must be x and y of each patch ({len(self.patches)}, 2), got {self.places.shape}.")

    def __len__(self) -> int:
        return len(self.patches)


@dataclass(frozen=True)
class PatchPairs:
    """Pairs of rows of a PatchSet that are known to match or known not to; FPR@95 is measured on them."""

    first: Array  # (N,) int64
    second: Array  # (N,) int64
    is_match: Array  # (N,) bool

    def __post_init__(self) -> None:
        if not (self.first.shape == self.second.shape == self.is_match.shape) or self.first.ndim != 1:
            raise BadInput(
                f"pairs need three columns of one length, got {self.first.shape}, {self.second.shape}, "
                f"{self.is_match.shape}."
            )

    def __len__(self) -> int:
        return len(self.first)

    def evenly(self, most: int) -> PatchPairs:
        """Return at most so many pairs, spread evenly over all of them."""
        chosen = np.linspace(0, len(self) - 1, min(len(self), most)).astype(np.int64)
        return PatchPairs(self.first[chosen], self.second[chosen], self.is_match[chosen])
