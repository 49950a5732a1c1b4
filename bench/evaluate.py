"""HPatches' three tasks: ours against straightforward code that looks at one pair, image or query after another.

Both give the same numbers; the largest difference is the last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench import Measurement, milliseconds
from hynet.errors import need
from hynet.evaluation.hpatches import scores as ours
from hynet.evaluation.hpatches import tasks as hpatches_tasks
from hynet.evaluation.hpatches.tasks import Tasks
from hynet.geometry.metrics import draws
from hynet.runtime.machine import keep_memory_mapped
from hynet.types import Array

SIZES = (1300,) * 8  # a sequence of the release has some 1,300 patches
DIM = 128
PAIRS = 40_000
QUERIES = 250
ROUNDS = 3
Scores = dict[Any, float]


def measure(
    *, sizes: Sequence[int] = SIZES, pair_count: int = PAIRS, query_count: int = QUERIES, rounds: int = ROUNDS
) -> list[Measurement]:
    """Ratios by task: each is a peer of its own, so the first row stands for all three at 1."""
    keep_memory_mapped()
    distance = need("scipy.spatial.distance", "sfm", "the bench of evaluating")
    described = _descriptors(sizes)
    few, one = described[:2], described[0]
    pairs = _tasks(sizes[:2], pair_count, query_count)
    tasks = _tasks(sizes, pair_count, query_count)
    rivals = {
        "verification": (
            lambda: verified(few, pairs),
            lambda: verification(few, pairs, distance),
        ),
        "matching": (
            lambda: dict(enumerate(ours.matching([one])["listed"].ravel())),
            lambda: matching(one, distance),
        ),
        "retrieval": (
            lambda: dict(enumerate(ours.retrieval(described, tasks)["listed"].ravel())),
            lambda: retrieval(described, tasks, distance),
        ),
    }
    ratios = [Measurement("one pair, image or query at a time", 1.0, "times")]
    seconds: list[Measurement] = []
    differences: list[float] = []
    for task, (fast, plain) in rivals.items():
        times = milliseconds({"plain": plain, "ours": fast}, rounds)
        ratios.append(Measurement(task, times["plain"] / times["ours"], "times"))
        seconds += [Measurement(f"{task}, {who}", times[who] / 1e3, "s") for who in ("plain", "ours")]
        expected, found = plain(), fast()
        differences.append(max(abs(expected[key] - found[key]) for key in expected))
    return [*ratios, *seconds, Measurement("largest difference of any score", max(differences), "of 1")]


def verified(described: list[Array], tasks: Tasks) -> Scores:
    scores = ours.verification(described, tasks, draws(len(described), 0))  # the plain code has no intervals either
    both = (("ap", lambda score: score.ap), ("auc", lambda score: score.auc))
    return {(*key, name): of(score)["listed"] for key, score in scores.items() for name, of in both}


def verification(described: list[Array], tasks: Tasks, distance: Any) -> Scores:
    def distances(pairs: Array) -> list[list[float]]:
        found: list[list[float]] = [[], [], []]
        for s1, t1, i1, s2, t2, i2 in pairs.tolist():
            for n in range(3):
                first = described[s1][t1 + 5 * n if t1 else 0, i1]
                second = described[s2][t2 + 5 * n if t2 else 0, i2]
                found[n].append(distance.euclidean(first, second))
        return found

    scores: Scores = {}
    positive = distances(tasks.positive)
    for kind, pairs in (("intra", tasks.intra), ("inter", tasks.inter)):
        negative = distances(pairs)
        end = len(pairs) + int(ours.FIRST_POSITIVES * len(pairs))
        for n, noise in enumerate(ours.NOISES):
            listed = np.array(negative[n] + positive[n])
            labels = np.arange(len(listed)) >= len(pairs)
            scores[noise, kind, "ap"] = average_precision(listed[:end], labels[:end])
            scores[noise, kind, "auc"] = roc_auc(listed, labels)
    return scores


def matching(stacks: Array, distance: Any) -> Scores:
    scores: Scores = {}
    for k in range(15):
        apart = distance.cdist(stacks[0], stacks[k + 1])
        nearest = apart.argmin(1)
        rows = np.arange(len(nearest))
        scores[k] = average_precision(apart[rows, nearest], nearest == rows, len(rows))
    return scores


def retrieval(described: list[Array], tasks: Tasks, distance: Any) -> Scores:
    scores: Scores = {}
    candidates = np.stack([described[s][0, i] for s, i in tasks.distractors])
    queries = np.stack([described[s][0, i] for s, i in tasks.queries])
    apart = distance.cdist(queries, candidates)
    for q, (s, i) in enumerate(tasks.queries):
        others = apart[q, tasks.distractors[:, 0] != s]
        for n in range(3):
            right = [distance.cdist(queries[q : q + 1], described[s][k : k + 1, i])[0, 0] for k in _columns(n)]
            distances = np.concatenate([right, others])
            labels = np.arange(len(distances)) < 5
            for p, pool in enumerate(ours.POOLS):
                place = (q * 3 + n) * len(ours.POOLS) + p
                scores[place] = average_precision(distances[:pool], labels[:pool])
    return scores


def average_precision(distances: Array, is_right: Array, positives: int | None = None) -> float:
    """The whole curve, then its area."""
    labels = is_right[np.argsort(distances, kind="stable")]
    right = np.concatenate([[0], np.cumsum(labels)])
    precision = np.concatenate([[1.0], right[1:] / np.arange(1, len(right))])
    return float(np.trapezoid(precision, right / (positives or right[-1])))


def roc_auc(distances: Array, is_match: Array) -> float:
    labels = is_match[np.argsort(distances, kind="stable")]
    right, wrong = (np.concatenate([[0], np.cumsum(kind)]) for kind in (labels, ~labels))
    return float(np.trapezoid(right / right[-1], wrong / wrong[-1]))


def _columns(noise: int) -> range:
    return range(1 + 5 * noise, 6 + 5 * noise)


def _descriptors(sizes: Sequence[int]) -> list[Array]:
    rng = np.random.default_rng(0)
    found = []
    for size in sizes:
        rows = rng.normal(size=(1, size, DIM)) + rng.normal(size=(16, size, DIM))
        found.append((rows / np.linalg.norm(rows, axis=2, keepdims=True)).astype(np.float32))
    return found


def _tasks(sizes: Sequence[int], pair_count: int, query_count: int) -> Tasks:
    """As many distractors as there are patches, but few pairs and queries: the plain code is in no hurry."""
    drawn = hpatches_tasks.draw([np.full(size, 50.0) for size in sizes])
    rest = np.concatenate([drawn.queries[query_count:], drawn.distractors])
    some = (drawn.positive[:pair_count], drawn.intra[:pair_count], drawn.inter[:pair_count])
    return Tasks(*some, drawn.queries[:query_count], rest, source=drawn.source)
