"""The three tasks of HPatches on descriptors: exact, and as fast as matrix products allow.

Two ways to score every list. `listed` is the public Python code to the last quirk: equal distances stay in the order
in which the lists name them. `fair` is the same area, averaged over all orders of equal distances. They differ only
where descriptors tie, and there by up to everything: the public code gives a constant descriptor a perfect retrieval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...geometry import metrics
from ...types import Array, Progress, silent
from ..distances import different, nearest, paired_single, row_distances
from .tasks import Tasks

NOISES = ("e", "h", "t")
SHOWN = ("h", "intra")  # the list whose curves are drawn
POOLS = (100, 500, 1000, 5000, 10_000, 15_000, 20_000)  # sizes of the list, the five right ones among them
FIRST_POSITIVES = 0.2  # of the positives, for the imbalanced task
BINS = 512  # of the ranking that verification's bootstrap looks at
Described = Sequence[Array]  # of each sequence (16, N, D) float32: ref, e1 ... e5, h1 ... h5, t1 ... t5


@dataclass(frozen=True)
class Verified:
    """One verification list, scored in both ways, and what a drawer needs."""

    auc: dict[str, float]  # balanced: listed, fair
    ap: dict[str, float]  # imbalanced: listed, fair, step
    redrawn: dict[str, Array]  # ap and auc: (rounds,) by how much they move when sequences are resampled
    curves: dict[str, tuple[Array, Array]]  # roc and pr of the list that is SHOWN


def verification(
    described: Described, tasks: Tasks, weights: Array, progress: Progress = silent
) -> dict[tuple[str, str], Verified]:
    """(noise, intra or inter) -> scores. weights: (rounds, S) how often a bootstrap draws each sequence."""
    scores = {}
    sizes = np.array([stacks.shape[1] for stacks in described])
    starts = np.concatenate([[0], np.cumsum(6 * sizes)[:-1]])
    listed = {name: _places(starts, sizes, getattr(tasks, name)) for name in ("positive", "intra", "inter")}
    for n, noise in enumerate(NOISES):
        progress(n, len(NOISES), "verification")
        columns = [0, *range(1 + 5 * n, 6 + 5 * n)]
        rows = np.concatenate([stacks[columns].reshape(-1, stacks.shape[2]) for stacks in described])
        positive = _apart(rows, listed["positive"])
        for kind, pairs in (("intra", tasks.intra), ("inter", tasks.inter)):
            negative = _apart(rows, listed[kind])
            ranking = _Ranking(negative, positive)
            redrawn = _redrawn(ranking, pairs[:, [0, 3]], tasks.positive[:, 0], weights)
            scores[noise, kind] = ranking.scored(redrawn, curves=(noise, kind) == SHOWN)
    return scores


def matching(described: Described, progress: Progress = silent) -> dict[str, Array]:
    """Average precision of nearest neighbours: listed, fair, step and success rate, each (S, 3, 5)."""
    scores = {name: np.zeros((len(described), 3, 5)) for name in ("listed", "fair", "step", "success")}
    for s, stacks in enumerate(described):
        progress(s, len(described), "matching")
        for k in range(15):
            distances, found = nearest(stacks[0], stacks[k + 1])
            right = found == np.arange(len(found))
            step, fair = metrics.average_precisions(distances, right, len(right))
            listed = metrics.average_precision_listed(distances, right, len(right))
            for name, score in (("listed", listed), ("fair", fair), ("step", step), ("success", right.mean())):
                scores[name][s, k // 5, k % 5] = score
    return scores


def retrieval(described: Described, tasks: Tasks, progress: Progress = silent) -> dict[str, Array]:
    """Average precision of each query: listed, fair and step, each (Q, 3, 7) by noise and pool."""
    queries, sequence_of = tasks.queries, tasks.distractors[:, 0]
    rows = [np.zeros((0, described[0].shape[2])), *(described[s][0, i : i + 1] for s, i in tasks.distractors)]
    candidates = np.concatenate(rows).astype(np.float64)  # (M, D)
    unlike, which = different(candidates)
    scores = {name: np.zeros((len(queries), 3, len(POOLS))) for name in ("listed", "fair", "step")}
    for s, stacks in enumerate(described):
        progress(s, len(described), "retrieval")
        mine = np.flatnonzero(queries[:, 0] == s)
        kept = np.flatnonzero(sequence_of != s)
        asked = stacks[:, queries[mine, 1]].astype(np.float64)  # (16, Q, D)
        positives = np.stack([row_distances(asked[0], stack) for stack in asked[1:]], axis=1)  # (Q, 15)

        def distances(query: Array, some: Array, kept: Array = kept) -> Array:
            once, again = np.unique(which[kept[some]], return_inverse=True)
            return row_distances(candidates[unlike[once]], query)[again]

        nearer, equal = _counts(asked[0], positives, candidates[kept], distances)
        for name, score in _retrieved(positives, nearer, equal).items():
            scores[name][mine] = score
    return scores


Places = tuple[Array, Array, Array]  # (K,) each: the order they are looked at in, row of the first, row of the second


def _places(starts: Array, sizes: Array, pairs: Array) -> Places:
    """Rows of the pairs, where the columns of each sequence lie one after another."""
    s1, t1, i1, s2, t2, i2 = pairs.T
    first, second = starts[s1] + t1 * sizes[s1] + i1, starts[s2] + t2 * sizes[s2] + i2
    order = np.argsort(first)  # rows that are in the cache already are read faster
    return order, first[order], second[order]


def _apart(rows: Array, places: Places) -> Array:
    """(K,) distances of the pairs, in the order they are listed in."""
    order, first, second = places
    found = np.empty(len(order), np.float32)
    found[order] = paired_single(rows, first, second)
    return found


class _Ranking:
    """One list by distance. The imbalanced task ends after the first fifth of the positives, the balanced has all."""

    def __init__(self, negative: Array, positive: Array) -> None:
        distances = np.concatenate([negative, positive])  # where equal, the public code ranks negatives first
        order = _stable_order(distances)
        some = order < len(negative) + int(FIRST_POSITIVES * len(positive))
        self.balanced = distances[order], order >= len(negative)
        self.imbalanced = self.balanced[0][some], self.balanced[1][some]
        # Which of the list, negatives counted before positives, stand at each rank.
        self.balanced_places, self.imbalanced_places = order, order[some]

    def scored(self, redrawn: dict[str, Array], curves: bool) -> Verified:
        labels = self.balanced[1]
        recall = np.cumsum(labels)
        auc = {"listed": float(recall[~labels].mean() / recall[-1]), "fair": metrics.roc_auc(*self.balanced)}
        step, fair = metrics.average_precisions(*self.imbalanced)
        ap = {"listed": metrics.ordered_precision(self.imbalanced[1]), "fair": fair, "step": step}
        drawn = {"roc": metrics.roc_curve(*self.balanced), "pr": metrics.pr_curve(*self.imbalanced)} if curves else {}
        return Verified(auc, ap, redrawn, drawn)


def _redrawn(
    ranking: _Ranking, negative_sequences: Array, positive_sequences: Array, weights: Array
) -> dict[str, Array]:
    """ap and auc: (rounds,) their change when sequences are resampled, from the rankings cut into bins."""
    moved = {}
    for name, places, area in (
        ("ap", ranking.imbalanced_places, _binned_precision),
        ("auc", ranking.balanced_places, _binned_roc),
    ):
        if not len(weights):
            moved[name] = np.zeros(0)
            continue
        drawn = _binned(places, negative_sequences, positive_sequences, weights.shape[1])
        moved[name] = area(*drawn(weights.astype(np.float64))) - area(*drawn(np.ones((1, weights.shape[1]))))
    return moved


def _binned(
    places: Array, negative_sequences: Array, positive_sequences: Array, count: int
) -> Callable[[Array], tuple[Array, Array]]:
    """weights (rounds, count) -> how many positives and negatives lie in each bin of the ranking, (rounds, BINS)."""
    bins = np.arange(len(places)) * BINS // len(places)
    is_negative = places < len(negative_sequences)
    first, second = negative_sequences[places[is_negative]].T
    own = positive_sequences[places[~is_negative] - len(negative_sequences)]
    right = np.bincount(own * BINS + bins[~is_negative], minlength=count * BINS).reshape(count, BINS)
    # A pair of two sequences is drawn as often as both of them are.
    pairs = np.flatnonzero(np.bincount(first * count + second))
    which = np.zeros(count**2, np.int64)
    which[pairs] = np.arange(len(pairs))
    of_pair = which[first * count + second] * BINS + bins[is_negative]
    wrong = np.bincount(of_pair, minlength=len(pairs) * BINS).reshape(len(pairs), BINS)
    first, second = pairs // count, pairs % count

    def drawn(weights: Array) -> tuple[Array, Array]:
        both = np.where(first == second, weights[:, first], weights[:, first] * weights[:, second])
        found, missed = weights @ right, both @ wrong
        # The task has as many negatives a positive as before, whichever sequences are drawn.
        wanted = wrong.sum() / right.sum() * found.sum(1, keepdims=True)
        return found, missed * wanted / np.maximum(missed.sum(1, keepdims=True), 1e-12)

    return drawn


def _binned_precision(right: Array, wrong: Array) -> Array:
    """(rounds,) average precision by trapezoids, as if each bin were one step."""
    found, seen = np.cumsum(right, axis=1), np.cumsum(right + wrong, axis=1)
    precision = found / np.maximum(seen, 1e-12)
    before = np.concatenate([np.ones((len(right), 1)), precision[:, :-1]], axis=1)
    return (right * (before + precision)).sum(1) / (2 * np.maximum(found[:, -1], 1e-12))


def _binned_roc(right: Array, wrong: Array) -> Array:
    """(rounds,) area under the ROC curve, as if those of one bin were tied."""
    found = np.cumsum(right, axis=1)
    return (wrong * (found - right / 2)).sum(1) / np.maximum(found[:, -1] * wrong.sum(1), 1e-12)


def _stable_order(distances: Array) -> Array:
    """Stable argsort, faster than NumPy's: float32 of 0 or more sort as integers of the same bits."""
    keys = distances.astype(np.float32).view(np.uint32).astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(keys), dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _counts(
    queries: Array, positives: Array, candidates: Array, distances: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """Count the candidates nearer than each positive, and those as near: (Q, 15, 7) each, by pool.

    A matrix product tells but for rounding; where that could matter, `distances` of the query to those decide.
    """
    ends = np.minimum(np.array(POOLS) - 5, len(candidates))
    edges = np.unique(np.concatenate([[0], ends]))
    candidates = candidates[: edges[-1]]  # no pool holds the rest
    segment = np.searchsorted(edges, np.arange(len(candidates)), side="right") - 1
    nearer = np.zeros((*positives.shape, max(len(edges) - 1, 1)), np.int64)
    equal = np.zeros_like(nearer)
    squares = np.einsum("md,md->m", candidates, candidates)
    step = max(1, 600_000 // max(len(candidates), 1))  # a block of 5 MB stays in the cache
    for start in range(0, len(queries), step):
        rows = queries[start : start + step]
        own = np.einsum("qd,qd->q", rows, rows)
        away = own[:, None] + squares - 2 * (rows @ candidates.T)  # (q, M) squared
        rounding = 1e-12 * (own + squares.max(initial=0))
        for q, radii in enumerate(positives[start : start + step]):
            low, high = radii**2 - rounding[q], radii**2 + rounding[q]
            within = np.sort(np.concatenate([low, high]))
            near = np.flatnonzero(away[q] < within[-1])
            ring = np.searchsorted(within, away[q, near], side="right")  # how many of `within` are smaller
            counts = np.bincount(segment[near] * len(within) + ring, minlength=nearer.shape[2] * len(within))
            inside = np.cumsum(counts.reshape(-1, len(within)), axis=1)  # (segments, rings)
            surely = inside[:, np.searchsorted(within, low)]
            perhaps = inside[:, np.searchsorted(within, high)]
            nearer[start + q] = surely.T
            if (surely != perhaps).any():
                doubtful = (away[q, near] >= low[:, None]) & (away[q, near] < high[:, None])  # (15, n)
                some = doubtful.any(0)
                exact, doubtful = distances(rows[q], near[some]), doubtful[:, some]
                where = segment[near[some]]
                nearer[start + q] += _per_segment(doubtful & (exact < radii[:, None]), where, nearer.shape[2])
                equal[start + q] = _per_segment(doubtful & (exact == radii[:, None]), where, nearer.shape[2])
    pool = np.searchsorted(edges, ends) - 1
    return np.cumsum(nearer, -1)[..., pool], np.cumsum(equal, -1)[..., pool]


def _per_segment(mask: Array, segment: Array, segments: int) -> Array:
    """(n, M) bool, (M,) segment of each -> (n, segments) how many are true in each."""
    row, column = np.nonzero(mask)
    return np.bincount(row * segments + segment[column], minlength=len(mask) * segments).reshape(-1, segments)


def _retrieved(positives: Array, nearer: Array, equal: Array) -> dict[str, Array]:
    """Average precisions (Q, 3, 7) from where the five right ones of each noise stand among the others."""
    radii = positives.reshape(-1, 3, 5, 1)
    nearer, equal = (counts.reshape(-1, 3, 5, len(POOLS)) for counts in (nearer, equal))
    before = (radii > radii.swapaxes(2, 3)).sum(-1, keepdims=True)  # right ones that are nearer
    tied = (radii == radii.swapaxes(2, 3)).sum(-1, keepdims=True)  # right ones as near, itself among them
    place = np.argsort(np.argsort(radii, axis=2, kind="stable"), axis=2)  # where equal, as listed
    seen = place + nearer
    listed = ((place + 1) / (seen + 1) + np.where(seen > 0, place / np.maximum(seen, 1), 1.0)) / 2
    step, just_before = metrics.tie_precision(before, before + nearer, tied, tied + equal)
    return {"listed": listed.mean(2), "fair": (step + just_before).mean(2) / 2, "step": step.mean(2)}
