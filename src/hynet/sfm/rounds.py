"""Pairs in rounds: each photo with those that look most alike, then with all that share a verified partner with it.

Photos of one place find each other over several steps, even where they do not look alike; of photos of two places only
those few are matched that look most alike. docs/scale.md has what it finds and what it saves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from ..types import Array, Pair, Progress, silent
from .collection_pairs import VERIFIED
from .colmap import Store
from .pairs import similar_photos
from .retrieval import Read

_LOG = logging.getLogger(__name__)

ALL_PAIRS = 50  # photos; up to so many, all pairs are few
FIRST = 15  # neighbours of each photo in the first round: docs/scale.md has the table
BRIDGES = 3  # of each photo the most alike outside its group, tried once groups stop growing: day and night, two sides


def match_in_rounds(
    store: Store, descriptors: Read, match: Callable[[list[Pair]], None], progress: Progress = silent
) -> None:
    """Photos without keypoints are left out: they would take the places of neighbours.

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
    """The pairs to match: (P, 2), the smaller first, in order.

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
    """(V, k) photos, and which of them -> (V, V), the same both ways."""
    matrix = np.zeros((len(order), len(order)), bool)
    rows, places = np.nonzero(chosen)
    matrix[rows, order[rows, places]] = True
    return matrix | matrix.T


def _groups(partners: Array) -> Array:
    """(V, V) -> (V,) the first photo of each one's group, of those that partners join over any number of steps."""
    first = np.arange(len(partners))
    while True:
        reached = np.minimum(first, np.where(partners, first, len(first)).min(1, initial=len(first)))
        if np.array_equal(reached, first):
            return first
        first = reached
