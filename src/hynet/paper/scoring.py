"""Scores of a study's rows: FPR@95 on pairs of patches, HPatches' tasks on stacks; verdicts on the paper's orderings.

All rows are resampled alike, so that differences are those of the rows and not of the samples.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..evaluation.contestants import Contestant, fingerprint
from ..evaluation.hpatches import summary
from ..evaluation.hpatches.evaluate import HpatchesOptions, Stacks, describe_stacks, open_stacks
from ..evaluation.results import Bars, Comparison
from ..evaluation.ubc import TestSet, open_set, pair_distances
from ..geometry import metrics
from ..geometry.metrics import Interval
from ..types import Array, Progress, silent
from .plans import Ordering, Plan, cell_name

COLUMNS = ("fpr95", "matching", "verification", "retrieval")
LOWER_IS_BETTER = ("fpr95",)
NAMES = {"fpr95": "FPR@95", "matching": "mAP of matching"}
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
    from ..training.validation import VALIDATION_PAIRS  # brings torch

    tested = open_set(validate, None, progress, most=VALIDATION_PAIRS)
    found = [pair_distances(_contestant(model.parent.name, str(model)), tested, progress) for model in models]
    return [100 * metrics.fpr95(distances, tested.pairs.is_match) for distances in found]


def _contestant(shown: str, name: str) -> Contestant:
    from ..features.descriptors.loading import load

    descriptor = load(name)
    return Contestant(shown, descriptor, fingerprint(name, descriptor))


# --- The paper's orderings ---


@dataclass(frozen=True)
class Verdict:
    """Outcome for one of the paper's orderings."""

    better: str
    worse: str
    column: str
    verdict: str  # shows, reversed, open, missing
    sentence: str


def judged(plan: Plan, scores: Scores) -> list[Verdict]:
    """Every ordering that the paper states."""
    return [_judge(ordering, scores, _by_paper(plan, ordering)) for ordering in plan.orderings]


def _judge(ordering: Ordering, scores: Scores, by_paper: str) -> Verdict:
    better, worse, column = ordering.better, ordering.worse, ordering.column
    named = (better, worse, column)
    claim = f"{better} better than {worse}{by_paper}"
    found = scores.compared(better, worse, column)
    if found is None:
        return Verdict(*named, "missing", f"{claim}: not measured, because one of the two has no result.")
    sign = -1 if column in LOWER_IS_BETTER else 1
    low, high = found.interval
    measured = f"{found.difference:+.2f} [{low:+.2f}, {high:+.2f}] in {NAMES[column]}"
    here, there = scores.rows[better].values[column], scores.rows[worse].values[column]
    repeated = len(here) > 1 or len(there) > 1
    apart = sign * (here[:, None] - there[None])  # every seed of one against every seed of the other
    seeds_agree = bool((apart > 0).all() or (apart < 0).all())
    verdict = "open"
    if low * high > 0 and seeds_agree:
        verdict = "shows" if sign * found.difference > 0 else "reversed"
    here_it = {
        "shows": "holds here",
        "reversed": "is reversed here",
        "open": "is inconclusive here" if low * high <= 0 else "is inconclusive here: seeds disagree",
    }[verdict]
    seeds = "" if repeated else "; one seed, so the variation between runs is not known"
    return Verdict(*named, verdict, f"{claim}: {here_it} ({measured}{seeds}).")


def best_cell(plan: Plan, scores: Scores) -> list[str]:
    """Sentence about a grid's best cell, and how far the paper's is behind."""
    if not plan.alphas:
        return []
    cells = [row.name for row in plan.rows if row.name in scores.rows]
    if not cells:
        return ["No cell of the grid has a result."]
    best = max(cells, key=lambda name: scores.rows[name].mean("matching"))
    sentence = f"Best cell: {best} (matching {scores.rows[best].mean('matching'):.2f})"
    papers = cell_name(2.0, 1.2)
    if papers not in cells:
        return [f"{sentence}; the paper's best, {papers}, is not in this grid."]
    if best == papers:
        others = [scores.compared(papers, name, "matching") for name in cells if name != papers]
        surely = sum(each is not None and each.interval[0] > 0 for each in others)
        return [
            f"{sentence}, which is the paper's best; better than {surely} of {len(others)} others beyond the interval."
        ]
    found = scores.compared(best, papers, "matching")
    assert found is not None
    low, high = found.interval
    return [
        f"{sentence}, ahead of the paper's best, {papers}, by {found.difference:.2f} [{low:+.2f}, {high:+.2f}]; chosen "
        f"among {len(cells)} cells on the same samples, so some of the lead is chance."
    ]


def summed_up(verdicts: Sequence[Verdict]) -> str:
    """All of them in one sentence."""
    one = {"shows": "holds", "reversed": "is reversed", "open": "is inconclusive", "missing": "was not measured"}
    several = {"shows": "hold", "reversed": "are reversed", "open": "are inconclusive", "missing": "were not measured"}
    parts = []
    for verdict in one:
        if some := [each for each in verdicts if each.verdict == verdict]:
            parts.append(f"{len(some)} {(one if len(some) == 1 else several)[verdict]} ({_listed(some)})")
    return f"Of the paper's {len(verdicts)} orderings {'; '.join(parts)}."


def _listed(verdicts: Sequence[Verdict]) -> str:
    """`HyNet before SOSNet, HardNet in FPR@95; ...`: rows that one of them is before stand together."""
    worse: dict[tuple[str, str], list[str]] = {}
    for each in verdicts:
        worse.setdefault((each.better, each.column), []).append(each.worse)
    return "; ".join(f"{name} before {', '.join(rows)} in {NAMES[column]}" for (name, column), rows in worse.items())


def _by_paper(plan: Plan, ordering: Ordering) -> str:
    """The paper's two numbers, in brackets."""
    numbers = [plan.paper.get(name, {}).get(ordering.column) for name in (ordering.better, ordering.worse)]
    return "" if None in numbers else f" (paper: {numbers[0]:.2f} and {numbers[1]:.2f})"
