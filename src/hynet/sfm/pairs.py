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
from ..matching.hloc_matches import read_pairs
from ..types import Array, Pair, Progress, silent
from .neighbours import most_similar, query_expansion
from .retrieval import NothingToLearn, Read, learn_vectors

EXHAUSTIVE = 200  # photos; beyond, each is matched with those most alike. `reconstruct` alone has rounds.py from 51 on
NEXT = 20  # photos of a sequence that each is matched with
NEIGHBOURS = 50  # docs/scale.md has the recall of verified pairs that it was chosen by


def choose_pairs(how: str, names: Sequence[str], descriptors: Read, progress: Progress = silent) -> list[Pair]:
    """how: "exhaustive", "sequence", "retrieval", "auto" (all pairs of up to 200 photos, retrieval beyond), or the path
    of a file with two names a line.

    Pairs in a file of photos that are not among the names, since they could not be read, are left out.
    """
    if how in WAYS:
        return each_once(WAYS[how](names, descriptors, progress), names)
    known = set(names)
    return each_once((pair for pair in read_pairs(Path(how)) if known.issuperset(pair)), names)


def check(how: str, names: Collection[str]) -> None:
    """Whether `choose_pairs` can do it, before any photo is read."""
    if how in WAYS or not Path(how).is_file():
        choose(WAYS, how, "file or way to pair photos")
        return
    strange = next((name for pair in read_pairs(Path(how)) for name in pair if name not in names), None)
    if strange is not None:
        raise BadInput(f"{how} names {strange!r}, which is not in the folder; write photos by their path below it.")


def exhaustive(names: Sequence[str]) -> list[Pair]:
    return list(combinations(names, 2))


def sequence(names: Sequence[str], neighbours: int = NEXT) -> list[Pair]:
    """Each with the next so many, in the order people count: img9 before img10."""
    ordered = sorted(names, key=_as_counted)
    return [(first, second) for k, first in enumerate(ordered) for second in ordered[k + 1 : k + 1 + neighbours]]


def retrieval(
    names: Sequence[str], descriptors: Read, progress: Progress = silent, *, neighbours: int = NEIGHBOURS
) -> list[Pair]:
    """Each with those that look most alike, by one vector per photo."""
    rows = similar_photos(names, descriptors, neighbours, progress)
    # -1 where an index found fewer than asked for
    return [(names[row], names[other]) for row, others in enumerate(rows) for other in others if other >= 0]


def similar_photos(
    names: Sequence[str], descriptors: Read, count: int, progress: Progress = silent, *, averaged: bool = True
) -> Array:
    """Rows (V, k) of the others most like each, best first; none, where no photo has a keypoint.

    averaged: each vector with those most like it, which finds more pairs, but splits large places into groups.
    """
    # Small products: where the cores are shared, a second thread costs more than it saves.
    with need("threadpoolctl", "sfm", "reconstruction").threadpool_limits(1, "blas"):
        try:
            _, vectors = learn_vectors(names, descriptors, progress)
        except NothingToLearn:
            return np.zeros((len(names), 0), np.int64)  # nor is there anything to match
        rows, _ = (query_expansion if averaged else most_similar)(vectors, count, progress=progress)
    return rows


def unique_pairs(rows: Array) -> Array:
    """(V, k) rows of neighbours -> (P, 2), each pair once, the smaller first, in order; -1 is none."""
    first = np.repeat(np.arange(len(rows)), rows.shape[1])
    second = rows.reshape(-1)
    there = (second >= 0) & (first != second)
    low, high = np.minimum(first, second)[there], np.maximum(first, second)[there]
    return np.stack(np.divmod(np.unique(low * len(rows) + high), len(rows)), 1)


def _as_counted(name: str) -> list[tuple[str, int]]:
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def each_once(pairs: Iterable[Pair], names: Sequence[str]) -> list[Pair]:
    """In the order of the names, the earlier one first, none with itself."""
    place = {name: k for k, name in enumerate(names)}
    ordered = {(min(place[a], place[b]), max(place[a], place[b])) for a, b in pairs if a != b}
    return [(names[a], names[b]) for a, b in sorted(ordered)]


def _auto(names: Sequence[str], descriptors: Read, progress: Progress) -> list[Pair]:
    return exhaustive(names) if len(names) <= EXHAUSTIVE else retrieval(names, descriptors, progress)


WAYS: Mapping[str, Callable[[Sequence[str], Read, Progress], list[Pair]]] = {
    "auto": _auto,
    "exhaustive": lambda names, read, progress: exhaustive(names),
    "sequence": lambda names, read, progress: sequence(names),
    "retrieval": retrieval,
}
