"""One vector per photo, by which photos of one place are found: VLAD (Jegou et al. 2010) with each word normalised
(Arandjelovic & Zisserman 2013), from a photo's own descriptors; and the most similar of many vectors.

    learnt, rows = learn_vectors(names, read)       # read(name) -> (N, D) descriptors; a unit row a photo
    learnt(descriptors)                             # unit, some 512 numbers; more similar is a larger product
    neighbours, similarities = most_similar(rows, 50)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from ..errors import BadInput, need
from ..types import Array, Progress, silent

Read = Callable[[str], Array]  # name -> (N, D) descriptors

WORDS = 64  # of the vocabulary
SAMPLE = 50_000  # descriptors that the words are learnt from
ROUNDS = 10  # of k-means; it has settled well before
SEED = 1
NUMBERS = 512  # in the vector of a photo that is kept: 2 KB
EXAMPLES = 1024  # photos that words and directions are learnt from

EXACT = 20_000  # vectors; beyond, an index
BLOCK = 256  # vectors compared at once
CODE = 64  # bytes of a vector in the index, at most
PER_LIST = 50  # vectors for each of its lists, to learn them from
PROBES = 48  # lists that are looked into
AVERAGED, EXPANSIONS = 20, 2  # neighbours that a vector is averaged with, and how often: docs/scale.md has the table
PROPOSED = 4  # times as many neighbours as are asked for


class NothingToLearn(BadInput):
    """Photos without a single keypoint."""


@dataclass(frozen=True)
class PhotoVectors:
    """Conversion of descriptors to one vector a photo: VLAD along the directions in which photos differ most."""

    words: Array  # (W, D)
    mean: Array  # (W * D,) of VLAD
    directions: Array  # (W * D, n), n at most NUMBERS, orthonormal

    @classmethod
    def learn(cls, names: Sequence[str], descriptors: Read, numbers: int = NUMBERS) -> PhotoVectors:
        """Learn from some of the photos themselves; the same photos give the same numbers."""
        sample = sampled(names, descriptors)
        if not len(sample):
            raise NothingToLearn("none of the photos has keypoints, so there is nothing to tell them apart by.")
        words = vocabulary(sample)
        examples = np.stack([vlad(descriptors(names[k]), words) for k in _some(len(names))])  # (V, W * D)
        mean = examples.mean(0)
        _, spread, directions = np.linalg.svd(examples - mean, full_matrices=False)
        kept = directions[: max(1, min(numbers, int((spread > 1e-6).sum())))]
        return cls(words, mean, np.ascontiguousarray(kept.T))

    def __call__(self, descriptors: Array) -> Array:
        """Convert descriptors (N, D) to a unit vector (n,) float32."""
        return _unit((vlad(descriptors, self.words) - self.mean) @ self.directions).astype(np.float32)


def learn_vectors(names: Sequence[str], descriptors: Read, progress: Progress = silent) -> tuple[PhotoVectors, Array]:
    """Learn how photos become vectors from some of them; also the unit rows of all: (V, n)."""
    reads, total = count(1), 2 * len(_some(len(names))) + len(names)

    def read(name: str) -> Array:
        progress(next(reads), total, "photo vectors")
        return descriptors(name)

    learnt = PhotoVectors.learn(names, read)
    return learnt, np.stack([learnt(read(name)) for name in names])


def vocabulary(sample: Array, words: int = WORDS) -> Array:
    """Cluster a sample of descriptors (n, D) by k-means: centres (words, D). Fewer descriptors are all words."""
    rng = np.random.default_rng(SEED)
    centres = sample[rng.permutation(len(sample))[:words]].astype(np.float32)
    for _ in range(ROUNDS):
        sums, counts = _sums(sample, centres)
        used = counts > 0  # a word without descriptors stays where it is
        centres[used] = sums[used] / counts[used, None]
    return centres


def vlad(descriptors: Array, words: Array) -> Array:
    """Sum deviations of descriptors (N, D) from their words (W, D): unit (W * D,), zeros without any."""
    sums, counts = _sums(descriptors, words)
    return _unit(_unit(sums - counts[:, None] * words).reshape(-1))


def _sums(descriptors: Array, words: Array) -> tuple[Array, Array]:
    """Sums (W, D) of the descriptors nearest to each word, and their numbers (W,)."""
    nearest = np.argmax(descriptors @ words.T - (words**2).sum(1) / 2, axis=1)
    members = (nearest == np.arange(len(words))[:, None]).astype(np.float32)  # (W, N): a product is the fastest sum
    return members @ descriptors, members.sum(1)


def _unit(rows: Array) -> Array:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def sampled(names: Sequence[str], descriptors: Read) -> Array:
    """Sample descriptors (n, D), as many from each photo; of very many photos, from some."""
    rng = np.random.default_rng(SEED)
    some = [names[k] for k in _some(len(names))]
    share = -(-SAMPLE // len(some))
    found = (descriptors(name) for name in some)
    # By rows, which copies: a slice would keep the descriptors of all photos in memory.
    return np.concatenate([of_photo[rng.permutation(len(of_photo))[:share]] for of_photo in found])


def _some(count: int) -> Array:
    """The places of the photos that are learnt from, evenly through all."""
    return np.linspace(0, count - 1, min(count, EXAMPLES)).astype(int)


# --- The most similar vectors: by comparing all for tens of thousands, by a faiss index (IVF-PQ) for millions. It keeps
# 64 bytes of each vector and looks only where neighbours may be; its proposals are compared exactly. ---


def most_similar(
    vectors: Array, count: int, *, exact: bool | None = None, progress: Progress = silent
) -> tuple[Array, Array]:
    """Find the unit rows (V, n) most similar to each other, best first: rows (V, k) and similarities (V, k).

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
    """Search like `most_similar` after averaging each vector with its neighbours, twice.

    Photos of one place that look different have neighbours in common. Vectors that need an index are not averaged.
    """
    averaged = min(AVERAGED, len(vectors) // 10)
    if averaged and (len(vectors) <= EXACT if exact is None else exact):
        for _ in range(EXPANSIONS):
            vectors = _averaged(vectors, *most_similar(vectors, averaged, exact=True, progress=progress))
    return most_similar(vectors, count, exact=exact, progress=progress)


def _averaged(vectors: Array, rows: Array, similar: Array) -> Array:
    """Average each unit row (V, n) with its neighbours (V, k), by their similarities."""
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
    lists = max(1, min(int(4 * total**0.5), total // PER_LIST))
    code = max(part for part in range(1, CODE + 1) if size % part == 0)
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(size), size, lists, code, 8, faiss.METRIC_INNER_PRODUCT)
    progress(0, total, "learning the index")
    index.train(np.ascontiguousarray(vectors[np.linspace(0, total - 1, min(total, PER_LIST * lists)).astype(int)]))
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
    """Sort rows, the best first; of equals, the earlier."""
    order = np.lexsort((rows, -similar), axis=1)
    return np.take_along_axis(rows, order, 1), np.take_along_axis(similar, order, 1)
