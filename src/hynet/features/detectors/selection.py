"""Selection of keypoints, for every detector: inside the mask, the best, spread over the photo."""

from __future__ import annotations

import numpy as np

from ...errors import BadInput
from ...types import Array, Keypoints

# Of the places that are spread: as many strongest for each keypoint asked for, so that no sky or wall is filled with
# what is hardly there; and how many keypoints a cell of the grid would hold if they were even. docs/matching.md.
POOL, PER_CELL = 2, 8


def check(max_keypoints: int, score_threshold: float | None) -> None:
    """Refuse a number of keypoints or a score threshold that no detector can have."""
    if max_keypoints < 1:
        raise BadInput(f"max_keypoints must be at least 1, got {max_keypoints}.")
    if score_threshold is not None and not 0 <= score_threshold < np.inf:
        raise BadInput(f"the score threshold must be 0 or more, got {score_threshold:g}; 0 keeps every keypoint.")


def inside(xy: Array, mask: Array | None, shape: tuple[int, ...]) -> Array:
    """(N,) bool: where the mask (H, W) is not zero."""
    if mask is None:
        return np.ones(len(xy), bool)
    if mask.shape != shape:
        raise BadInput(f"the mask must have the photo's shape {shape}, got {mask.shape}.")
    x, y = np.rint(xy).astype(int).T
    return mask[y.clip(0, shape[0] - 1), x.clip(0, shape[1] - 1)] != 0


def masked(keypoints: Keypoints, mask: Array | None, shape: tuple[int, ...]) -> Keypoints:
    """Return the keypoints where the mask (H, W) is not zero."""
    return keypoints[inside(keypoints.xy, mask, shape)]


def best(keypoints: Keypoints, count: int, *, spread_over: tuple[int, ...] | None = None) -> Keypoints:
    """At most `count`, highest score first. Spread over a photo (H, W), the cells of a grid take turns instead."""
    return keypoints[best_rows(keypoints.xy, keypoints.scores, count, spread_over)]


def best_rows(xy: Array, scores: Array, count: int, spread_over: tuple[int, ...] | None = None) -> Array:
    """The rows of the places (N, 2) that `best` keeps, in its order."""
    order = np.argsort(-scores, kind="stable")
    if spread_over is not None and len(xy) > count:
        order = order[: POOL * count]
        height, width = spread_over
        side = max(1.0, np.sqrt(PER_CELL * height * width / count))
        column, row = (xy[order] // side).astype(np.int64).T
        turn = _place_in_group(row * (width + 1) + column)
        order = order[np.argsort(turn, kind="stable")]
    return order[:count]


def _place_in_group(groups: Array) -> Array:
    """Count, for each element, earlier ones of the same group: [5, 7, 5, 5] -> [0, 0, 1, 2]."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    place = np.empty(len(groups), np.int64)
    place[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(np.r_[starts, len(groups)]))
    return place
