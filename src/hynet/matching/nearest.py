"""Features x Features -> Matches: nearest, mutual, ratio.

Exact search by blocked matrix products: memory stays below 100 MB however many features there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from ..errors import BadInput
from ..types import Array, Features, Matches, need_features
from .confidence import confidence, has_scales

# One tile of the product: 48 MB. Thin tiles waste the matrix product, wide ones the cache.
TILE_ROWS, TILE_COLUMNS = 1024, 12_288


@dataclass(frozen=True)
class Nearest:
    """Matcher by nearest neighbours, as `match` with these options."""

    ratio: float | None = None
    mutual: bool = True
    fginn: float | None = None

    def __call__(self, a: Features, b: Features) -> Matches:
        return match(a, b, self.ratio, mutual=self.mutual, fginn=self.fginn)


def match(
    a: Features,
    b: Features,
    ratio: float | None = None,
    *,
    mutual: bool = True,
    fginn: float | None = None,
    rounded: bool = False,
) -> Matches:
    """Match each feature of `a` with its nearest in `b`, sorted by row of `a`; of equal ones the first in `b`.

    ratio: keep a match only if it is nearer than `ratio` times the runner-up; None: as calibrated for the model.
    mutual: keep a match only if it is the nearest in both directions.
    fginn: the runner-up is the nearest that lies more than so many pixels from the match ("first geometrically
        inconsistent nearest neighbour"), so that one corner found twice does not count against itself.
    rounded: by whole numbers (`matching.rounded`), faster and nearly always the same.

    Matches of keypoints that have a size carry the probability that they are right, if they are mutual.
    """
    need_features(a, b)
    if a.descriptors.shape[1] != b.descriptors.shape[1]:
        sizes = f"{a.descriptors.shape[1]} and {b.descriptors.shape[1]}"
        raise BadInput(f"descriptors of size {sizes} cannot be compared; describe both photos with one model.")
    ratio = a.ratio if ratio is None else ratio
    check_ratio(ratio)
    if fginn is not None and not fginn >= 0:
        raise BadInput(f"fginn must be 0 pixels or more, got {fginn:g}; 10 is usual.")
    first, second = (np.ascontiguousarray(features.descriptors, np.float32) for features in (a, b))  # (N, D), (M, D)
    if not len(first) or not len(second):
        return Matches(np.zeros((0, 2), np.int64), np.zeros(0, np.float32))

    find = nearest
    if rounded:
        from .rounded import nearest_by_integers as find  # brings ONNX Runtime, which matching in floats does without
    best, runner_up, best_of_second = find(first, second)
    rows = np.arange(len(first))
    if mutual:
        rows = rows[best_of_second[best] == rows]
    if fginn is not None:
        runner_up = _runner_up_elsewhere(first, second, b.keypoints.xy, rows, best, runner_up, fginn)
    distances = _distances(first, second, rows, best[rows])
    alone = runner_up[rows] < 0
    limits = np.where(alone, np.inf, _distances(first, second, rows, runner_up[rows]))
    found = Matches(np.column_stack([rows, best[rows]]), distances)
    if mutual and has_scales(a, b):
        ratios = np.divide(distances, limits, out=np.ones_like(distances), where=limits > 0)  # equal to both: no choice
        found = replace(found, confidence=confidence(a, b, rows, best[rows], ratios))
    return found if ratio is None or ratio == 1 else found[distances < ratio * limits]  # 1 keeps everything, ties too


def check_ratio(ratio: float | None) -> None:
    """Refuse a ratio that cannot be used; for callers with long work to do before matching."""
    if ratio is not None and not (isinstance(ratio, Real) and 0 < ratio <= 1):
        raise BadInput(f"the ratio must be above 0 and at most 1, got {ratio}; 0.8 is usual, 1 keeps all.")


def nearest(first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Search unit rows (N, D) in (M, D): nearest (N,) and runner-up (N,) in the second, nearest (M,) in the first.

    Of equal ones the lowest index; -1 where there is no runner-up. The third answers only for mutual pairs: -1 stands
    for "a row that prefers another".
    """
    best = np.empty(len(first), np.int64)
    runner_up = np.empty(len(first), np.int64)
    top_of_second = np.full(len(second), -np.inf, np.float32)
    best_of_second = np.full(len(second), -1, np.int64)
    tile = np.empty((min(TILE_ROWS, len(first)), min(TILE_COLUMNS, len(second))), np.float32)

    for row in range(0, len(first), TILE_ROWS):
        rows = slice(row, row + TILE_ROWS)
        block = first[rows]
        two_best = np.zeros((len(block), 2), np.int64), np.full((len(block), 2), -np.inf, np.float32)
        for column in range(0, len(second), TILE_COLUMNS):
            columns = slice(column, column + TILE_COLUMNS)
            similarity = tile[: len(block), : len(second[columns])]  # (rows, columns)
            np.matmul(block, second[columns].T, out=similarity)
            top, winner, in_tile = _scan(similarity)
            better = top > top_of_second[columns]
            top_of_second[columns][better] = top[better]
            best_of_second[columns][better] = np.where(winner < 0, -1, winner + row)[better]
            two_best = _merge(two_best, (in_tile[0] + column, in_tile[1]))
        best[rows], runner_up[rows] = two_best[0].T
    if len(second) == 1:
        runner_up[:] = -1
    return best, runner_up, best_of_second


TwoBest = tuple[Array, Array]  # (N, 2) columns, (N, 2) similarities, the better first


def _scan(similarity: Array) -> tuple[Array, Array, TwoBest]:
    """Find the best of each column (its value, and its row where that row prefers the column) and two best of each row.

    Spoils the tile. Only passes that NumPy runs along memory: a column-wise argmax would cost more than the product.
    """
    rows = np.arange(len(similarity))
    top = similarity.max(axis=0)
    best = similarity.argmax(axis=1)
    best_value = similarity[rows, best]
    similarity[rows, best] = -np.inf
    second = similarity.argmax(axis=1)
    second_value = similarity[rows, second]

    # A column's winner is found among the rows that prefer it, lowest last so that it stays ...
    prefer = np.flatnonzero(best_value == top[best])[::-1]
    winner = np.full(len(top), -1, np.int64)
    winner[best[prefer]] = prefer
    # ... unless a lower row that prefers another column is exactly as near.
    equal = np.flatnonzero((similarity.max(axis=0) == top) & (winner >= 0))
    winner[equal[similarity[:, equal].argmax(axis=0) < winner[equal]]] = -1
    return top, winner, (np.column_stack([best, second]), np.column_stack([best_value, second_value]))


def _merge(left: TwoBest, right: TwoBest) -> TwoBest:
    """Choose the two best of four; of equal ones those of the left tile."""
    columns, values = np.hstack([left[0], right[0]]), np.hstack([left[1], right[1]])  # (N, 4)
    order = np.argsort(-values, axis=1, kind="stable")[:, :2]
    return np.take_along_axis(columns, order, 1), np.take_along_axis(values, order, 1)


def _runner_up_elsewhere(
    first: Array, second: Array, xy: Array, rows: Array, best: Array, runner_up: Array, apart: float
) -> Array:
    """Replace runner-ups too near their match by the next that are not. xy: (M, 2) of the second."""
    runner_up = runner_up.copy()
    near = rows[_squared_norm(xy[runner_up[rows]] - xy[best[rows]]) <= apart**2]
    block = max(1, TILE_ROWS * TILE_COLUMNS // (4 * len(second)))
    for start in range(0, len(near), block):
        some = near[start : start + block]
        similarity = first[some] @ second.T
        similarity[_squared_norm(xy[best[some], None] - xy[None]) <= apart**2] = -np.inf
        farther = similarity.argmax(axis=1)
        none_left = np.isinf(similarity[np.arange(len(some)), farther])
        runner_up[some] = np.where(none_left, -1, farther)
    return runner_up


def _squared_norm(vectors: Array) -> Array:
    return np.einsum("...i,...i->...", vectors, vectors)


def _distances(first: Array, second: Array, rows: Array, columns: Array) -> Array:
    """Distances (K,) from the differences: 2 - 2 s would lose half the digits of a small one."""
    blocks = [slice(start, start + TILE_COLUMNS) for start in range(0, len(rows), TILE_COLUMNS)]
    found = [_squared_norm(first[rows[block]] - second[columns[block]]) for block in blocks]
    return np.sqrt(np.concatenate([np.zeros(0, np.float32), *found]))
