"""Matching by bits: for models that `hynet compress --to bits256` made, whose rows are signs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..errors import BadInput
from ..system.machine import cores
from ..types import Array, Features, Matches, need_features

TILE = 2**17  # pairs compared at once: what is between the passes, 1 MB, stays in the cache
WORD = 64  # bits


@dataclass(frozen=True)
class Hamming:
    """Mutual nearest neighbours by Hamming distance, with a ratio test.

    What `match` finds in the same rows, except where distances are equal, as those of bits often are: then the first
    in the second photo is the nearest, and a row is a column's nearest if no other is nearer.
    """

    ratio: float | None = None  # of distances between unit rows, as everywhere; None: as suits the descriptor

    def __call__(self, a: Features, b: Features) -> Matches:
        need_features(a, b)
        ratio = a.ratio if self.ratio is None else self.ratio
        if ratio is not None and not 0 < ratio <= 1:
            raise BadInput(
                f"the ratio must be above 0 and at most 1, got {ratio:g}; 0.9 is usual for bits, 1 keeps all."
            )
        if a.descriptors.shape[1] != b.descriptors.shape[1]:
            raise BadInput("descriptors of different sizes cannot be compared; describe both photos with one model.")
        first, second = _words(pack(a.descriptors)), _words(pack(b.descriptors))
        if not len(first) or not len(second):
            return Matches(np.zeros((0, 2), np.int64), np.zeros(0, np.float32))
        best, apart, runner_up, of_second = nearest(first, second)
        rows = np.flatnonzero(apart == of_second[best])
        rows = rows[np.unique(best[rows], return_index=True)[1]]  # of those that are equally near a column, the first
        if ratio is not None and ratio < 1 and len(second) > 1:  # squared distances of unit rows are 4 h / B
            rows = rows[apart[rows] < ratio**2 * runner_up[rows]]
        rows = np.sort(rows)
        distances = np.sqrt(4 * apart[rows] / a.descriptors.shape[1])
        return Matches(np.column_stack([rows, best[rows]]), distances.astype(np.float32))


def pack(rows: Array) -> Array:
    """Signs (N, B) -> (N, B / 8) uint8, as they are stored."""
    if rows.ndim != 2 or rows.shape[1] % 8 or (len(rows) and np.ptp(np.abs(rows)) > 1e-6):
        raise BadInput("these descriptors are not bits; `hynet compress --to bits256` makes a model that gives such.")
    return np.packbits(rows > 0, axis=1)


def nearest(first: Array, second: Array) -> tuple[Array, Array, Array, Array]:
    """Words (N, W), (M, W) -> nearest (N,) in the second, its Hamming distance (N,), that of the runner-up (N,), and
    the least distance of each of the second (M,)."""
    columns = np.ascontiguousarray(second.T)  # (W, M)
    shares = np.array_split(first, min(len(cores()), len(first)))
    with ThreadPoolExecutor(len(shares)) as pool:
        found = list(pool.map(lambda share: _nearest(share, columns), shares))
    best, least, runner_up = (np.concatenate([each[k] for each in found]) for k in range(3))
    return best, least, runner_up, np.minimum.reduce([each[3] for each in found])


def _nearest(first: Array, columns: Array) -> tuple[Array, Array, Array, Array]:
    """`nearest` on one core. columns: (W, M). Tiles share their memory: fresh pages would cost a fifth of the time."""
    count = columns.shape[1]
    kind = np.uint8 if WORD * len(columns) <= 256 else np.uint16  # bytes take half the time
    # 256 does not fit into a byte: of so many bits, rows whose first words are opposite count one bit less.
    most = min(WORD, np.iinfo(kind).max - WORD * (len(columns) - 1))
    best = np.empty(len(first), np.int64)
    least, runner_up = np.empty((2, len(first)), kind)
    of_columns = np.full(count, np.iinfo(kind).max, kind)
    tile = max(1, min(len(first), TILE // count))
    words, bytes_, sums = (np.empty((tile, count), each) for each in (np.uint64, np.uint8, kind))
    for start in range(0, len(first), tile):
        here = slice(start, start + tile)
        some = first[here]
        different, counts, apart = (buffer[: len(some)] for buffer in (words, bytes_, sums))
        for word, others in enumerate(columns):
            np.bitwise_xor(some[:, word, None], others, out=different)
            np.bitwise_count(different, out=counts)
            if word:
                np.add(apart, counts, out=apart)
            else:
                np.minimum(counts, most, out=apart)
        rows, winner = np.arange(len(some)), apart.argmin(1)
        best[here], least[here] = winner, apart[rows, winner]
        np.minimum(of_columns, apart.min(0), out=of_columns)
        apart[rows, winner] = np.iinfo(kind).max
        runner_up[here] = apart.min(1)
    return best, least.astype(np.int64), runner_up.astype(np.int64), of_columns.astype(np.int64)


def _words(packed: Array) -> Array:
    """(N, bytes) -> (N, W) uint64; what is missing to a whole word is 0 in all."""
    missing = -packed.shape[1] % (WORD // 8)
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, missing)))).view(np.uint64)
