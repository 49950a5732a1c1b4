"""Pairs of keypoints of two photos."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadData, BadInput
from ..runtime.arrays import Array, load_arrays, save_arrays
from .features import Features


@dataclass(frozen=True, repr=False)
class Matches:
    """Pairs of keypoints of two photos that may show the same point. Empty is an answer, not an error."""

    indices: Array  # (K, 2) int64: row of the first, row of the second
    distances: Array  # (K,) float32 between unit descriptors, 0 to 2
    confidence: Array | None = None  # (K,) float32, the probability that each is right; None: not known
    # (K, 2) float32 pixels: exact positions in the second photo of the points that the first keypoints show, by
    # `refine`; None: the positions of the second keypoints
    refined: Array | None = None

    def __post_init__(self) -> None:
        if self.indices.ndim != 2 or self.indices.shape[1] != 2 or self.distances.shape != self.indices.shape[:1]:
            raise BadInput(
                f"matches must be (K, 2) with one distance each, got {self.indices.shape} and {self.distances.shape}."
            )
        if self.confidence is not None and self.confidence.shape != self.distances.shape:
            raise BadInput(f"{len(self.indices)} matches need as many confidences, got {self.confidence.shape}.")
        if self.refined is not None and self.refined.shape != self.indices.shape:
            raise BadInput(f"{len(self.indices)} matches need as many refined places, got {self.refined.shape}.")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: Any) -> Matches:
        optional = (None if column is None else column[rows] for column in (self.confidence, self.refined))
        return Matches(self.indices[rows], self.distances[rows], *optional)

    def places(self, a: Features, b: Features) -> tuple[Array, Array]:
        """Positions of the matches in the first and in the second photo: (K, 2) pixels each."""
        rows, columns = self.indices.T
        if rows.max(initial=-1) >= len(a) or columns.max(initial=-1) >= len(b):
            raise BadInput(f"these matches are not of these features ({len(a)} and {len(b)}).")
        return a.keypoints.xy[rows], b.keypoints.xy[columns] if self.refined is None else self.refined

    def save(self, path: str | Path) -> None:
        """Save to one .npz file; `Matches.load` reads it."""
        save_arrays(path, "Matches", {each.name: getattr(self, each.name) for each in fields(self)})

    @classmethod
    def load(cls, path: str | Path) -> Matches:
        """Load a file that `save` wrote."""
        columns = load_arrays(path, "Matches")
        try:
            return cls(**columns)
        except (TypeError, ValueError, AttributeError) as error:
            raise BadData(f"{path} holds matches that cannot be used ({error}); save them again.") from None

    def __repr__(self) -> str:
        return f"<{len(self)} matches>"

    def _repr_html_(self) -> str:
        """Show the distances in a notebook."""
        from . import showing

        if not len(self):
            return showing.histogram(self.distances, 1, "no matches")
        low, middle, high = np.percentile(self.distances, (0, 50, 100))
        words = f"{len(self)} matches; distance {low:.2f} to {high:.2f}, median {middle:.2f}"
        return showing.histogram(self.distances, float(high) or 1, words)
