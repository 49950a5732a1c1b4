"""Of many unit vectors the most alike: by comparing all for tens of thousands, by a faiss index for millions.

The index (IVF-PQ) keeps 64 bytes of each vector and looks only where neighbours may be; what it proposes is compared
exactly.
"""

from __future__ import annotations

import numpy as np

from ..errors import BadInput, need
from ..types import Array, Progress, silent

EXACT = 20_000  # vectors; beyond, an index
BLOCK = 256  # vectors compared at once
CODE = 64  # bytes of a vector in the index, at most
EXAMPLES = 50  # vectors for each of its lists, to learn them from
PROBES = 48  # lists that are looked into
AVERAGED, ROUNDS = 20, 2  # neighbours that a vector is averaged with, and how often: docs/scale.md has the table
PROPOSED = 4  # times as many neighbours as are asked for


def most_similar(
    vectors: Array, count: int, *, exact: bool | None = None, progress: Progress = silent
) -> tuple[Array, Array]:
    """(V, n) unit rows -> the others most like each, best first: rows (V, k) and similarities (V, k).

    exact: compare all with all; None: up to EXACT of them. With an index a neighbour may be missed; where it finds
    fewer than asked for, rows are -1 and similarities -inf.
    """
    if count < 1:
        raise BadInput(f"the neighbours must be at least 1, got {count}.")
    count = min(count, len(vectors) - 1)
    if len(vectors) <= EXACT if exact is None else exact:
        return _exhaustive(vectors, count, progress)
    return _indexed(vectors, count, progress)


def query_expansion(
    vectors: Array, count: int, *, exact: bool | None = None, progress: Progress = silent
) -> tuple[Array, Array]:
    """The same, after each vector was averaged with those most like it, twice: photos of one place that look different
    have neighbours in common. Not of so many that an index is needed."""
    averaged = min(AVERAGED, len(vectors) // 10)
    if averaged and (len(vectors) <= EXACT if exact is None else exact):
        for _ in range(ROUNDS):
            vectors = _averaged(vectors, *most_similar(vectors, averaged, exact=True, progress=progress))
    return most_similar(vectors, count, exact=exact, progress=progress)


def _averaged(vectors: Array, rows: Array, similar: Array) -> Array:
    """Each unit row (V, n) with its neighbours (V, k), by their similarities."""
    total = vectors.copy()
    for neighbour, likeness in zip(rows.T, np.maximum(similar.T, 0), strict=True):
        total += likeness[:, None] * vectors[neighbour]
    return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)


def _exhaustive(vectors: Array, count: int, progress: Progress) -> tuple[Array, Array]:
    rows, similar = np.empty((len(vectors), count), np.int64), np.empty((len(vectors), count), np.float32)
    for start in range(0, len(vectors), BLOCK):
        found = vectors[start : start + BLOCK] @ vectors.T  # (b, V)
        here = np.arange(len(found))
        found[here, start + here] = -np.inf
        best = np.argpartition(-found, count - 1, axis=1)[:, :count] if count else np.zeros((len(found), 0), np.int64)
        rows[start : start + BLOCK], similar[start : start + BLOCK] = _ordered(best, found[here[:, None], best])
        progress(min(start + BLOCK, len(vectors)), len(vectors), "finding neighbours")
    return rows, similar


def _indexed(vectors: Array, count: int, progress: Progress) -> tuple[Array, Array]:
    faiss = need("faiss", "faiss", f"pairing more than {EXACT} photos")
    total, size = vectors.shape
    lists = max(1, min(int(4 * total**0.5), total // EXAMPLES))
    code = max(part for part in range(1, CODE + 1) if size % part == 0)
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(size), size, lists, code, 8, faiss.METRIC_INNER_PRODUCT)
    progress(0, total, "learning the index")
    index.train(np.ascontiguousarray(vectors[np.linspace(0, total - 1, min(total, EXAMPLES * lists)).astype(int)]))
    for start in range(0, total, 64 * BLOCK):
        index.add(np.ascontiguousarray(vectors[start : start + 64 * BLOCK]))
    index.nprobe = PROBES
    rows, similar = np.empty((total, count), np.int64), np.empty((total, count), np.float32)
    for start in range(0, total, BLOCK):
        block = np.ascontiguousarray(vectors[start : start + BLOCK])
        _, proposed = index.search(block, min(PROPOSED * count + 1, total))  # (b, c), -1 where there are no more
        found = np.einsum("bn,bcn->bc", block, vectors[proposed], optimize=True)
        found[(proposed < 0) | (proposed == start + np.arange(len(block))[:, None])] = -np.inf
        best, likeness = _ordered(proposed, found)
        rows[start : start + BLOCK], similar[start : start + BLOCK] = best[:, :count], likeness[:, :count]
        progress(min(start + BLOCK, total), total, "finding neighbours")
    rows[np.isneginf(similar)] = -1
    return rows, similar


def _ordered(rows: Array, similar: Array) -> tuple[Array, Array]:
    """Best first; of equals, the earlier."""
    order = np.lexsort((rows, -similar), axis=1)
    return np.take_along_axis(rows, order, 1), np.take_along_axis(similar, order, 1)
