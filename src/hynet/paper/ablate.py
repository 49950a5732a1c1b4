"""`hynet paper ablate`: search margins, train every row with one budget, score all on the same samples, and judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

import numpy as np

from .. import datasets
from ..errors import BadInput, need
from ..evaluation.results import Bars, Curves, Evaluation
from ..training.configuration import TrainConfig
from ..types import Progress, silent
from . import runs, scoring
from .plans import LOOKS, Ablation, Plan, Row
from .runs import Ended, Tell, Training
from .scoring import Scores

SEARCH = 0.25  # of the steps, for each margin that is tried


@dataclass(frozen=True)
class Study:
    """A study that was run."""

    evaluation: Evaluation
    verdicts: Sequence[scoring.Verdict]
    margins: Mapping[str, Mapping[float, float]] = field(default_factory=dict)  # loss -> margin tried -> FPR@95 in %


def ablate(asked: Ablation, progress: Progress = silent, tell: Tell = lambda line: None) -> Study:
    """Run one study, or go on with it."""
    need("torch", "train", "training")
    from ..training.descriptor import loss_function
    from ..training.sampling import batches_per_epoch, mix
    from ..training.train import check_apart

    plan = asked.plan()
    patches = mix([datasets.find_patches(root).load(root, 32, progress) for root in asked.data])
    for config in [row.config for row in plan.rows if row.config is not None]:
        loss_function(config)  # what no loss takes and no set fills is reported now, not after hours
        batches_per_epoch(patches, (config if asked.own_settings else asked.budget).pairs_per_batch)
    _check_test(asked.test)
    datasets.test_pairs(asked.validate, asked.pair_list)  # raises where there are not so many
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
    scores = scoring.score(in_order, asked.validate, asked.test, progress, pairs=asked.pair_list)
    verdicts = scoring.judged(plan, scores)
    evaluation = _evaluation(plan, asked, Measured(scores, trained, margins, verdicts))
    return Study(evaluation, verdicts, margins)


def _check_test(test: Path) -> None:
    """Before hours of training."""
    from ..datasets import hpatches, sequences

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


# --- The table ---


@dataclass(frozen=True)
class Measured:
    """Results of a study that its table shows."""

    scores: Scores
    trained: Mapping[str, Sequence[Ended]]  # row -> its runs, one a seed
    margins: Mapping[str, Mapping[float, float]]  # loss -> margin -> FPR@95, where that was searched
    verdicts: Sequence[scoring.Verdict]


def _evaluation(plan: Plan, asked: Ablation, measured: Measured) -> Evaluation:
    scores = measured.scores
    seeds = asked.budget.seeds
    columns = [column for column in scoring.COLUMNS if any(column in own.values for own in scores.rows.values())]
    spreads = [f"{column}_spread" for column in ("fpr95", "matching")] if seeds > 1 else []
    papers = [f"paper_{column}" for column in dict.fromkeys(c for row in plan.paper.values() for c in row)]
    rows: dict[str, dict[str, float | None]] = {}
    for row in plan.rows:
        own = scores.rows.get(row.name)
        rows[row.name] = {column: own.mean(column) for column in columns if own is not None and column in own.values}
        if own is not None and seeds > 1 and row.config is not None:
            rows[row.name] |= {f"{column}_spread": own.spread(column) for column in ("fpr95", "matching")}
        rows[row.name] |= {f"paper_{column}": value for column, value in plan.paper.get(row.name, {}).items()}
    pairs = [(plan.reference, row.name) for row in plan.rows[1:]]
    compared = {frozenset(pair) for pair in pairs}
    stated = dict.fromkeys((each.better, each.worse) for each in measured.verdicts)
    pairs += [pair for pair in stated if frozenset(pair) not in compared]
    found = [scores.compared(*pair, column) for pair in pairs for column in ("fpr95", "matching")]
    return Evaluation(
        plan.name,
        str(asked.test),
        [*columns[:2], *spreads, *papers, *columns[2:]],
        rows,
        {name: {column: own.interval(column) for column in own.values} for name, own in scores.rows.items()},
        title=plan.title,
        lower_is_better=scoring.LOWER_IS_BETTER,
        comparisons=[each for each in found if each is not None],
        pictures=_pictures(plan, asked, scores, measured.trained),
        details={
            "study": plan.name,
            "seeds": seeds,
            "steps": asked.budget.steps,
            "pairs_per_batch": asked.budget.pairs_per_batch,
            "values": {n: {c: v.tolist() for c, v in own.values.items()} for n, own in scores.rows.items()},
            "margins": {
                loss: {f"{m:g}": value for m, value in tried.items()} for loss, tried in measured.margins.items()
            },
            "alphas": list(plan.alphas),
            "grid_margins": list(plan.grid_margins),
            "orderings": [vars(each) for each in measured.verdicts],
        },
        notes=_notes(plan, asked, measured),
    )


def _pictures(
    plan: Plan, asked: Ablation, scores: Scores, trained: Mapping[str, Sequence[Ended]]
) -> dict[str, Curves | Bars]:
    found: dict[str, Curves | Bars] = {"bars": replace(scores.bars, title=plan.title)}
    if plan.curves:
        lines = {name: _curve(own) for name, own in trained.items()}
        found["curves"] = Curves(f"{_looked_at(asked)}: FPR@95 while training", "steps", "FPR@95, %", lines)
    if plan.alphas:
        lines = {f"alpha {alpha:g}": _line(plan, scores, alpha) for alpha in plan.alphas}
        found["grid"] = Curves("Matching over the margin", "m", "mAP, %", lines)
    return found


def _curve(ended: Sequence[Ended]) -> dict[str, list[float]]:
    """FPR@95 over the steps, the mean of the seeds."""
    from ..training import logbook

    logs = [[line for line in logbook.read(run.out) if line.get("validation")] for run in ended]
    looks = zip(*logs, strict=False)
    points = [(some[0]["step"], np.mean([next(iter(line["validation"].values())) for line in some])) for some in looks]
    return {"x": [float(step) for step, _ in points], "y": [float(error) for _, error in points]}


def _looked_at(asked: Ablation) -> str:
    """Name the pairs that a run is validated on."""
    from ..training.validation import VALIDATION_PAIRS

    return f"{min(len(datasets.test_pairs(asked.validate)), VALIDATION_PAIRS):,} pairs of {asked.validate.name}"


def _on_the_way(trained: Mapping[str, Sequence[Ended]]) -> list[str]:
    """Sentences that count the checks at which another row was ahead of the first."""
    first, *others = ({name: _curve(own)["y"] for name, own in trained.items()}).items()
    sentences = []
    for name, curve in others:
        behind = sum(ours > theirs for ours, theirs in zip(first[1], curve, strict=False))
        sentences.append(f"During training {name} is ahead of {first[0]} at {behind} of {len(curve)} checks.")
    return sentences


def _line(plan: Plan, scores: Scores, alpha: float) -> dict[str, list[float]]:
    cells = [
        (row.config.margin, scores.rows[row.name].mean("matching"))
        for row in plan.rows
        if row.config is not None and row.config.alpha == alpha and row.name in scores.rows
    ]
    cells.sort()
    return {"x": [float(margin or 0) for margin, _ in cells], "y": [value for _, value in cells]}


def _notes(plan: Plan, asked: Ablation, measured: Measured) -> list[str]:
    scores, verdicts = measured.scores, measured.verdicts
    budget = asked.budget
    each = "its authors' settings" if asked.own_settings else "HyNet's settings, and the same pairs in the same order"
    sets = ", ".join(path.name for path in asked.data)
    lasted = f"{budget.steps} steps of {budget.pairs_per_batch} pairs of {sets}, {each}"
    if asked.own_settings:
        lasted = f"the pairs of {budget.steps} steps of {budget.pairs_per_batch}, of {sets}, in batches by {each}"
    seeds = "one seed" if budget.seeds == 1 else f"{budget.seeds} seeds"
    notes = [
        *([scoring.summed_up(verdicts)] if verdicts else []),
        *(verdict.sentence for verdict in verdicts),
        *scoring.best_cell(plan, scores),
        *(_on_the_way(measured.trained) if plan.curves else []),
        *plan.notes,
        f"Budget of every trained row: {lasted}; {seeds}; the last weights, not the best.",
    ]
    for loss, tried in measured.margins.items():
        errors = ", ".join(f"{margin:g}: {value:.2f}" for margin, value in tried.items())
        best = min(tried, key=lambda margin: tried[margin])
        tie = " (the first of several as good)" if list(tried.values()).count(tried[best]) > 1 else ""
        notes.append(
            f"Margin of {loss}: {best:g}{tie}, chosen by FPR@95 in % on {asked.validate.name} after a quarter of the "
            f"steps ({errors}); so fpr95 of these rows is of the set that chose their margin, and matching is not."
        )
    cut = "" if scores.stacks.root == asked.test else ", stacks cut of them as HPatches does"
    notes += [
        f"fpr95: in %, {len(scores.pairs.pairs):,} pairs of {scores.pairs.name}. The others: mAP in %, "
        f"{len(scores.stacks.sequences)} sequences of {asked.test.name}{cut}.",
        "Intervals and differences: 95%, pairs (fpr95) and sequences (the others) resampled, the same for all rows; "
        "the mean of the seeds. *_spread: the best seed minus the worst.",
        "An ordering holds, or is reversed, where the interval of the difference excludes zero and every seed of one "
        "row is better than every seed of the other.",
        f"The paper's: {plan.paper_source}. Its data and budget are others, so only the order can be compared.",
    ]
    notes += [f"{n}: {e.diverged}" for n, own in measured.trained.items() for e in own if e.diverged]
    return notes
