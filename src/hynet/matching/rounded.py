"""Nearest neighbours by products of whole numbers: two to three times as fast as floats with VNNI.

The best two of each row are found in 7 and 8 bits, then compared in floats. A better one that rounding hid is missed,
and a winner of its column may be thought to win that does not: docs/performance.md has how often.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..runtime.onnx_runtime import run, session
from ..types import Array

# (N, D) uint8 around 64 times (D, M) int8 -> (N, M) int32; research/integer_products.py --write makes it. 7 bits on one
# side: with 8, processors without VNNI would overflow, and every processor is to give the same numbers.
PRODUCT = Path(__file__).with_name("product.onnx")
LEFT, RIGHT = 63, 127
TILE = 1 << 22  # numbers of the product at once: 16 MB
LOWEST = np.iinfo(np.int32).min


def nearest_by_integers(first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Search like `matching.nearest.nearest`, nearly always with the same result."""
    left, left_step = _codes(first, LEFT)
    right, right_step = _codes(second, RIGHT)
    left, right = (left + (LEFT + 1)).astype(np.uint8), np.ascontiguousarray(right.T.astype(np.int8))
    two = np.zeros((len(first), 2), np.int64)
    others = np.full(len(second), LOWEST, np.int32)  # the best of each column, those two of each row left out
    block = max(64, TILE // len(second))
    for start in range(0, len(first), block):
        (tile,) = run(_product(), ["c"], {"a": left[start : start + block], "b": right})
        rows = np.arange(len(tile))
        for place in range(2):
            best = two[start : start + block, place] = tile.argmax(1)
            tile[rows, best] = LOWEST
        np.maximum(others, tile.max(0), out=others)

    likeness = np.einsum("nd,nkd->nk", first, second[two])
    order = np.argsort(-likeness, axis=1, kind="stable")
    two, likeness = np.take_along_axis(two, order, 1), np.take_along_axis(likeness, order, 1)
    top = (others * (left_step * right_step)).astype(np.float32)
    np.maximum.at(top, two.ravel(), likeness.ravel())
    best, runner_up = two.T
    winners = np.flatnonzero(likeness[:, 0] >= top[best])[::-1]  # of equal ones the lowest row, which stays
    best_of_second = np.full(len(second), -1, np.int64)
    best_of_second[best[winners]] = winners
    return best, runner_up if len(second) > 1 else np.full_like(runner_up, -1), best_of_second


def _codes(rows: Array, largest: int) -> tuple[Array, float]:
    """Round to whole numbers from -largest to largest; also the size of one step."""
    step = max(float(np.abs(rows).max()), 1e-12) / largest
    return np.rint(rows / np.float32(step)), step


@cache
def _product() -> Any:
    return session(PRODUCT, threads=1)
