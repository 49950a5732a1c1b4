"""Shards -> training examples: a pair with so many keypoints, its candidates, and which of them are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import made_pairs, real_pairs, shards
from .describing import strongest_rows
from .graph import Edges, Points
from .hynet_paths import Array
from .network import Candidates, prepare
from .shards import Seen, Truth

RIGHT, WRONG, UNKNOWN = 1, 0, -1
OFF = 12.0  # pixels from the epipolar line, or from where a plane says: beyond, a candidate is wrong
BESIDE = 6.0  # pixels around a keypoint's match: what is found there may be the same keypoint found twice
KINDS = {"real": 0.45, "poor": 0.1, "made": 0.33, "different": 0.12}
COUNTS = {512: 0.25, 768: 0.2, 1024: 0.3, 1536: 0.15, 2048: 0.1}  # keypoints a photo
LIGHT = 0.6  # share of the pairs that are described by `light`, where others have described them too
DROPPED = 0.2  # share of keypoints left out, at most
# Share of the pairs whose descriptors get noise, and its length at most: on photos that the descriptor has learnt from,
# matches are nearer than elsewhere.
NOISY, NOISE = 0.6, 0.5


@dataclass(frozen=True)
class Example:
    given: Candidates
    labels: Array  # (E,) RIGHT, WRONG or UNKNOWN
    kind: str
    matches: int  # positives among the keypoints that were kept, candidates or not


class Pool:
    """All shards of a folder. An example depends on the seed alone, as long as the shards are the same."""

    def __init__(self, folder: Path) -> None:
        self.names = sorted(path.name for path in folder.glob("*.npz") if not path.name.startswith("."))
        self.shards = [shards.load(folder / name) for name in self.names]
        self.of_kind: dict[str, list[tuple[int, list[Truth]]]] = {}
        for row, shard in enumerate(self.shards):
            for kind in ("real", "poor", "made"):
                if truths := [truth for truth in shard.pairs if truth.kind == kind]:
                    self.of_kind.setdefault(kind, []).append((row, truths))
        real = [row for row, _ in self.of_kind.get("real", [])]
        self.kinds = [kind for kind in KINDS if kind in self.of_kind or (kind == "different" and len(real) > 1)]
        self.scenes = real

    def counts(self) -> dict[str, int]:
        return {kind: sum(len(truths) for _, truths in found) for kind, found in self.of_kind.items()}

    def example(self, seed: Sequence[int]) -> Example:
        random = np.random.default_rng(seed)
        while True:
            if (found := self._drawn(random)) is not None:
                return found

    def _drawn(self, random: np.random.Generator) -> Example | None:
        odds = np.array([KINDS[kind] for kind in self.kinds])
        kind = str(random.choice(self.kinds, p=odds / odds.sum()))
        if kind == "different":
            first, second = (self.shards[row] for row in random.choice(self.scenes, 2, replace=False))
            a, b = (shard.photos[random.integers(len(shard.photos))] for shard in (first, second))
            truth = None
        else:
            found = self.of_kind[kind]
            weight = np.sqrt([len(truths) for _, truths in found])
            row, truths = found[random.choice(len(found), p=weight / weight.sum())]
            truth = truths[random.integers(len(truths))]
            a, b = (self.shards[row].photos[number] for number in truth.photos)
        both = sorted(set(a.codes) & set(b.codes))
        others = [model for model in both if model != "light"]
        model = "light" if "light" in both and (random.random() < LIGHT or not others) else str(random.choice(others))
        count = int(random.choice(list(COUNTS), p=list(COUNTS.values())))
        rows = [_kept(seen, count, random) for seen in (a, b)]
        if min(map(len, rows)) < 50:
            return None
        noise = random.uniform(0, NOISE) if random.random() < NOISY else 0.0
        vectors = [_described(seen.codes[model][kept], noise, random) for seen, kept in zip((a, b), rows, strict=True)]
        if random.random() < 0.5:
            a, b, rows, vectors = b, a, rows[::-1], vectors[::-1]
            truth = None if truth is None else _turned_round(truth)
        given = prepare(*vectors, points(a, rows[0]), points(b, rows[1]))
        if len(given.edges) < 20:
            return None
        matches = 0 if truth is None else int((_inside(truth.positives, *rows) >= 0).all(1).sum())
        return Example(given, labels(given.edges, a, b, rows[0], rows[1], truth), kind, matches)


def points(seen: Seen, rows: Array) -> Points:
    return Points(seen.xy[rows], seen.sigma[rows], seen.angle[rows], float(max(seen.size)))


def _kept(seen: Seen, count: int, random: np.random.Generator) -> Array:
    """Rows of about so many of the strongest keypoints, some left out."""
    rows = strongest_rows(seen.xy, seen.sigma, seen.scores, count, seen.size[::-1])
    return rows[random.random(len(rows)) >= DROPPED * random.random()]


def _described(codes: Array, noise: float, random: np.random.Generator) -> Array:
    vectors = shards.decode(codes)
    if noise:
        vectors += random.normal(0, noise / np.sqrt(vectors.shape[1]), vectors.shape).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def _turned_round(truth: Truth) -> Truth:
    H = truth.geometry
    swapped = np.linalg.inv(H) if truth.kind == "made" else H.T
    return Truth(truth.photos[::-1], truth.kind, truth.positives[:, ::-1], swapped)


def _inside(positives: Array, first: Array, second: Array) -> Array:
    """Positives (K, 2) as rows of the keypoints that were kept, -1 where one was not."""
    found = np.full(positives.shape, -1, np.int64)
    for side, rows in enumerate((first, second)):
        place = np.full(int(max(rows.max(), positives[:, side].max(initial=0))) + 1, -1)
        place[rows] = np.arange(len(rows))
        found[:, side] = place[positives[:, side]]
    return found


def labels(edges: Edges, a: Seen, b: Seen, first: Array, second: Array, truth: Truth | None) -> Array:
    """(E,) RIGHT, WRONG or UNKNOWN of candidates between the kept keypoints, rows `first` of a and `second` of b."""
    if truth is None:
        return np.full(len(edges), WRONG, np.int8)
    i, j = first[edges.i], second[edges.j]
    if truth.kind == "made":
        wrong = _off_plane(a, b, truth.geometry, i, j) > OFF
    else:
        wrong = real_pairs.line_distances(a, b, truth.geometry, i, j) > OFF
    found = np.where(wrong, WRONG, UNKNOWN).astype(np.int8)
    for mine, other, seen, side in ((i, j, b, 0), (j, i, a, 1)):
        match = np.full(max(len(a), len(b)), -1)
        match[truth.positives[:, side]] = truth.positives[:, 1 - side]
        known = match[mine] >= 0
        away = np.hypot(*(seen.xy[match[mine]] - seen.xy[other]).T)
        found[known & (away > BESIDE)] = WRONG
    keys = truth.positives[:, 0].astype(np.int64) * len(b) + truth.positives[:, 1]
    found[np.isin(i.astype(np.int64) * len(b) + j, keys)] = RIGHT
    return found


def _off_plane(a: Seen, b: Seen, H: Array, i: Array, j: Array) -> Array:
    """Pixels of pairs of keypoints from where the plane takes them, the smaller of both ways."""
    there, back = made_pairs.carried(a, H)[0], made_pairs.carried(b, np.linalg.inv(H))[0]
    off = np.fmin(np.hypot(*(there[i] - b.xy[j]).T), np.hypot(*(back[j] - a.xy[i]).T))
    return np.where(np.isfinite(off), off, np.inf)
