"""What each row of a study reaches: FPR@95 on pairs of patches, and HPatches' tasks on stacks of them.

All rows are resampled alike, so that differences are those of the rows and not of the samples.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...evaluation.contestants import Contestant, fingerprint
from ...evaluation.hpatches import summary
from ...evaluation.hpatches.evaluate import HpatchesOptions, Stacks, describe_stacks, open_stacks
from ...evaluation.results import Bars, Comparison
from ...evaluation.ubc import TestSet, open_set, pair_distances
from ...geometry import metrics
from ...geometry.metrics import Interval
from ...types import Array, Progress, silent

COLUMNS = ("fpr95", "matching", "verification", "retrieval")
AREA = summary.AREAS["corrected"]


@dataclass(frozen=True)
class RowScores:
    """One row: every seed's values in percent, and those values as they move when the samples are resampled."""

    values: Mapping[str, Array]  # column -> (seeds,)
    redrawn: Mapping[str, Array]  # column -> (rounds,), the mean over seeds

    def mean(self, column: str) -> float:
        return float(self.values[column].mean())

    def spread(self, column: str) -> float:
        """Between the best and the worst seed."""
        return float(np.ptp(self.values[column]))

    def interval(self, column: str) -> Interval:
        return metrics.interval(self.redrawn[column])


@dataclass(frozen=True)
class Scores:
    """All rows of a study that were scored."""

    rows: Mapping[str, RowScores]
    bars: Bars  # as the paper's Fig. 4, of the first seed
    pairs: TestSet
    stacks: Stacks

    def compared(self, method: str, rival: str, column: str) -> Comparison | None:
        """The difference on the same samples; None where one of them has no such number."""
        here, there = self.rows.get(method), self.rows.get(rival)
        if here is None or there is None or column not in here.values or column not in there.values:
            return None
        apart = here.redrawn[column] - there.redrawn[column]
        difference = here.mean(column) - there.mean(column)
        return Comparison(column, method, rival, difference, metrics.interval(apart))


def score(
    models: Mapping[str, Sequence[str]], validate: Path, test: Path, progress: Progress = silent, *, pairs: int | None
) -> Scores:
    """`models`: row -> its models, one a seed, by name or by path. pairs: of `validate`, as for `evaluate ubc`."""
    tested = open_set(validate, pairs, progress)
    stacks = open_stacks(test, HpatchesOptions(), progress)
    distances, tasks = {}, {}
    for row, names in models.items():
        for seed, name in enumerate(names):
            contestant = _contestant(f"{row}, seed {seed}", name)
            distances[row, seed] = pair_distances(contestant, tested, progress)
            tasks[row, seed] = summary.scored(describe_stacks(contestant, stacks, progress), stacks.lists, progress)
    drawn = 100 * metrics.fpr95_paired_bootstrap(
        np.stack(list(distances.values())), tested.pairs.is_match, seed=zlib.crc32(tested.name.encode())
    )
    fpr95_drawn = dict(zip(distances, drawn, strict=True))
    rows = {}
    for row, names in models.items():
        own = [(row, seed) for seed in range(len(names))]
        values = {"fpr95": [100 * metrics.fpr95(distances[key], tested.pairs.is_match) for key in own]}
        redrawn = {"fpr95": [fpr95_drawn[key] for key in own]}
        for key in own:
            moved = summary.redrawn(tasks[key], AREA)
            for column, value in summary.row(tasks[key], AREA).items():
                if column in COLUMNS and value is not None:
                    values.setdefault(column, []).append(value)
                    redrawn.setdefault(column, []).append(moved[column])
        rows[row] = RowScores(
            {column: np.array(some) for column, some in values.items()},
            {column: np.mean(some, axis=0) for column, some in redrawn.items()},
        )
    bars = summary.pictures({row: tasks[row, 0] for row in models}, AREA, stacks.sequences)["bars"]
    assert isinstance(bars, Bars)
    return Scores(rows, bars, tested, stacks)


def validation_errors(models: Sequence[Path], validate: Path, progress: Progress = silent) -> list[float]:
    """FPR@95 of each in percent, on the pairs that a training validates on."""
    from ...training.validation import VALIDATION_PAIRS  # brings torch

    tested = open_set(validate, None, progress, most=VALIDATION_PAIRS)
    found = [pair_distances(_contestant(model.parent.name, str(model)), tested, progress) for model in models]
    return [100 * metrics.fpr95(distances, tested.pairs.is_match) for distances in found]


def _contestant(shown: str, name: str) -> Contestant:
    from ...features.descriptors.loading import load

    descriptor = load(name)
    return Contestant(shown, descriptor, fingerprint(name, descriptor))
