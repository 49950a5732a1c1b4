"""The second seed of `hynet ablate components`, joined with the first one's table.

Usage: python research/second_seed.py FIRST.json SETS STACKS OUT      run it again to go on where it stopped
       FIRST.json  what `hynet ablate components --seeds 1` wrote: its margins are taken, and none is searched again
       SETS        holds open/ and choose/ (patch_sets.sh)
       STACKS      the sequences that the first seed was scored on (fewer_patches.py)

`hynet ablate components --seeds 2` trains both where the runs of the first are still there; this is for when only its
table is left. Of the first seed no resampled values are left either, so intervals are the means of both seeds' ends: as
wide as if the two moved together, which is about as wide as the interval of their mean, or wider.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hynet.cli.progress import bar, tell
from hynet.evaluation import results
from hynet.evaluation.evaluate import write
from hynet.evaluation.results import Comparison
from hynet.metrics import Interval
from hynet.paper.ablations import orderings, runs, scoring, telling
from hynet.paper.ablations.asked import Ablation
from hynet.paper.ablations.runs import Budget, Ended, Training
from hynet.paper.ablations.scoring import RowScores, Scores
from hynet.runtime.machine import keep_memory_mapped

SEED = 1


@dataclass(frozen=True)
class JoinedRow(RowScores):
    """One row with the values of both seeds; what is redrawn is the second seed's."""

    first: Mapping[str, Interval]

    def interval(self, column: str) -> Interval:
        return _between(self.first[column], super().interval(column))


@dataclass(frozen=True)
class JoinedScores(Scores):
    """All rows, and the first seed's differences."""

    first: Mapping[tuple[str, str, str], Comparison]

    def compared(self, method: str, rival: str, column: str) -> Comparison | None:
        before, now = self.first.get((method, rival, column)), super().compared(method, rival, column)
        if before is None or now is None:
            return None
        # The difference is that of both seeds' means already: a row's values are of both.
        return replace(now, interval=_between(before.interval, now.interval))


def _between(one: Interval, other: Interval) -> Interval:
    return (one[0] + other[0]) / 2, (one[1] + other[1]) / 2


def joined(first: Mapping[str, Any], second: Scores) -> JoinedScores:
    """The table of the first seed and what the second one scored."""
    values = first["details"]["values"]
    rows = {}
    for name, own in second.rows.items():
        both = {column: np.append(values[name][column], value) for column, value in own.values.items()}
        ends = {column: tuple(some) for column, some in first["intervals"][name].items()}
        rows[name] = JoinedRow(both, own.redrawn, ends)
    before = {
        (each["method"], each["rival"], each["column"]): Comparison(**each | {"interval": tuple(each["interval"])})
        for each in first["comparisons"]
    }
    return JoinedScores(rows, second.bars, second.pairs, second.stacks, before)


def train(asked: Ablation, margins: Mapping[str, Mapping[str, float]]) -> dict[str, list[Ended]]:
    """Every row, with the margin that was the best for its loss."""
    best = {loss: float(min(tried, key=lambda margin: tried[margin])) for loss, tried in margins.items()}
    named = {}
    for row in asked.plan().rows:
        assert row.config is not None  # all rows of this study are trained
        config = replace(row.config, margin=best.get(row.config.loss, row.config.margin))
        config = runs.with_budget(config, asked.budget, SEED)
        named[row.name] = Training(f"{row.name}, seed {SEED}", config, runs.place(asked.out, config, asked.data))
    with bar() as progress:
        ended = runs.train_all([*named.values()], asked.data, jobs=asked.jobs, progress=progress, tell=tell)
    return {name: [one] for name, one in zip(named, ended, strict=True)}


def main(first_file: Path, sets: Path, stacks: Path, out: Path, jobs: int | None) -> None:
    first = json.loads(first_file.read_text())
    told = first["details"]
    if told["seeds"] != 1:
        raise SystemExit(f"{first_file} is of {told['seeds']} seeds; give the table of the first alone.")
    budget = Budget(told["steps"], told["pairs_per_batch"], seeds=2, precision="auto")
    asked = Ablation("components", [sets / "open"], sets / "choose", stacks, out, budget, pairs=10_000, jobs=jobs)
    keep_memory_mapped()
    trained = train(asked, told["margins"])
    models = {name: [str(one.checkpoint) for one in own] for name, own in trained.items()}
    with bar() as progress:
        second = scoring.score(models, asked.validate, asked.test, progress, pairs=asked.pairs)
    scores = joined(first, second)
    plan = asked.plan()
    margins = {loss: {float(margin): error for margin, error in some.items()} for loss, some in told["margins"].items()}
    verdicts = orderings.judged(plan, scores)
    evaluation = telling.evaluation(plan, asked, telling.Measured(scores, trained, margins, verdicts))
    print(results.markdown(evaluation))
    print(*write(evaluation, out, shlex.join(["python", *sys.argv])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first_file", type=Path, metavar="first")
    parser.add_argument("sets", type=Path)
    parser.add_argument("stacks", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, help="runs at once; by default one a core")
    main(**vars(parser.parse_args()))
