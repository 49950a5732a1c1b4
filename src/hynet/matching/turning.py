"""Rotation between two photos: upright keypoints match better as long as neither photo was turned."""

from __future__ import annotations

import numpy as np

from ..types import Array, Features, Matches

ENOUGH = 30  # inliers of upright keypoints; with fewer, turned photos might have more
TURNED = np.radians(15)  # a first choice; studies/turning.py measures inliers over angle


def same_orientation(a: Features, b: Features, inliers: Matches) -> bool:
    """True if matches of upright keypoints are enough and show no rotation."""
    if len(inliers) < ENOUGH:
        return False
    rows, columns = inliers.indices.T
    return abs(turn(a.keypoints.xy[rows], b.keypoints.xy[columns])) < TURNED


def turn(first: Array, second: Array) -> float:
    """Radians by which the second points (K, 2) are rotated against the first, by least squares."""
    before, after = (np.asarray(each, np.float64) - np.mean(each, 0) for each in (first, second))
    cosine, sine = (before * after).sum(), (before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]).sum()
    return float(np.arctan2(sine, cosine))
