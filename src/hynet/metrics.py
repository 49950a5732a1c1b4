"""Arrays in, floats out: the numbers that papers of this field print."""

from __future__ import annotations

import numpy as np

from .errors import BadInput
from .types import Array


def fpr95(distances: Array, is_match: Array, recall: float = 0.95) -> float:
    """Share of non-matches accepted at the smallest threshold that accepts 95% of the matches. A fraction.

    Exact: the threshold is the order statistic of rank ceil(0.95 n), and d <= threshold is accepted.
    """
    distances, is_match = np.asarray(distances), np.asarray(is_match, bool)
    if distances.shape != is_match.shape or not np.isfinite(distances).all():
        # NaN compares as neither accepted nor refused: a network that has diverged would look perfect.
        raise BadInput(f"FPR@95 needs one finite distance a pair, got {distances.shape} for {is_match.shape} pairs.")
    matches, others = distances[is_match], distances[~is_match]
    if len(matches) == 0 or len(others) == 0:
        raise BadInput(f"FPR@95 needs matches and non-matches, got {len(matches)} and {len(others)}.")
    rank = int(np.ceil(recall * len(matches) - 1e-9))
    threshold = np.partition(matches, rank - 1)[rank - 1]
    return float((others <= threshold).mean())
