"""Which photos to match with which: all, neighbours in a sequence, those that look alike, or what a file says.

At a fixed number of neighbours per photo the cost of matching grows with the number of photos, not with its square.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from ..errors import BadInput, choose, need
from ..types import Array

Pair = tuple[str, str]  # names of two photos
Read = Callable[[str], Array]  # name -> (N, D) descriptors

EXHAUSTIVE = 200  # photos; beyond, each is matched with those that look most alike
NEIGHBOURS = 20
WORDS = 64  # of the vocabulary
SAMPLE = 50_000  # descriptors that the words are learnt from
ROUNDS = 10  # of k-means; it has settled well before
BLOCK = 256  # photos compared with all at once
SEED = 1


def choose_pairs(how: str, names: Sequence[str], descriptors: Read) -> list[Pair]:
    """how: "auto", "exhaustive", "sequence", "retrieval", or the path of a file with two names a line.

    Pairs in a file of photos that are not among the names, since they could not be read, are left out.
    """
    if how in WAYS:
        return each_once(WAYS[how](names, descriptors), names)
    known = set(names)
    return each_once((pair for pair in from_file(Path(how)) if known.issuperset(pair)), names)


def check(how: str, names: Collection[str]) -> None:
    """Whether `choose_pairs` can do it, before any photo is read."""
    if how in WAYS or not Path(how).is_file():
        choose(WAYS, how, "file or way to pair photos")
        return
    strange = next((name for pair in from_file(Path(how)) for name in pair if name not in names), None)
    if strange is not None:
        raise BadInput(f"{how} names {strange!r}, which is not in the folder; write photos by their path below it.")


def exhaustive(names: Sequence[str]) -> list[Pair]:
    return list(combinations(names, 2))


def sequence(names: Sequence[str], neighbours: int = NEIGHBOURS) -> list[Pair]:
    """Each with the next so many, in the order people count: img9 before img10."""
    ordered = sorted(names, key=_as_counted)
    return [(first, second) for k, first in enumerate(ordered) for second in ordered[k + 1 : k + 1 + neighbours]]


def retrieval(names: Sequence[str], descriptors: Read, neighbours: int = NEIGHBOURS) -> list[Pair]:
    """Each with the so many that look most alike, by one vector per photo."""
    sample = _sample(names, descriptors)
    if not len(sample):
        return []  # nothing to tell photos by, nor to match
    # Small products: where the cores are shared, a second thread costs more than it saves.
    with need("threadpoolctl", "sfm", "reconstruction").threadpool_limits(1, "blas"):
        words = vocabulary(sample)
        vectors = np.empty((len(names), words.size), np.float32)
        for row, name in enumerate(names):
            vectors[row] = vlad(descriptors(name), words)
    return [(names[row], names[other]) for row, others in enumerate(_alike(vectors, neighbours)) for other in others]


def from_file(path: Path) -> list[Pair]:
    """hloc's layout: two names a line, with white space between them; empty lines and those after # are left out."""
    pairs = []
    try:
        lines = path.read_text().splitlines()
    except (UnicodeDecodeError, OSError):
        raise BadInput(f"{path} is not a text file; write two names of photos on each line.") from None
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise BadInput(f"line {number} of {path} is {line!r}; write two names of photos.")
        pairs.append((words[0], words[1]))
    return pairs


# --- One vector per photo: VLAD (Jegou et al. 2010) with each word normalised (Arandjelovic & Zisserman 2013) ---


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


def _sample(names: Sequence[str], descriptors: Read) -> Array:
    """(n, D), as many from each photo."""
    rng = np.random.default_rng(SEED)
    share = -(-SAMPLE // len(names))
    found = (descriptors(name) for name in names)
    # By rows, which copies: a slice would keep the descriptors of all photos in memory.
    return np.concatenate([of_photo[rng.permutation(len(of_photo))[:share]] for of_photo in found])


def _alike(vectors: Array, neighbours: int) -> Iterable[Array]:
    """Of each row the so many others most like it. (V, X) -> V arrays of rows."""
    count = min(neighbours, len(vectors) - 1)
    for start in range(0, len(vectors), BLOCK):
        similarity = vectors[start : start + BLOCK] @ vectors.T
        rows = np.arange(len(similarity))
        similarity[rows, start + rows] = -np.inf
        yield from np.argpartition(-similarity, count - 1, axis=1)[:, :count]


def _as_counted(name: str) -> list[tuple[str, int]]:
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def each_once(pairs: Iterable[Pair], names: Sequence[str]) -> list[Pair]:
    """In the order of the names, the earlier one first, none with itself."""
    place = {name: k for k, name in enumerate(names)}
    ordered = {(min(place[a], place[b]), max(place[a], place[b])) for a, b in pairs if a != b}
    return [(names[a], names[b]) for a, b in sorted(ordered)]


WAYS: Mapping[str, Callable[[Sequence[str], Read], list[Pair]]] = {
    "auto": lambda names, read: exhaustive(names) if len(names) <= EXHAUSTIVE else retrieval(names, read),
    "exhaustive": lambda names, read: exhaustive(names),
    "sequence": lambda names, read: sequence(names),
    "retrieval": retrieval,
}
