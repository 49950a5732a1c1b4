"""Pairs in rounds: each photo with those that look most alike, then with all that share a verified partner with it.

Photos of one place find each other over several steps, even where they do not look alike, and photos of two places are
hardly ever matched. docs/scale.md has what it finds and what it saves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from ..colmap import Store
from ..types import Array, Progress, silent
from .collection_pairs import VERIFIED
from .pairs import Pair, similar_photos
from .retrieval import Read

_LOG = logging.getLogger(__name__)

ALL_PAIRS = 50  # photos; up to so many, all pairs are few
FIRST = 15  # neighbours of each photo in the first round: docs/scale.md has the table


def match_in_rounds(
    store: Store, descriptors: Read, match: Callable[[list[Pair]], None], progress: Progress = silent
) -> None:
    """match: puts the matches of pairs into the store, and passes over those that are there."""
    names = store.names

    def verified(pairs: Array) -> Array:
        chosen = [(names[first], names[second]) for first, second in pairs]
        _LOG.info("matching %d pairs of %d photos so far", len(chosen), len(names))
        match(chosen)
        inliers = store.inliers()
        return np.array([inliers[pair] >= VERIFIED for pair in chosen], bool)

    in_rounds(similar_photos(names, descriptors, FIRST, progress, averaged=False), verified)


def in_rounds(rows: Array, verified: Callable[[Array], Array]) -> Array:
    """The pairs to match: (P, 2), the smaller first, in order.

    rows: (V, k) of each photo the others to begin with.
    verified: the pairs so far, those of earlier rounds among them -> (P,) which of them share a geometry.
    """
    tried = np.zeros((len(rows), len(rows)), bool)
    tried[np.arange(len(rows))[:, None], rows] = True
    tried |= tried.T
    while True:
        pairs = np.argwhere(np.triu(tried, 1))
        partners = np.zeros(tried.shape, np.float32)
        partners[tuple(pairs[verified(pairs)].T)] = 1
        partners += partners.T
        in_common = partners @ partners > 0
        if not np.triu(in_common & ~tried, 1).any():
            return pairs
        tried |= in_common
