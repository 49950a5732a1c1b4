"""Pairs or bags of one or both tasks -> columns: means, their intervals, differences on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...geometry import metrics
from ...types import Array
from ..harness import comparing
from ..harness.evaluation import Comparison
from ..harness.sanity import SANITY


@dataclass(frozen=True)
class Samples:
    """What the mAA is a mean of, in percent: N pairs, or N bags."""

    credits: Mapping[str, Array]  # method -> (N,)
    scene: Array  # (N,) its scene
    group: Array  # (N,) or (levels, N) as `metrics.bootstrap` takes them: averaged first, and drawn apart


@dataclass(frozen=True)
class Column:
    """A mean over the tasks (one or both) of the means over their samples."""

    tasks: Sequence[Samples]

    def mean(self, method: str) -> float:
        return float(np.mean([comparing.mean(each.credits[method], each.group) for each in self.tasks]))

    def interval(self, method: str) -> metrics.Interval:
        return self._interval([each.credits[method] for each in self.tasks])

    def differences(self, name: str, rival: str | None) -> list[Comparison]:
        """Every method but the sanity rows against the rival, on the same samples."""
        found: list[Comparison] = []
        if rival is None:
            return found
        for method in self.tasks[0].credits:
            if method == rival or comparing.descriptor(method) in SANITY:
                continue
            apart = [each.credits[method] - each.credits[rival] for each in self.tasks]
            mean = self.mean(method) - self.mean(rival)
            found.append(Comparison(name, method, rival, mean, self._interval(apart)))
        return found

    def _interval(self, samples: Sequence[Array]) -> metrics.Interval:
        redrawn = [
            metrics.bootstrap_means(some, each.group, seed=seed)
            for seed, (some, each) in enumerate(zip(samples, self.tasks, strict=True))
        ]
        return metrics.interval(np.mean(redrawn, axis=0))


def columns(scenes: Sequence[str], tasks: Mapping[str, Samples]) -> dict[str, Column]:
    """maa10 over all groups alike; with both tasks, it is their average and each has a column; then each scene's."""
    every = list(tasks.values())
    found = {"maa10": Column(every)}
    if len(tasks) > 1:
        found |= {name: Column([samples]) for name, samples in tasks.items()}
    if len(scenes) > 1:
        found |= {name: Column([_of_scene(samples, name) for samples in every]) for name in scenes}
    return found


def _of_scene(samples: Samples, name: str) -> Samples:
    here = samples.scene == name
    credits = {method: own[here] for method, own in samples.credits.items()}
    return Samples(credits, samples.scene[here], samples.group[..., here])
