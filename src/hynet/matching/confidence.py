"""Probabilities that a match is right, and that two photos show one place.

A match is judged by its ratio (its distance over the runner-up's) and by its neighbours: the two keypoints say how the
surface moved, and right matches nearby moved alike. Neither depends on how a descriptor scales its distances, so that
the same few weights serve all. research/confidence.py fits them and says how well they hold.
"""

from __future__ import annotations

import cv2
import numpy as np

from ..types import Array, Features

NEIGHBOURS = 20  # matches nearest to a match, in each of the photos
# How far from where a match puts its neighbour that may be: shares of the photo's longer side, and of the way to it
NEAR, STRETCH = 0.004, 0.3
DISTINCT = 0.0015  # of the longer side: what is nearer may be one thing found twice, and does not count
LITTLE = 0.05  # neighbours, added before the logarithm
LEAST = 0.2  # probability of a match that is kept: docs/matching.md has the table it was chosen by

# Weights of logistic regressions, the constant last, as research/confidence.py prints them.
BY_RATIO = (-15.8425, 12.8767)  # ratio
BY_NEIGHBOURS = (-4.0822, 0.2797, 0.717, 2.9047)  # ratio, log of the fewer and of all neighbours that moved alike
SAME_PLACE = (1.712, 1.4475, -7.5743)  # log of 1 + expected right matches, log of 1 + inliers


def confidence(a: Features, b: Features, rows: Array, columns: Array, ratios: Array) -> Array:
    """(K,) probability that each match is right; rows (K,) of a, columns (K,) of b, all matches of the two photos."""
    alone = _logistic(BY_RATIO, ratios)
    if len(rows) <= NEIGHBOURS:  # too few to ask
        return alone.astype(np.float32)
    frames = [each.keypoints.frames[chosen].astype(np.float64) for each, chosen in ((a, rows), (b, columns))]
    there = supporters(frames[0], frames[1], alone, max(a.image_size), max(b.image_size))
    back = supporters(frames[1], frames[0], alone, max(b.image_size), max(a.image_size))
    fewer, all_of_them = np.minimum(there, back), there + back
    return _logistic(BY_NEIGHBOURS, ratios, np.log(LITTLE + fewer), np.log(LITTLE + all_of_them)).astype(np.float32)


def supporters(first: Array, second: Array, weights: Array, side: int, other_side: int) -> Array:
    """(K,) sum of weights of each match's neighbours in the first photo that moved as it did.

    first, second: frames (K, 2, 3); side, other_side: longer sides of the photos in pixels.
    """
    away, neighbours = _nearest_places(first[:, :, 2])
    # x and y apart: long rows of numbers take a third of the time that pairs of them do.
    x, y = _to_neighbours(first, neighbours)
    found_x, found_y = _to_neighbours(second, neighbours)
    (xx, xy), (yx, yy) = (second[:, :, :2] @ np.linalg.inv(first[:, :, :2])).transpose(1, 2, 0)[..., None]
    expected_x, expected_y = xx * x + xy * y, yx * x + yy * y
    error = _length(expected_x - found_x, expected_y - found_y)
    way, moved = _length(expected_x, expected_y), _length(found_x, found_y)
    agree = (error < NEAR * other_side + STRETCH * way) & (away > DISTINCT * side) & (moved > DISTINCT * other_side)
    return (agree * weights[neighbours]).sum(1)


def _to_neighbours(frames: Array, neighbours: Array) -> tuple[Array, Array]:
    """Offsets from each place to its neighbours (K, n), along x and along y: (K, n) each."""
    x, y = np.ascontiguousarray(frames[:, :, 2].T)
    return x[neighbours] - x[:, None], y[neighbours] - y[:, None]


def _length(x: Array, y: Array) -> Array:
    return np.sqrt(x**2 + y**2)


def _nearest_places(xy: Array) -> tuple[Array, Array]:
    """Distances and rows (K, NEIGHBOURS + 1) of the places (K, 2) nearest to each, itself among them."""
    exact_tree: dict[str, bool | int | float | str] = {"algorithm": 4}  # FLANN_INDEX_KDTREE_SINGLE
    places = np.ascontiguousarray(xy, np.float32)
    rows, squares = cv2.flann.Index(places, exact_tree).knnSearch(places, NEIGHBOURS + 1, params={"checks": -1})
    return np.sqrt(squares), rows


def same_place(confidences: Array, inliers: int) -> float:
    """Probability that two photos with these matches (K,) and so many inliers show one place.

    Improbable matches do not count: hundreds of them, which any two photos have, would add up to many.
    """
    return float(_logistic(SAME_PLACE, np.log1p(confidences[confidences >= LEAST].sum()), np.log1p(inliers)))


def has_scales(*features: Features) -> bool:
    """True if keypoints show how the surface moved: those of ALIKED or XFeat have neither size nor angle."""
    sizes = [each.keypoints.sigma for each in features]
    return all(len(sigma) > 1 and bool(sigma.min() > 0 and np.ptp(sigma) > 0) for sigma in sizes)


def _logistic(weights: tuple[float, ...], *values: Array | float) -> Array:
    total = sum(weight * value for weight, value in zip(weights, values, strict=False)) + weights[-1]
    return (1 + np.tanh(np.asarray(total) / 2)) / 2
