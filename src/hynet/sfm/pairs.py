"""Pairs of photos to match: all, neighbours in a sequence, similar ones, those in a file, or in rounds.

At a fixed number of neighbours per photo the cost of matching grows with the number of photos, not with its square.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from ..errors import BadInput, choose, need
from ..matching.hloc_matches import read_pairs
from ..types import Array, Pair, Progress, silent
from .colmap import Store
from .retrieval import NothingToLearn, Read, learn_vectors, most_similar, query_expansion

_LOG = logging.getLogger(__name__)

EXHAUSTIVE = 200  # photos; beyond, each is matched with those most alike. `reconstruct` alone has rounds from 51 on
NEXT = 20  # photos of a sequence that each is matched with
NEIGHBOURS = 50  # docs/scale.md has the recall of verified pairs that it was chosen by
VERIFIED = 15  # inliers of a verified pair, COLMAP's own limit

ALL_PAIRS = 50  # photos; up to so many, all pairs are few
FIRST = 15  # neighbours of each photo in the first round: docs/scale.md has the table
BRIDGES = 3  # of each photo the most alike outside its group, tried once groups stop growing: day and night, two sides


def choose_pairs(how: str, names: Sequence[str], descriptors: Read, progress: Progress = silent) -> list[Pair]:
    """Choose pairs of photos.

    how: "exhaustive", "sequence", "retrieval", "auto" (all pairs of up to 200 photos, retrieval beyond), or the path
        of a file with two names a line; of its pairs, those with photos that are not among the names are left out.
    """
    if how in WAYS:
        return each_once(WAYS[how](names, descriptors, progress), names)
    known = set(names)
    return each_once((pair for pair in read_pairs(Path(how)) if known.issuperset(pair)), names)


def check(how: str, names: Collection[str]) -> None:
    """Refuse a way to choose pairs that does not exist, before any photo is read."""
    if how in WAYS or not Path(how).is_file():
        choose(WAYS, how, "file or way to pair photos")
        return
    strange = next((name for pair in read_pairs(Path(how)) for name in pair if name not in names), None)
    if strange is not None:
        raise BadInput(f"{how} names {strange!r}, which is not in the folder; write photos by their path below it.")


def exhaustive(names: Sequence[str]) -> list[Pair]:
    return list(combinations(names, 2))


def sequence(names: Sequence[str], neighbours: int = NEXT) -> list[Pair]:
    """Pair each photo with the next ones, in the order people count: img9 before img10."""
    ordered = sorted(names, key=_as_counted)
    return [(first, second) for k, first in enumerate(ordered) for second in ordered[k + 1 : k + 1 + neighbours]]


def retrieval(
    names: Sequence[str], descriptors: Read, progress: Progress = silent, *, neighbours: int = NEIGHBOURS
) -> list[Pair]:
    """Pair each photo with the most similar ones, by one vector per photo."""
    rows = similar_photos(names, descriptors, neighbours, progress)
    # -1 where an index found fewer than asked for
    return [(names[row], names[other]) for row, others in enumerate(rows) for other in others if other >= 0]


def similar_photos(
    names: Sequence[str], descriptors: Read, count: int, progress: Progress = silent, *, averaged: bool = True
) -> Array:
    """Find rows (V, k) of the most similar photos of each, best first; none where no photo has a keypoint.

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
    """Convert rows (V, k) of neighbours to pairs (P, 2), each once, the smaller first, in order; -1 is none."""
    first = np.repeat(np.arange(len(rows)), rows.shape[1])
    second = rows.reshape(-1)
    there = (second >= 0) & (first != second)
    low, high = np.minimum(first, second)[there], np.maximum(first, second)[there]
    return np.stack(np.divmod(np.unique(low * len(rows) + high), len(rows)), 1)


def _as_counted(name: str) -> list[tuple[str, int]]:
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def each_once(pairs: Iterable[Pair], names: Sequence[str]) -> list[Pair]:
    """Sort pairs by the order of the names, each once, the earlier name first, none with itself."""
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


# --- Rounds: each photo with its most similar, then with all that share a verified partner with it. Photos of one place
# find each other over several steps, even where they do not look alike; of photos of two places only those few are
# matched that look most alike. docs/scale.md has what it finds and what it saves. ---


def match_in_rounds(
    store: Store, descriptors: Read, match: Callable[[list[Pair]], None], progress: Progress = silent
) -> None:
    """Match photos in rounds, without those that have no keypoints: they would take the places of neighbours.

    match: puts the matches of pairs into the store, and passes over those that are there.
    """
    names = [name for name in store.names if len(store.frames(name))]
    if len(names) < 2:
        return

    def verified(pairs: Array) -> Array:
        chosen = [(names[first], names[second]) for first, second in pairs]
        _LOG.info("matching %d pairs so far, of %d photos", len(chosen), len(names))
        match(chosen)
        inliers = store.inliers()
        return np.array([inliers[pair] >= VERIFIED for pair in chosen], bool)

    in_rounds(similar_photos(names, descriptors, len(names) - 1, progress, averaged=False), verified, FIRST, BRIDGES)


def in_rounds(order: Array, verified: Callable[[Array], Array], first: int, bridges: int) -> Array:
    """Return the pairs to match: (P, 2), the smaller first, in order.

    order: (V, V - 1) of each photo all others, the most alike first; (V, 0) where there is nothing to match.
    verified: the pairs so far, those of earlier rounds among them -> (P,) which of them share a geometry.
    """
    tried = np.zeros((len(order), len(order)), bool)
    fresh = _as_matrix(order[:, :first], np.ones_like(order[:, :first], bool))
    while fresh.any():
        tried |= fresh
        pairs = np.argwhere(np.triu(tried, 1))
        partners = np.zeros(tried.shape, bool)
        partners[tuple(pairs[verified(pairs)].T)] = True
        partners |= partners.T
        fresh = partners.astype(np.float32) @ partners > 0  # with a partner in common
        np.fill_diagonal(fresh, False)
        if not (fresh & ~tried).any():
            group = _groups(partners)
            outside = group[order] != group[:, None]  # (V, V - 1)
            fresh = _as_matrix(order, outside & (np.cumsum(outside, 1) <= bridges))
        fresh &= ~tried
    return np.argwhere(np.triu(tried, 1))


def _as_matrix(order: Array, chosen: Array) -> Array:
    """Symmetric matrix (V, V) of the chosen ones of photos (V, k)."""
    matrix = np.zeros((len(order), len(order)), bool)
    rows, places = np.nonzero(chosen)
    matrix[rows, order[rows, places]] = True
    return matrix | matrix.T


def _groups(partners: Array) -> Array:
    """First photo (V,) of each photo's group, which partners (V, V) join over any number of steps."""
    first = np.arange(len(partners))
    while True:
        reached = np.minimum(first, np.where(partners, first, len(first)).min(1, initial=len(first)))
        if np.array_equal(reached, first):
            return first
        first = reached
