"""Which way the surroundings of a keypoint get brighter, by a histogram of gradients, as SIFT finds it."""

from __future__ import annotations

import numpy as np

from ..types import Array

ANGLE_BINS = 36


def dominant(gx: Array, gy: Array, window: Array) -> Array:
    """The strongest direction (n,) in radians of gradients (n, m), pixel by pixel as important as the window (m,)."""
    return _highest_bin(_histograms(np.arctan2(gy, gx), np.hypot(gx, gy) * window))


def vertex(before: Array, at: Array, after: Array) -> Array:
    """Where between -1/2 and 1/2 the parabola through three values, the middle one the highest, has its top."""
    bend = 2 * at - before - after
    return np.where(bend > 0, (after - before) / (2 * np.maximum(bend, 1e-12)), 0).clip(-0.5, 0.5)


def _histograms(angles: Array, weights: Array) -> Array:
    """Each row's weights over its angles, shared between the two nearest bins: (n, m) -> (n, ANGLE_BINS)."""
    place = angles * (ANGLE_BINS / (2 * np.pi))
    lower = np.floor(place).astype(int)
    bins = np.stack([lower, lower + 1]) % ANGLE_BINS + ANGLE_BINS * np.arange(len(angles))[:, None]
    shares = np.stack([lower + 1 - place, place - lower]) * weights
    return np.bincount(bins.ravel(), shares.ravel(), len(angles) * ANGLE_BINS).reshape(-1, ANGLE_BINS)


def _highest_bin(histogram: Array) -> Array:
    """(N, bins) -> (N,) radians, between bins by a parabola."""
    for _ in range(2):
        histogram = (np.roll(histogram, 1, 1) + 2 * histogram + np.roll(histogram, -1, 1)) / 4
    rows, top = np.arange(len(histogram)), histogram.argmax(1)
    before, at, after = (histogram[rows, (top + k) % ANGLE_BINS] for k in (-1, 0, 1))
    return (top + vertex(before, at, after)) * (2 * np.pi / ANGLE_BINS)
