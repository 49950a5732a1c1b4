"""Matching by bits: for models that `hynet compress --to bits256` made, whose rows are signs.

Counts differing bits by faiss where it is installed, else by NumPy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np

from ....errors import BadInput
from ....runtime.machine import cores
from ....types import Array, Features, Matches, need_features

TILE = 2**18  # pairs compared at once: what is between the passes, 1 or 2 MB, stays in the cache
WORD = 64  # bits
UNBUFFERED = 16  # numbers, NumPy's least: by default it copies short rows into a buffer, which takes longer than XOR


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
        best, apart, runner_up, of_second = nearest_by_bits(first, second)
        rows = np.flatnonzero(apart == of_second[best])
        rows = rows[np.unique(best[rows], return_index=True)[1]]  # of those that are equally near a column, the first
        if ratio is not None and ratio < 1 and len(second) > 1:  # squared distances of unit rows are 4 h / B
            rows = rows[apart[rows] < ratio**2 * runner_up[rows]]
        rows = np.sort(rows)
        distances = np.sqrt(4 * apart[rows] / a.descriptors.shape[1])
        return Matches(np.column_stack([rows, best[rows]]), distances.astype(np.float32))


def pack(rows: Array) -> Array:
    """Pack signs (N, B) into (N, B / 8) uint8."""
    if rows.ndim != 2 or rows.shape[1] % 8 or (len(rows) and np.ptp(np.abs(rows)) > 1e-6):
        raise BadInput("these descriptors are not bits; `hynet compress --to bits256` makes a model that gives such.")
    return np.packbits(rows > 0, axis=1)


def nearest_by_bits(first: Array, second: Array) -> tuple[Array, Array, Array, Array]:
    """Search words (N, W) in (M, W): nearest (N,) in the second, its Hamming distance (N,), that of the runner-up
    (N,), and the least distance of each of the second (M,)."""
    shares = np.array_split(first, min(len(cores()), len(first)))
    with ThreadPoolExecutor(len(shares)) as pool:
        found = list(pool.map(lambda share: _nearest_by_bits(share, second), shares))
    best, least, runner_up = (np.concatenate([each[k] for each in found]) for k in range(3))
    return best, least, runner_up, np.minimum.reduce([each[3] for each in found])


def _nearest_by_bits(first: Array, second: Array) -> tuple[Array, Array, Array, Array]:
    """Search on one core, tile by tile, all in the same memory: fresh pages would cost a fifth of the time."""
    tile = max(1, min(len(first), TILE // len(second)))
    measure = (by_numpy if _faiss() is None else by_faiss)(second, tile)
    best = np.empty(len(first), np.int64)
    least, runner_up = np.empty((2, len(first)), np.int64)
    of_columns = np.full(len(second), np.iinfo(np.int64).max)
    for start in range(0, len(first), tile):
        here = slice(start, start + tile)
        apart = measure(first[here])  # (tile, M)
        rows, winner = np.arange(len(apart)), apart.argmin(1)
        best[here], least[here] = winner, apart[rows, winner]
        np.minimum(of_columns, apart.min(0), out=of_columns)
        apart[rows, winner] = np.iinfo(apart.dtype).max
        runner_up[here] = apart.min(1)
    return best, least, runner_up, of_columns


# --- distances of a tile: words (n, W) -> (n, M), in memory that the next call uses again ---


def by_faiss(second: Array, tile: int) -> Callable[[Array], Array]:
    """Measure by faiss, in half of NumPy's time: it stores nothing between XOR and sum."""
    faiss = _faiss()
    assert faiss is not None
    codes, size = np.ascontiguousarray(second).view(np.uint8), second.shape[1] * WORD // 8
    apart = np.empty((tile, len(second)), np.int32)

    def measure(some: Array) -> Array:
        rows = np.ascontiguousarray(some).view(np.uint8)  # has a name, since a pointer keeps nothing alive
        a, b, out = (faiss.swig_ptr(each) for each in (rows, codes, apart))
        faiss.hammings(a, b, len(some), len(second), size, out)
        return apart[: len(some)]

    return measure


def by_numpy(second: Array, tile: int) -> Callable[[Array], Array]:
    columns = np.ascontiguousarray(second.T)  # (W, M)
    kind = np.uint8 if WORD * len(columns) <= 256 else np.uint16  # bytes take half the time
    # 256 does not fit into a byte: of so many bits, rows whose first words are opposite count one bit less.
    words, bytes_, sums = (np.empty((tile, len(second)), each) for each in (np.uint64, np.uint8, kind))
    most = np.full_like(bytes_, min(WORD, np.iinfo(kind).max - WORD * (len(columns) - 1)))  # NumPy is slow with one

    def measure(some: Array) -> Array:
        different, counts, apart = (buffer[: len(some)] for buffer in (words, bytes_, sums))
        usual = np.setbufsize(UNBUFFERED)
        try:
            for word, others in enumerate(columns):
                np.bitwise_xor(some[:, word, None], others, out=different)
                np.bitwise_count(different, out=counts)
                if word:
                    np.add(apart, counts, out=apart)
                else:
                    np.minimum(counts, most[: len(some)], out=apart)
        finally:
            np.setbufsize(usual)
        return apart

    return measure


@cache
def _faiss() -> ModuleType | None:
    try:
        return importlib.import_module("faiss")
    except ImportError:
        return None


def _words(packed: Array) -> Array:
    """Convert (N, bytes) to (N, W) uint64, filled up with 0 to whole words."""
    missing = -packed.shape[1] % (WORD // 8)
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, missing)))).view(np.uint64)
