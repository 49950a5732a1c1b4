"""Distances of descriptors: exact, in blocks that stay in the cache, and tied where they are tied.

Some are bit for bit those of SciPy, with which the public HPatches code computes: ties and near ties fall alike.
"""

from __future__ import annotations

import numpy as np

from ..types import Array

ROWS = 256  # at a time


def paired(rows: Array, first: Array, second: Array) -> Array:
    """(K,) float64 distances of rows[first] to rows[second], from the differences: equal ones tie exactly."""
    found = np.empty(len(first))
    for start in range(0, len(first), ROWS):
        some = slice(start, start + ROWS)
        apart = np.subtract(rows[first[some]], rows[second[some]], dtype=np.float64)
        found[some] = np.sqrt(np.einsum("kd,kd->k", apart, apart))
    return found


def paired_single(rows: Array, first: Array, second: Array) -> Array:
    """(K,) float32, as SciPy's euclidean of float32: the difference and the root are single precision, the sum not."""
    found = np.empty(len(first), np.float32)
    # New arrays for each block would cost as much as the arithmetic; threads would wait for each other.
    here, there = (np.empty((ROWS, rows.shape[1]), np.float32) for _ in range(2))
    apart = np.empty((ROWS, rows.shape[1]))
    for start in range(0, len(first), ROWS):
        some = slice(start, min(start + ROWS, len(first)))
        a, b, double = (buffer[: some.stop - start] for buffer in (here, there, apart))
        rows.take(first[some], axis=0, out=a, mode="clip")  # "raise", the default, copies once more
        rows.take(second[some], axis=0, out=b, mode="clip")
        np.copyto(double, np.subtract(a, b, out=a))
        found[some] = np.sqrt(np.vecdot(double, double))
    return found


def row_distances(first: Array, second: Array) -> Array:
    """(K, D) x (K, D) or (D,) -> (K,) float64, as SciPy's cdist: added up dimension by dimension."""
    apart = np.subtract(first, second, dtype=np.float64)
    columns = np.ascontiguousarray(apart.T)  # NumPy adds whole rows one after another, but pairwise within a row
    return np.sqrt(np.add.reduce(np.square(columns, out=columns), axis=0))


def nearest(first: Array, second: Array) -> tuple[Array, Array]:
    """(N, D), (M, D) -> distance (N,) and row (N,) of the nearest; of equal ones the lowest.

    A matrix product finds it but for rounding; where another is as near within that, the distances decide.
    """
    first, second = np.asarray(first, np.float32), np.asarray(second, np.float32)
    unlike, _ = different(second)
    columns = second[unlike]
    squares = np.einsum("md,md->m", columns, columns)
    rounding = 2 * (first.shape[1] + 4) * np.finfo(np.float32).eps
    found = np.empty(len(first), np.int64)
    for start in range(0, len(first), ROWS):
        rows = first[start : start + ROWS]
        away = (-2 * rows) @ columns.T  # (n, M): the squared distance but for the square of the row
        away += squares
        best = away.argmin(axis=1)
        close = away[np.arange(len(rows)), best] + rounding * (np.einsum("nd,nd->n", rows, rows) + squares.max())
        near = away <= close[:, None]
        for row in np.flatnonzero(np.count_nonzero(near, axis=1) > 1):
            rivals = np.flatnonzero(near[row])
            best[row] = rivals[row_distances(columns[rivals], rows[row]).argmin()]
        found[start : start + ROWS] = unlike[best]
    return row_distances(first, second[found]), found


def different(rows: Array) -> tuple[Array, Array]:
    """Return the first place of each different row, ascending, and the one that each row equals."""
    words = np.ascontiguousarray(rows).view(np.uint32).astype(np.uint64)
    keys = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64) | np.uint64(1)
    _, first, which = np.unique((words * keys).sum(1), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[which]
