"""Matching by bits: for models that `hynet compress --to bits256` made, whose rows are signs."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from ..errors import BadInput
from ..types import Array, Features, Matches, need_features


@dataclass(frozen=True)
class Hamming:
    """Mutual nearest neighbours by Hamming distance, with a ratio test; of equal ones the first in the second photo.

    What `match` finds in the same rows, except where distances are equal.
    """

    ratio: float | None = None  # of distances between unit rows, as everywhere; None: as suits the descriptor

    def __call__(self, a: Features, b: Features) -> Matches:
        need_features(a, b)
        ratio = a.ratio if self.ratio is None else self.ratio
        first, second = pack(a.descriptors), pack(b.descriptors)
        if first.shape[1] != second.shape[1]:
            raise BadInput("descriptors of different sizes cannot be compared; describe both photos with one model.")
        if not len(first) or not len(second):
            return Matches(np.zeros((0, 2), np.int64), np.zeros(0, np.float32))
        apart, nearest = _nearest(first, second, min(2, len(second)))
        _, back = _nearest(second, first, 1)
        rows = np.arange(len(first))
        kept = back[nearest[:, 0], 0] == rows
        if ratio is not None and ratio < 1 and apart.shape[1] > 1:
            kept &= apart[:, 0] < ratio**2 * apart[:, 1]  # squared distances of unit rows are 4 h / B
        rows = rows[kept]
        distances = np.sqrt(4 * apart[rows, 0] / (8 * first.shape[1]))
        return Matches(np.column_stack([rows, nearest[rows, 0]]).astype(np.int64), distances.astype(np.float32))


def pack(rows: Array) -> Array:
    """Signs (N, B) -> (N, B / 8) uint8, as they are stored."""
    if rows.ndim != 2 or rows.shape[1] % 8 or (len(rows) and np.ptp(np.abs(rows)) > 1e-6):
        raise BadInput("these descriptors are not bits; `hynet compress --to bits256` makes a model that gives such.")
    return np.packbits(rows > 0, axis=1)


def _nearest(first: Array, second: Array, count: int) -> tuple[Array, Array]:
    """Hamming distances and rows of the nearest in the second: (N, count) each, the nearest first."""
    apart, rows = cv2.batchDistance(first, second, cv2.CV_32S, None, None, cv2.NORM_HAMMING, count)
    return apart, rows
