"""Orientation of keypoints: where their surroundings get brighter, by SIFT's histogram of gradients."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...geometry.two_views import rotations
from ...images.patches import cut
from ...types import Array, Keypoints

ANGLE_BINS = 36
SECOND = 0.8  # of the highest peak: a peak as high as this is an orientation too, as Lowe
FLAT = (
    1e-3  # of a histogram, where an edge of one grey level has 4: what is less is rounding, which differs by processor
)
AT_ONCE = 512  # keypoints: their patches stay in the cache

SIDE, SUPPORT = 27, 12.0  # pixels and detector sigmas of the patch that is looked at
BLUR = 2.2  # pixels of that patch, before gradients are taken: one sigma, as SIFT
# Sigmas of the Gaussian that weighs them. DoG alone would take 2, Key.Net 4: studies/orientation.py.
WINDOW = 3.0


def oriented(image: Array, keypoints: Keypoints) -> Keypoints:
    """Upright keypoints in (H, W) grey, each turned to where it gets brighter; with two such directions, both."""
    frames, scores = [np.zeros((0, 2, 3), np.float32)], [np.zeros(0, np.float32)]
    for start in range(0, len(keypoints), AT_ONCE):
        some = keypoints[start : start + AT_ONCE]
        rows, angles = peaks(image, some)
        A = some.frames[rows, :, :2] @ rotations(angles)
        frames.append(np.concatenate([A, some.frames[rows, :, 2:]], 2).astype(np.float32))
        scores.append(some.scores[rows])
    return Keypoints(np.concatenate(frames), np.concatenate(scores))


def peaks(image: Array, keypoints: Keypoints) -> tuple[Array, Array]:
    """Rows (M,) of the keypoints, in order and each at least once, and angles (M,) relative to their frames."""
    dx, dy = (slope.reshape(len(keypoints), -1) for slope in gradients(image, keypoints))
    histogram = _smooth(_histograms(np.arctan2(dy, dx), np.hypot(dx, dy) * window(WINDOW).ravel()))
    before, after = np.roll(histogram, 1, 1), np.roll(histogram, -1, 1)
    least = np.maximum(SECOND * histogram.max(1, keepdims=True), FLAT)
    high = (histogram > before) & (histogram >= after) & (histogram >= least)
    high[~high.any(1), 0] = True  # a flat patch
    rows, bins = np.nonzero(high)
    around = (each[rows, bins] for each in (before, histogram, after))
    return rows, (bins + vertex(*around)) * (2 * np.pi / ANGLE_BINS)


def gradients(image: Array, keypoints: Keypoints, blur: float = BLUR) -> tuple[Array, Array]:
    """Derivatives along x and y of the patches of the keypoints, blurred by so many pixels: (n, SIDE, SIDE) each."""
    patches = cut(image, keypoints, SIDE, SUPPORT).astype(np.float32)
    smooth, slope = _blur_and_slope(blur)
    return smooth @ patches @ slope.T, slope @ patches @ smooth.T


def vertex(before: Array, at: Array, after: Array) -> Array:
    """Offset, from -1/2 to 1/2, of the top of the parabola through three values, the middle one the highest."""
    bend = 2 * at - before - after
    return np.where(bend > 0, (after - before) / (2 * np.maximum(bend, 1e-12)), 0).clip(-0.5, 0.5)


@cache
def window(sigmas: float) -> Array:
    """A Gaussian of that many detector sigmas over the patch, zero in its corners: (SIDE, SIDE)."""
    along = (np.arange(SIDE) - (SIDE - 1) / 2) * (SUPPORT / SIDE)
    square = along**2 + along[:, None] ** 2
    return np.where(square < (SUPPORT / 2) ** 2, np.exp(-square / (2 * sigmas**2)), 0).astype(np.float32)


@cache
def _blur_and_slope(blur: float) -> tuple[Array, Array]:
    """The Gaussian and its derivative as matrices: a row takes a line of pixels to its value at one of them."""
    away = np.arange(SIDE) - np.arange(SIDE)[:, None]
    smooth = np.exp(-(away**2) / (2 * blur**2))
    smooth /= smooth.sum(1, keepdims=True)
    slope = away / blur**2 * smooth
    slope -= slope.sum(1, keepdims=True) * smooth  # at the border, where a part of the Gaussian is missing
    return smooth.astype(np.float32), slope.astype(np.float32)


def _histograms(angles: Array, weights: Array) -> Array:
    """Each row's weights over its angles, shared between the two nearest bins: (n, m) -> (n, ANGLE_BINS)."""
    place = angles * (ANGLE_BINS / (2 * np.pi))
    lower = np.floor(place).astype(int)
    bins = np.stack([lower, lower + 1]) % ANGLE_BINS + ANGLE_BINS * np.arange(len(angles))[:, None]
    shares = np.stack([lower + 1 - place, place - lower]) * weights
    return np.bincount(bins.ravel(), shares.ravel(), len(angles) * ANGLE_BINS).reshape(-1, ANGLE_BINS)


def _smooth(histogram: Array) -> Array:
    for _ in range(2):
        histogram = (np.roll(histogram, 1, 1) + 2 * histogram + np.roll(histogram, -1, 1)) / 4
    return histogram
