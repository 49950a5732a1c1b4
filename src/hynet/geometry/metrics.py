"""Arrays in, floats out: the numbers that papers of this field print. All are fractions, not percent.

Smaller distances are better everywhere. Where released code and the exact definition differ, both are here: the exact
one has the plain name, the other is named after whose it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import BadInput
from ..types import Array

Interval = tuple[float, float]

ROUNDS = 2000  # of a bootstrap: the ends of a 95% interval are the 50th and the 1,951st
BLOCK = 4_000_000  # numbers held at a time


# --- verification: pairs that match and pairs that do not ---


def fpr95(distances: Array, is_match: Array, recall: float = 0.95) -> float:
    """Share of non-matches accepted at the smallest threshold that accepts 95% of the matches. A fraction.

    Exact: the threshold is the order statistic of rank ceil(0.95 n), and d <= threshold is accepted.
    """
    matches, others = _two_kinds(distances, is_match, "FPR@95")
    return float((others <= _at_rank(matches, _rank(recall, len(matches)))).mean())


def fpr95_hynet(distances: Array, is_match: Array) -> float:
    """FPR@95 of HyNet's released code: the threshold is one rank higher, ceil(0.95 n) + 1."""
    matches, others = _two_kinds(distances, is_match, "FPR@95")
    return float((others <= _at_rank(matches, min(_rank(0.95, len(matches)) + 1, len(matches)))).mean())


def fpr95_hardnet(distances: Array, is_match: Array) -> float:
    """FPR@95 of HardNet's released code: non-matches listed before the match that completes 95%, by 1 / (d + 1e-8).

    Equal scores stay in the order given.
    """
    _two_kinds(distances, is_match, "FPR@95")
    is_match = np.asarray(is_match, bool)
    order = np.argsort(-1.0 / (np.asarray(distances, np.float64) + 1e-8), kind="stable")
    found = np.cumsum(is_match[order])
    last = int(np.searchsorted(found, _rank(0.95, int(found[-1]))))
    return float((last + 1 - found[last]) / (len(found) - found[-1]))


def fpr95_bootstrap(distances: Array, is_match: Array, rounds: int = ROUNDS, seed: int = 0) -> Array:
    """(rounds,) values of FPR@95, the matches and the non-matches each resampled with replacement.

    Exact without drawing: a rank of n values drawn from sorted ones lies where the same rank of n uniform numbers does
    (a Beta), and how many of the redrawn non-matches lie below is a Binomial.
    """
    matches, others = _two_kinds(distances, is_match, "FPR@95")
    rng = np.random.default_rng(seed)
    rank = _rank(0.95, len(matches))
    place = rng.beta(rank, len(matches) - rank + 1, rounds) * len(matches)
    thresholds = np.sort(matches)[np.minimum(place.astype(int), len(matches) - 1)]
    below = np.searchsorted(np.sort(others), thresholds, side="right") / len(others)
    return rng.binomial(len(others), below) / len(others)


def fpr95_paired_bootstrap(distances: Array, is_match: Array, rounds: int = ROUNDS, seed: int = 0) -> Array:
    """(M, K) distances of M methods on the same K pairs -> (M, rounds) FPR@95, the same pairs resampled for all."""
    is_match = np.asarray(is_match, bool)
    matches, others = distances[:, is_match], distances[:, ~is_match]
    _two_kinds(distances[0], is_match, "FPR@95")
    by_match, by_other = np.argsort(matches, axis=1), np.argsort(others, axis=1)
    matches, others = np.sort(matches, axis=1), np.sort(others, axis=1)
    rank = _rank(0.95, matches.shape[1])
    rng = np.random.default_rng(seed)
    found = np.empty((len(distances), rounds))
    for k in range(rounds):
        (match_counts,), (other_counts,) = (draws(values.shape[1], 1, rng) for values in (matches, others))
        for method in range(len(distances)):
            place = np.searchsorted(np.cumsum(match_counts[by_match[method]]), rank)
            below = np.searchsorted(others[method], matches[method, place], side="right")
            found[method, k] = other_counts[by_other[method, :below]].sum() / others.shape[1]
    return found


def roc_auc(distances: Array, is_match: Array) -> float:
    """Chance that a match is nearer than a non-match; equal distances count half."""
    _two_kinds(distances, is_match, "ROC AUC")
    right, seen = _ranked(distances, is_match)
    wrong = seen - right
    found = (right + np.concatenate([[0], right[:-1]])) / 2  # nearer than a non-match of each tie, on average
    return float(np.diff(wrong, prepend=0) @ found / (right[-1] * wrong[-1]))


def roc_curve(distances: Array, is_match: Array, points: int = 200) -> tuple[Array, Array]:
    """Share of non-matches (x) and of matches (y) accepted, at so many thresholds that are even in log(x)."""
    matches, others = (np.sort(kind) for kind in _two_kinds(distances, is_match, "a ROC curve"))
    ranks = np.unique(np.geomspace(1, len(others), points).round().astype(int))
    thresholds = others[ranks - 1]
    accepted = [np.searchsorted(kind, thresholds, side="right") / len(kind) for kind in (others, matches)]
    return accepted[0], accepted[1]


# --- ranking: a list in which some are right ---


def average_precision(
    distances: Array, is_right: Array, positives: float | None = None, *, trapezoid: bool = False
) -> float:
    """Precision averaged over recall; where distances are equal, averaged over all orders they could come in.

    positives: how many right ones exist, where the list need not hold them all.
    trapezoid: between one right one and the next the area is a trapezoid, from (recall 0, precision 1), as in the
        public HPatches code; without it steps, as in most others.
    """
    return average_precisions(distances, is_right, positives)[trapezoid]


def average_precisions(distances: Array, is_right: Array, positives: float | None = None) -> tuple[float, float]:
    """Average precision by steps and by trapezoids."""
    right, seen = _ranked(distances, is_right)
    total = right[-1] if positives is None else positives
    if not total:
        return 0.0, 0.0
    right_before, seen_before = (np.concatenate([[0], column[:-1]]) for column in (right, seen))
    of_tie = right - right_before
    some = of_tie > 0
    ties = (column[some] for column in (right_before, seen_before, of_tie, seen - seen_before))
    at, before = tie_precision(*ties)
    step, sloped = of_tie[some] @ at, of_tie[some] @ (at + before) / 2
    return float(step / total), float(sloped / total)


def average_precision_listed(distances: Array, is_right: Array, positives: float | None = None) -> float:
    """Average precision of the public HPatches code: trapezoids, and equal distances stay in the order given."""
    _ranked(distances, is_right)
    labels = np.asarray(is_right, bool)[np.argsort(distances, kind="stable")]
    return ordered_precision(labels, positives)


def ordered_precision(labels: Array, positives: float | None = None) -> float:
    """Average precision by trapezoids of right and wrong ones, best first."""
    places = np.flatnonzero(labels)  # the area grows only where recall does
    found = np.arange(len(places))
    total = len(places) if positives is None else positives
    before = np.where(places > 0, found / np.maximum(places, 1), 1.0)
    return float((before + (found + 1) / (places + 1)).sum() / (2 * total)) if total else 0.0


def tie_precision(right_before: Array, seen_before: Array, right: Array, count: Array) -> tuple[Array, Array]:
    """Expected precision at and just before a right one of a tie of `count` equal entries, `right` of them right.

    At place j of the tie, a right one has (j - 1) (right - 1) / (count - 1) others of its tie before it on average;
    the mean over j has a closed form in harmonic numbers.
    """
    R, S, r, n = (np.asarray(values, np.float64) for values in (right_before, seen_before, right, count))
    at = (R + 1) / (S + 1)
    before = np.where(S > 0, R / np.maximum(S, 1), 1.0)  # nothing seen yet: precision 1
    several = n > 1
    if several.any():
        R, S, r, n = (np.broadcast_to(values, several.shape)[several] for values in (R, S, r, n))
        share = (r - 1) / (n - 1)
        H = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, (S + n).max() + 1))])  # harmonic numbers
        first, last = S.astype(np.int64), (S + n).astype(np.int64)
        at[several] = share + (R + 1 - share * (S + 1)) * (H[last] - H[first]) / n
        inside = share + (R - share * S) * (H[last - 1] - H[np.maximum(first - 1, 0)]) / n
        before[several] = np.where(S > 0, inside, (1 + (n - 1) * share) / n)
    return at, before


def pr_curve(
    distances: Array, is_right: Array, positives: float | None = None, points: int = 200
) -> tuple[Array, Array]:
    """Recall (x) and precision (y) at so many thresholds that are even in recall."""
    right, seen = _ranked(distances, is_right)
    total = right[-1] if positives is None else positives
    some = np.unique(np.searchsorted(right, np.linspace(0, right[-1], points)).clip(0, len(right) - 1))
    return right[some] / max(total, 1), right[some] / seen[some]


# --- errors of poses and homographies: one number a pair, infinite where nothing was found ---


def mean_average_accuracy(errors: Array, limit: int = 10) -> float:
    """mAA of the Image Matching Challenge: accuracy at 1, 2, ... limit degrees, averaged."""
    return float(maa_credits(errors, limit).mean())


def maa_credits(errors: Array, limit: int = 10) -> Array:
    """(N,) each pair's share of the mAA, whose mean it is; a bootstrap draws from these."""
    errors = _errors(errors)
    # The challenge counts by histogram: only its last bin holds its upper end.
    inside = np.where(errors == limit, limit - 1, np.minimum(np.floor(errors), limit))
    return (limit - inside) / limit


def auc_credits(errors: Array, threshold: float) -> Array:
    """(N,) each pair's share of the AUC, whose mean it is; a bootstrap draws from these."""
    return np.maximum(0.0, 1.0 - _errors(errors) / threshold)


# --- how sure: bootstrap ---


def bootstrap(samples: Array, groups: Array | None = None, rounds: int = ROUNDS, seed: int = 0) -> Interval:
    """95% interval of the mean of (N,) samples. With groups (N,): of the mean of the groups' means.

    Groups in groups, such as sizes in scenes, are (levels, N), the outermost first: each level counts its groups alike.
    """
    return interval(bootstrap_means(samples, groups, rounds, seed))


def bootstrap_means(samples: Array, groups: Array | None = None, rounds: int = ROUNDS, seed: int = 0) -> Array:
    """(N, ...) samples -> (rounds, ...) means of N resampled with replacement; groups are resampled apart.

    The same seed draws the same rows, whatever the samples: methods that are compared are drawn alike.
    """
    samples = np.asarray(samples, np.float64)
    if samples.ndim == 0 or len(samples) == 0 or not np.isfinite(samples).all():
        raise BadInput(f"an interval needs at least one sample, all finite, got {samples.shape}.")
    if groups is not None and np.shape(groups)[-1:] != samples.shape[:1]:
        raise BadInput(f"each of {len(samples)} samples needs a group, got {np.shape(groups)}.")
    rng = np.random.default_rng(seed)
    return in_groups(lambda part: _redrawn_means(part, rounds, rng), samples, groups)


def in_groups(measure: Callable[[Array], Array], samples: Array, groups: Array | None) -> Array:
    """Measure each group and average, level by level where groups are (levels, N)."""
    if groups is None or not len(levels := np.atleast_2d(groups)):
        return np.asarray(measure(samples))
    outer, inner = levels[0], levels[1:]
    parts = [in_groups(measure, samples[outer == group], inner[:, outer == group]) for group in np.unique(outer)]
    return np.mean(parts, axis=0)


def draws(count: int, rounds: int = ROUNDS, seed: int | np.random.Generator = 0) -> Array:
    """(rounds, count) times that each of so many things is drawn, when as many are drawn with replacement."""
    drawn = np.random.default_rng(seed).integers(count, size=(rounds, count))
    flat = drawn + count * np.arange(rounds)[:, None]
    return np.bincount(flat.ravel(), minlength=drawn.size).reshape(drawn.shape)


def interval(values: Array, level: float = 0.95) -> Interval:
    """The middle 95% of bootstrapped values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return float(low), float(high)


def _redrawn_means(samples: Array, rounds: int, rng: np.random.Generator) -> Array:
    rows = samples.reshape(len(samples), -1)
    step = max(1, BLOCK // len(samples))
    sizes = [min(step, rounds - start) for start in range(0, rounds, step)]
    means = [draws(len(samples), size, rng) @ rows / len(samples) for size in sizes]
    return np.concatenate(means).reshape(rounds, *samples.shape[1:])


def _ranked(distances: Array, is_right: Array) -> tuple[Array, Array]:
    """Numbers of right ones, and of all, within each distinct distance."""
    distances, is_right = np.asarray(distances), np.asarray(is_right, bool)
    if distances.shape != is_right.shape or distances.ndim != 1 or len(distances) == 0:
        raise BadInput(f"a ranking needs one distance for each label, got {distances.shape} and {is_right.shape}.")
    if not np.isfinite(distances).all():
        raise BadInput("a ranking needs finite distances; these hold NaN or infinity.")
    order = np.argsort(distances, kind="stable")
    ordered = distances[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # of each tie
    return np.cumsum(is_right[order])[last], last + 1


def _two_kinds(distances: Array, is_match: Array, what: str) -> tuple[Array, Array]:
    distances, is_match = np.asarray(distances), np.asarray(is_match, bool)
    if distances.shape != is_match.shape or not np.isfinite(distances).all():
        # NaN compares as neither accepted nor refused: a network that has diverged would look perfect.
        raise BadInput(f"{what} needs one finite distance a pair, got {distances.shape} for {is_match.shape} pairs.")
    matches, others = distances[is_match], distances[~is_match]
    if len(matches) == 0 or len(others) == 0:
        raise BadInput(f"{what} needs matches and non-matches, got {len(matches)} and {len(others)}.")
    return matches, others


def _rank(recall: float, count: int) -> int:
    return int(np.ceil(recall * count - 1e-9))


def _at_rank(values: Array, rank: int) -> float:
    return np.partition(values, rank - 1)[rank - 1]


def _errors(errors: Array) -> Array:
    errors = np.asarray(errors, np.float64)
    if errors.ndim != 1 or len(errors) == 0 or np.isnan(errors).any() or (errors < 0).any():
        raise BadInput("errors must be numbers of 0 or more, one a pair; infinity stands for failure.")
    return errors
