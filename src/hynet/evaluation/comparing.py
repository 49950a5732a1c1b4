"""Columns of a table as means over samples: their intervals, and differences between methods on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import BadInput
from ..geometry import metrics
from ..geometry.metrics import Interval
from ..types import Array
from .contestants import SANITY
from .results import Comparison

USUAL = "rootsift"  # available everywhere


def rival(methods: Sequence[str], against: str | None) -> str | None:
    """Return the method that the others are compared with: the one asked for, else RootSIFT, else the first."""
    if against is None:
        usual = next((name for name in methods if descriptor(name) == USUAL), None)
        return usual or next((name for name in methods if descriptor(name) not in SANITY), None)
    if against not in methods:
        raise BadInput(f"nothing can be compared with {against!r}: the methods are {', '.join(methods)}.")
    return against


def descriptor(method: str) -> str:
    """Return the descriptor's name in a method's: with several detectors, that is DETECTOR+DESCRIPTOR."""
    return method.rpartition("+")[2]


@dataclass(frozen=True)
class Samples:
    """One task's scores of every method on the same N samples, such as pairs of photos."""

    scores: Mapping[str, Array]  # method -> (N,)
    groups: Array | None = None  # (N,) or (levels, N) as `metrics.bootstrap` takes them: averaged and resampled apart

    def of(self, rows: Array) -> Samples:
        """Return the samples of some rows, (N,) bool."""
        groups = None if self.groups is None else self.groups[..., rows]
        return Samples({method: own[rows] for method, own in self.scores.items()}, groups)


@dataclass(frozen=True)
class Column:
    """The mean over one or more tasks of the means over their samples."""

    tasks: Sequence[Samples]

    def mean(self, method: str) -> float:
        return self._mean([each.scores[method] for each in self.tasks])

    def interval(self, method: str) -> Interval:
        return self._interval([each.scores[method] for each in self.tasks])

    def differences(self, name: str, rival: str | None) -> list[Comparison]:
        """Compare every method but the sanity rows with the rival, on the same samples."""
        found: list[Comparison] = []
        if rival is None:
            return found
        for method in self.tasks[0].scores:
            if method != rival and descriptor(method) not in SANITY:
                apart = [each.scores[method] - each.scores[rival] for each in self.tasks]
                found.append(Comparison(name, method, rival, self._mean(apart), self._interval(apart)))
        return found

    def _mean(self, samples: Sequence[Array]) -> float:
        means = [metrics.in_groups(np.mean, some, each.groups) for some, each in zip(samples, self.tasks, strict=True)]
        return float(np.mean(means))

    def _interval(self, samples: Sequence[Array]) -> Interval:
        redrawn = [
            metrics.bootstrap_means(some, each.groups, seed=seed)
            for seed, (some, each) in enumerate(zip(samples, self.tasks, strict=True))
        ]
        return metrics.interval(np.mean(redrawn, axis=0))


def table(columns: Mapping[str, Column]) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, Interval]]]:
    """Return the rows of a table and their intervals, both method -> column -> number."""
    methods = next(iter(columns.values())).tasks[0].scores
    rows = {method: {name: column.mean(method) for name, column in columns.items()} for method in methods}
    intervals = {method: {name: column.interval(method) for name, column in columns.items()} for method in methods}
    return rows, intervals
