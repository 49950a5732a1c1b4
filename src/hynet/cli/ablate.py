"""Run one of the paper's studies: train and evaluate every row with the same budget, and say which of the paper's
orderings hold.

components is the paper's Table 3, grid is Fig. 5a, losses is Fig. 5c, sosr is Table 5, rivals are the methods of
Table 1. Run the same command again to continue an interrupted study; `hynet report study/` turns it into a web page.

Example: hynet ablate components --data liberty/ --validate notredame/ --test hpatches-release/ --steps 800 --out study/
         hynet ablate grid --data set/ --validate other/ --test sequences/ --steps 200 --out study/
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ..evaluation import results
from ..evaluation.evaluate import writable, write
from ..paper.ablations.asked import Ablation
from ..paper.ablations.runs import Budget
from ..paper.ablations.study import Found, ablate
from ..runtime.locks import exclusive_lock
from ..runtime.machine import keep_memory_mapped
from ..training.configuration import Precision
from . import Report, terminal_width
from .progress import bar, tell

StudyName = Literal["components", "grid", "losses", "sosr", "rivals"]


def run(
    study: Annotated[StudyName, tyro.conf.Positional],
    *,
    data: tuple[Path, ...],
    validate: Path,
    test: Path,
    steps: int,
    out: Path,
    seeds: int = 1,
    pairs_per_batch: int = 512,
    pairs: int | None = None,
    own_settings: bool = False,
    alphas: tuple[float, ...] | None = None,
    margins: tuple[float, ...] | None = None,
    jobs: int | None = None,
    compiled: bool = True,
    precision: Precision = "float32",
) -> Report:
    """Run a study.

    Args:
        study: components, grid, losses, sosr or rivals.
        data: one or more patch sets to train on, mixed.
        validate: the patch set that FPR@95 is measured on; margins are chosen on it too.
        test: HPatches' patch release, or a folder of image sequences to cut such patches from.
        steps: training steps per row.
        out: the folder of the study; studies in the same folder share their runs.
        seeds: training runs per row, each with its own seed.
        pairs_per_batch: pairs per training step, two patches each.
        pairs: number of validation pairs to measure FPR@95 on; by default 100,000, or as many as the set lists.
        own_settings: for rivals and sosr: train each row as its authors did, on the same number of pairs.
        alphas: alphas of the grid; by default 0.5, 1, 2 and 4.
        margins: margins of the grid; by default 0.8, 1, 1.2 and 1.4.
        jobs: training runs at once; by default one per core, or one if a GPU trains.
        compiled: compile networks if there is a C++ compiler: the same mathematics, about twice as fast.
        precision: precision of convolutions on a CPU, for every row; auto: bfloat16 if the CPU is fast in it.
    """
    asked = Ablation(
        study,
        data,
        validate,
        test,
        out,
        Budget(steps, pairs_per_batch, seeds, compiled, precision),
        pairs=pairs,
        own_settings=own_settings,
        alphas=alphas,
        margins=margins,
        jobs=jobs,
    )
    keep_memory_mapped()
    with writable(out), exclusive_lock(out), bar() as progress:
        found = ablate(asked, progress, tell)
        files = write(found.evaluation, out, _command(asked))
    text = results.markdown(found.evaluation, terminal_width())
    return Report(
        f"{text}\n\nwritten: {', '.join(map(str, files))}", _told(found, study) | {"files": [*map(str, files)]}
    )


def _told(found: Found, study: str) -> dict[str, Any]:
    evaluation = found.evaluation
    told = results.summary(evaluation)
    rows = {
        name: {column: value for column, value in row.items() if not column.startswith("paper_")}
        for name, row in evaluation.rows.items()
    }
    paper = {
        name: {column.removeprefix("paper_"): value for column, value in row.items() if column.startswith("paper_")}
        for name, row in evaluation.rows.items()
    }
    return {
        "study": study,
        "rows": rows,
        "paper": {name: row for name, row in paper.items() if row},
        "seeds": evaluation.details["seeds"],
        "intervals": told["intervals"],
        "margins": evaluation.details["margins"],
        "orderings": evaluation.details["orderings"],
    }


def _command(asked: Ablation) -> str:
    words = ["hynet", "ablate", asked.study, "--data", *map(str, asked.data), "--validate", str(asked.validate)]
    words += ["--test", str(asked.test), "--steps", str(asked.budget.steps), "--seeds", str(asked.budget.seeds)]
    words += ["--pairs-per-batch", str(asked.budget.pairs_per_batch), "--out", str(asked.out)]
    words += ["--precision", asked.budget.precision, *([] if asked.budget.compiled else ["--no-compiled"])]
    words += [] if asked.pairs is None else ["--pairs", str(asked.pairs)]
    words += [] if asked.alphas is None else ["--alphas", *map(str, asked.alphas)]
    words += [] if asked.margins is None else ["--margins", *map(str, asked.margins)]
    return shlex.join(words + (["--own-settings"] if asked.own_settings else []))
