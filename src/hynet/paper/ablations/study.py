"""`hynet ablate`: search margins, train every row with one budget, score them on the same samples, tell what shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

from ... import datasets
from ...errors import BadInput, need
from ...evaluation.results import Evaluation
from ...training.configuration import TrainConfig
from ...types import Progress, silent
from . import orderings, runs, scoring, telling
from .asked import Ablation
from .plans import LOOKS, Plan, Row
from .runs import Ended, Tell, Training
from .telling import Measured

SEARCH = 0.25  # of the steps, for each margin that is tried


@dataclass(frozen=True)
class Found:
    """A study that was run."""

    evaluation: Evaluation
    verdicts: Sequence[orderings.Verdict]
    margins: Mapping[str, Mapping[float, float]] = field(default_factory=dict)  # loss -> margin tried -> FPR@95 in %


def ablate(asked: Ablation, progress: Progress = silent, tell: Tell = lambda line: None) -> Found:
    """Run one study, or go on with it."""
    need("torch", "train", "training")
    from ...training.descriptor import loss_function
    from ...training.sampling import batches_per_epoch, mix
    from ...training.train import check_apart

    plan = asked.plan()
    patches = mix([datasets.find_patches(root).load(root, 32, progress) for root in asked.data])
    for config in [row.config for row in plan.rows if row.config is not None]:
        loss_function(config)  # what no loss takes and no set fills is told now, not after hours
        batches_per_epoch(patches, (config if asked.own_settings else asked.budget).pairs_per_batch)
    _check_test(asked.test)
    datasets.test_pairs(asked.validate, asked.pairs)  # raises where there are not so many
    check_apart(list(asked.data), [asked.validate], "Give another set to --validate.")
    margins = _search(plan, asked, progress, tell)
    plan = replace(plan, rows=[_with_margin(row, margins) for row in plan.rows])
    trained = _train(plan, asked, progress, tell)
    models = {row.name: [row.model] for row in plan.rows if row.config is None}
    models |= {
        name: [str(e.checkpoint) for e in own] for name, own in trained.items() if not any(e.diverged for e in own)
    }
    if not models:
        raise BadInput(f"no row of {plan.name} could be trained: {next(iter(trained.values()))[0].diverged}")
    in_order = {row.name: models[row.name] for row in plan.rows if row.name in models}
    scores = scoring.score(in_order, asked.validate, asked.test, progress, pairs=asked.pairs)
    verdicts = orderings.judged(plan, scores)
    evaluation = telling.evaluation(plan, asked, Measured(scores, trained, margins, verdicts))
    return Found(evaluation, verdicts, margins)


def _check_test(test: Path) -> None:
    """Before hours of training."""
    from ...datasets import hpatches, sequences

    if not hpatches.recognise(test):
        sequences.folders(test)  # raises with the sentence that says what is missing


def _search(plan: Plan, asked: Ablation, progress: Progress, tell: Tell) -> dict[str, dict[float, float]]:
    """Loss -> margin -> FPR@95 on the validation set, after a quarter of the steps; first seed."""
    configs = {row.config.loss: row.config for row in reversed(plan.rows) if row.config is not None}
    tried = [(loss, margin) for loss, some in plan.margins.items() if loss in configs for margin in some]
    trainings = []
    for loss, margin in tried:
        config = runs.with_budget(replace(configs[loss], margin=margin), asked.budget, 0, share=SEARCH)
        name = f"{loss}, m {margin:g}"
        trainings.append(Training(name, config, runs.place(asked.out, config, asked.data)))
    ended = _all(trainings, asked, progress, tell, called="runs of the search for margins")
    kept = [one for one in ended if not one.diverged]
    errors = scoring.validation_errors([one.checkpoint for one in kept], asked.validate, progress) if kept else []
    measured = {one.out: error for one, error in zip(kept, errors, strict=True)}
    found: dict[str, dict[float, float]] = {}
    for (loss, margin), one in zip(tried, ended, strict=True):
        found.setdefault(loss, {})[margin] = measured.get(one.out, 100.0)
    return found


def _with_margin(row: Row, margins: Mapping[str, Mapping[float, float]]) -> Row:
    """The row with the best margin of its loss, where that was searched."""
    if row.config is None or row.config.loss not in margins:
        return row
    tried = margins[row.config.loss]
    return replace(row, config=replace(row.config, margin=min(tried, key=lambda margin: tried[margin])))


def _train(plan: Plan, asked: Ablation, progress: Progress, tell: Tell) -> dict[str, list[Ended]]:
    """Row -> its runs, one a seed. All rows of one seed before the next, so that a study is soon worth looking at."""
    rows = [(row.name, row.config) for row in plan.rows if row.config is not None]
    trainings = []
    for seed in range(asked.budget.seeds):
        for name, config in rows:
            budgeted = _budgeted(config, plan, asked, seed)
            where = runs.place(asked.out, budgeted, asked.data, asked.validate if plan.curves else None)
            trainings.append(Training(f"{name}, seed {seed}", budgeted, where, validated=plan.curves))
    ended = _all(trainings, asked, progress, tell)
    return {name: [*ended[number :: len(rows)]] for number, (name, _) in enumerate(rows)}


def _budgeted(config: TrainConfig, plan: Plan, asked: Ablation, seed: int) -> TrainConfig:
    budgeted = runs.with_budget(config, asked.budget, seed, own=asked.own_settings)
    if not plan.curves:
        return budgeted
    steps = ceil(asked.budget.steps / LOOKS)  # a run validates after each of its epochs
    return replace(budgeted, pairs_per_epoch=steps * asked.budget.pairs_per_batch, validate_minutes=None)


def _all(
    trainings: Sequence[Training], asked: Ablation, progress: Progress, tell: Tell, called: str = "runs"
) -> list[Ended]:
    return runs.train_all(
        trainings, asked.data, asked.validate, called=called, jobs=asked.jobs, progress=progress, tell=tell
    )
