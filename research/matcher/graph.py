"""Two photos' keypoints -> candidate matches, what is known of each, and where each puts its neighbours.

Edges are candidate matches (i, j): each among the nearest descriptors of the other. Anchors are edges that are asked
where their neighbourhood went. An edge looks at the anchors nearest to it in either photo: its own scale and turn say
where these should lie, theirs say where it should lie, and the descriptors say where they do lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .hynet_paths import BY_NEIGHBOURS, BY_RATIO, DISTINCT, LITTLE, NEAR, NEIGHBOURS, STRETCH, Array

CANDIDATES = 6
CLOSE = NEIGHBOURS + 1  # nearest anchors, as `consensus` has them, the edge itself among them
FARTHER = tuple(range(26, 96, 7))  # ranks of some anchors farther away
BESIDE = CLOSE + len(FARTHER)  # K: anchors beside an edge, in each photo
FEATURES, RELATIONS = 11, 7  # the same whichever photo comes first
NOT_MUTUAL = -8.0  # of the first logit of edges that are not mutual nearest neighbours, which `consensus` leaves out


@dataclass(frozen=True)
class Points:
    """Keypoints of one photo."""

    xy: Array  # (N, 2)
    sigma: Array  # (N,)
    angle: Array  # (N,)
    side: float  # longer side of the photo


@dataclass(frozen=True)
class Edges:
    """Candidate matches, sorted by keypoint of the first photo."""

    i: Array  # (E,) keypoint of the first photo
    j: Array  # (E,) of the second
    features: Array  # (E, FEATURES) float32
    ratio: Array  # (E,) distance over that to the best other keypoint of the second photo
    mutual: Array  # (E,) bool
    distance: Array  # (E,)

    def __len__(self) -> int:
        return len(self.i)


@dataclass(frozen=True)
class Beside:
    """The anchors near each edge, first those near it in the first photo, then in the second."""

    edges: Array  # (E, 2 K) which edge an anchor is
    known: Array  # (E, 2 K) float32, 0: there is none, or it is the same keypoint
    relations: Array  # (E, 2 K, RELATIONS) float32


def candidates(first: Array, second: Array, a: Points, b: Points) -> Edges:
    """Edges between unit descriptors (N, D) and (M, D)."""
    likeness = first @ second.T  # (N, M)
    there, back = _best(likeness.copy()), _best(np.ascontiguousarray(likeness.T))
    listed = there[:, :CANDIDATES] * 1  # (N, 6)
    i = np.repeat(np.arange(len(first)), listed.shape[1])
    j, rank = listed.ravel(), np.tile(np.arange(listed.shape[1]), len(first))
    other_rank = np.argmax(back[j, :CANDIDATES] == i[:, None], 1)
    kept = back[j, other_rank] == i
    i, j, rank, other_rank = i[kept], j[kept], rank[kept], other_rank[kept]

    distances = np.sqrt(np.maximum(2 - 2 * likeness, 1e-6))
    distance = distances[i, j]
    rival = distances[i, there[i, np.where(rank == 0, 1, 0)]]
    other_rival = distances[back[j, np.where(other_rank == 0, 1, 0)], j]
    last, other_last = distances[i, there[i, -1]], distances[back[j, -1], j]
    ratio, other_ratio = distance / rival, distance / other_rival
    mutual = (rank == 0) & (other_rank == 0)
    octaves = np.log2(b.sigma[j] / a.sigma[i])
    turn = b.angle[j] - a.angle[i]
    features = [
        4 * (distance - 0.8),
        4 * (np.minimum(ratio, other_ratio) - 1) + 1,
        4 * (np.maximum(ratio, other_ratio) - 1) + 1,
        4 * (distance / np.minimum(last, other_last) - 0.9),
        4 * (distance / np.maximum(last, other_last) - 0.9),
        mutual,
        (rank + other_rank) / 3,
        np.abs(rank - other_rank) / 3,
        np.minimum(np.abs(octaves), 3),
        1 - np.cos(turn),
        np.log2(a.sigma[i] * b.sigma[j]) / 4 - 1,
    ]
    return Edges(i, j, np.column_stack(features).astype(np.float32), ratio, mutual, distance)


def _best(likeness: Array) -> Array:
    """(N, CANDIDATES + 1) columns, the best first. Spoils what it is given."""
    rows = np.arange(len(likeness))
    found = np.empty((len(rows), min(CANDIDATES + 1, likeness.shape[1])), np.int64)
    for place in range(found.shape[1]):
        found[:, place] = likeness.argmax(1)
        likeness[rows, found[:, place]] = -np.inf
    return found


def beside(edges: Edges, rows: Array, anchors: Array, a: Points, b: Points) -> Beside:
    """The anchors (A,), numbers of edges, beside those edges that are asked for (R,), and how they go together."""
    frames = _Frames(edges, a, b)
    shape = (len(rows), 2 * BESIDE)
    near, known = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    relations = np.zeros((*shape, RELATIONS), np.float32)
    if len(anchors):
        for side, points in enumerate((a, b)):
            part = slice(side * BESIDE, (side + 1) * BESIDE)
            places = (edges.i, edges.j)[side]
            numbers, there = _nearest(points.xy, places[anchors], places[rows])
            near[:, part] = anchors[numbers]
            known[:, part], relations[:, part] = frames.relations(rows, near[:, part], side == 1)
            known[:, part] *= there
    return Beside(near, known, relations)


def _nearest(xy: Array, anchors: Array, asked: Array) -> tuple[Array, Array]:
    """(R, K) rows of the keypoints `anchors` near the keypoints `asked`, and where there are so many."""
    keypoints, which = np.unique(asked, return_inverse=True)
    count = max(FARTHER) + 1
    _, found = cKDTree(xy[anchors]).query(xy[keypoints], count)
    found = found[:, [*range(CLOSE), *FARTHER]]
    there = found < len(anchors)
    return np.where(there, found, 0)[which], there[which]


class _Frames:
    """Edges as similarities of the plane: complex numbers say where, how large and how turned."""

    def __init__(self, edges: Edges, a: Points, b: Points) -> None:
        self.sides = np.float32(a.side), np.float32(b.side)
        self.places = [
            (points.xy[rows, 0] + 1j * points.xy[rows, 1]).astype(np.complex64)
            for points, rows in ((a, edges.i), (b, edges.j))
        ]
        self.log_scale = np.log(b.sigma[edges.j] / a.sigma[edges.i]).astype(np.float32)
        self.turn = (b.angle[edges.j] - a.angle[edges.i]).astype(np.float32)

    def relations(self, rows: Array, near: Array, back: bool) -> tuple[Array, Array]:
        """Whether they are apart (R, K), and how they go together (R, K, RELATIONS). back: seen from the second."""
        here, there = self.places[::-1] if back else self.places
        side, other_side = self.sides[::-1] if back else self.sides
        sign = np.float32(-1 if back else 1)
        similarity = np.exp(sign * (self.log_scale + 1j * self.turn)).astype(np.complex64)
        away, moved = here[near] - here[rows, None], there[near] - there[rows, None]
        expected = similarity[rows, None] * away
        by_neighbour = similarity[near] * away
        way = np.abs(expected)
        error, their_error = np.abs(expected - moved), np.abs(by_neighbour - moved)
        relative = error / (NEAR * other_side + STRETCH * way)
        theirs = their_error / (NEAR * other_side + STRETCH * np.abs(by_neighbour))
        distance, other_distance = np.abs(away), np.abs(moved)
        known = (distance > DISTINCT * side) & (other_distance > DISTINCT * other_side)
        relations = np.empty((*near.shape, RELATIONS), np.float32)
        relations[..., 0] = np.log(relative + 0.03)
        relations[..., 1] = np.log(theirs + 0.03)
        relations[..., 2] = np.minimum(np.abs(self.log_scale[near] - self.log_scale[rows, None]), 2)
        relations[..., 3] = 1 - np.cos(self.turn[near] - self.turn[rows, None])
        relations[..., 4] = np.log(distance / side + 0.003) + 3
        relations[..., 5] = np.log((other_distance + 1) / (way + 1)).clip(-3, 3)
        relations[..., 6] = relative < 1  # as `consensus` counts
        return known.astype(np.float32), relations


def first_logits(edges: Edges, near: Beside, anchors: Array) -> Array:
    """(E,) by the logistic of `consensus`, whose neighbours are mutual nearest ones, the anchors."""
    alone = _probability(BY_RATIO[0] * edges.ratio + BY_RATIO[1])
    penalty = np.where(edges.mutual, 0, NOT_MUTUAL)
    if len(anchors) <= NEIGHBOURS:
        return (BY_RATIO[0] * edges.ratio + BY_RATIO[1] + penalty).astype(np.float32)
    alike = near.known * near.relations[..., 6] * alone[near.edges]
    there, back = (alike[:, start : start + CLOSE].sum(1) for start in (0, BESIDE))
    logits = BY_NEIGHBOURS[0] * edges.ratio + BY_NEIGHBOURS[3] + penalty
    logits += BY_NEIGHBOURS[1] * np.log(LITTLE + np.minimum(there, back)) + BY_NEIGHBOURS[2] * np.log(
        LITTLE + there + back
    )
    return logits.astype(np.float32)


def _probability(logits: Array) -> Array:
    return (1 + np.tanh(logits / 2)) / 2


def winners(edges: Edges, logits: Array) -> Array:
    """(E,) bool: the best edge of both its keypoints."""
    order = np.argsort(-logits, kind="stable")
    best = np.ones(len(edges), bool)
    for keypoint in (edges.i, edges.j):
        first = np.unique(keypoint[order], return_index=True)[1]
        is_first = np.zeros(len(edges), bool)
        is_first[order[first]] = True
        best &= is_first
    return best
