"""One vector per photo, by which photos of one place are found: VLAD (Jegou et al. 2010) with each word normalised
(Arandjelovic & Zisserman 2013), from a photo's own descriptors.

    learnt, rows = learn_vectors(names, read)       # read(name) -> (N, D) descriptors; a unit row a photo
    learnt(descriptors)                             # unit, some 512 numbers; more alike is a larger product
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from ..errors import BadInput
from ..types import Array, Progress, silent

Read = Callable[[str], Array]  # name -> (N, D) descriptors

WORDS = 64  # of the vocabulary
SAMPLE = 50_000  # descriptors that the words are learnt from
ROUNDS = 10  # of k-means; it has settled well before
SEED = 1
NUMBERS = 512  # in the vector of a photo that is kept: 2 KB
EXAMPLES = 1024  # photos that words and directions are learnt from


class NothingToLearn(BadInput):
    """Photos without a single keypoint."""


@dataclass(frozen=True)
class PhotoVectors:
    """How the descriptors of a photo become one short vector: VLAD along the directions in which photos differ most."""

    words: Array  # (W, D)
    mean: Array  # (W * D,) of VLAD
    directions: Array  # (W * D, n), n at most NUMBERS, orthonormal

    @classmethod
    def learn(cls, names: Sequence[str], descriptors: Read, numbers: int = NUMBERS) -> PhotoVectors:
        """From some of the photos themselves; the same photos give the same numbers."""
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
        """(N, D) -> unit (n,) float32."""
        return _unit((vlad(descriptors, self.words) - self.mean) @ self.directions).astype(np.float32)


def learn_vectors(names: Sequence[str], descriptors: Read, progress: Progress = silent) -> tuple[PhotoVectors, Array]:
    """How photos become vectors, learnt from some of them, and the unit rows of all: (V, n)."""
    reads, total = count(1), 2 * len(_some(len(names))) + len(names)

    def read(name: str) -> Array:
        progress(next(reads), total, "photo vectors")
        return descriptors(name)

    learnt = PhotoVectors.learn(names, read)
    return learnt, np.stack([learnt(read(name)) for name in names])


def vocabulary(sample: Array, words: int = WORDS) -> Array:
    """The centres of k-means over a sample of descriptors: (n, D) -> (words, D). Fewer descriptors are all words."""
    rng = np.random.default_rng(SEED)
    centres = sample[rng.permutation(len(sample))[:words]].astype(np.float32)
    for _ in range(ROUNDS):
        sums, counts = _sums(sample, centres)
        used = counts > 0  # a word that nobody is near stays where it is
        centres[used] = sums[used] / counts[used, None]
    return centres


def vlad(descriptors: Array, words: Array) -> Array:
    """How a photo's descriptors deviate from their words: (N, D), (W, D) -> unit (W * D,), zeros without any."""
    sums, counts = _sums(descriptors, words)
    return _unit(_unit(sums - counts[:, None] * words).reshape(-1))


def _sums(descriptors: Array, words: Array) -> tuple[Array, Array]:
    """Of each word, the sum of the descriptors nearest to it, and their number: (W, D) and (W,)."""
    nearest = np.argmax(descriptors @ words.T - (words**2).sum(1) / 2, axis=1)
    members = (nearest == np.arange(len(words))[:, None]).astype(np.float32)  # (W, N): a product is the fastest sum
    return members @ descriptors, members.sum(1)


def _unit(rows: Array) -> Array:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def sampled(names: Sequence[str], descriptors: Read) -> Array:
    """(n, D), as many from each photo; of very many photos, from some."""
    rng = np.random.default_rng(SEED)
    some = [names[k] for k in _some(len(names))]
    share = -(-SAMPLE // len(some))
    found = (descriptors(name) for name in some)
    # By rows, which copies: a slice would keep the descriptors of all photos in memory.
    return np.concatenate([of_photo[rng.permutation(len(of_photo))[:share]] for of_photo in found])


def _some(count: int) -> Array:
    """The places of the photos that are learnt from, evenly through all."""
    return np.linspace(0, count - 1, min(count, EXAMPLES)).astype(int)
