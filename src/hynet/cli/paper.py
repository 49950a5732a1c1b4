"""Make the paper's studies, figures and tables: `hynet paper ablate`, `hynet paper figures`, `hynet paper tables`.

Example: hynet paper ablate components --data liberty/ --validate notredame/ --test hpatches/ --steps 800 --out study/
         hynet paper figures --out figures/ --study study/
         hynet paper tables --data phototour-and-hpatches/ --out reproduction/
`hynet paper PART --help` shows the options of one of the three.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from .. import pages
from ..errors import BadInput, choose, need
from ..evaluation import results
from ..evaluation.evaluate import writable
from ..evaluation.results import Evaluation
from ..pages.report.page import page
from ..paper.ablate import Study
from ..paper.ablate import ablate as run_study
from ..paper.figures.drawing import Sources, draw
from ..paper.plans import Ablation
from ..paper.runs import Budget
from ..paper.tables import PARTS as TABLES
from ..paper.tables import Reproduction, reproduce
from ..runtime.locks import exclusive_lock
from ..runtime.machine import keep_memory_mapped
from ..training.configuration import Precision
from . import Report, parse_value, terminal_width
from .evaluate import as_options
from .help import HELP
from .progress import bar, tell


@dataclass(frozen=True, kw_only=True)
class Ablate:
    """Train and evaluate every row of one of the paper's studies with the same budget, and say which orderings hold.

    components is the paper's Table 3, grid is Fig. 5a, losses is Fig. 5c, sosr is Table 5, rivals are the methods of
    Table 1. Run the same command again to continue an interrupted study; `hynet report study/` makes a web page of it.

    Example: hynet paper ablate grid --data set/ --validate other/ --test sequences/ --steps 200 --out study/
    """

    study: tyro.conf.Positional[Literal["components", "grid", "losses", "sosr", "rivals"]]
    data: tuple[Path, ...]  # one or more patch sets to train on, mixed
    validate: Path  # the patch set that FPR@95 is measured on; margins are chosen on it too
    test: Path  # HPatches' patch release, or a folder of image sequences to cut such patches from
    steps: int  # training steps per row
    out: Path  # the folder of the study; studies in the same folder share their runs
    seeds: int = 1  # training runs per row, each with its own seed
    pairs_per_batch: int = 512  # pairs per training step, two patches each
    pair_list: int | None = None  # which m50_N_N_0.txt of `validate`; by default that of 100,000, or the largest
    own_settings: bool = False  # for rivals and sosr: train each row as its authors did, on the same number of pairs
    alphas: tuple[float, ...] | None = None  # alphas of the grid; by default 0.5, 1, 2 and 4
    margins: tuple[float, ...] | None = None  # margins of the grid; by default 0.8, 1, 1.2 and 1.4
    jobs: int | None = None  # training runs at once; by default one per core, or one if a GPU trains
    compiled: bool = True  # compile networks if there is a C++ compiler: the same mathematics, about twice as fast
    precision: Precision = "float32"  # of convolutions on a CPU, for every row; auto: bfloat16 if the CPU is fast in it


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Draw the paper's figures from live code, as SVG and PNG, each with a caption.

    Figures 1, 2b, 3 and 5b need no input; 2a needs a patch set; 4, 5a, 5c and A need `hynet paper ablate rivals`,
    `grid`, `losses` and `sosr`. For a figure that cannot be drawn, a sentence says what is missing.

    Example: hynet paper figures --out figures/ --data liberty/ --batches 1000 --model hardnet.pth --study study/
    """

    out: Path  # the folder for fig1.svg, fig1.png and so on, and figures.md with all captions
    model: str = "default"  # models, separated by commas, for Fig. 2a; the first network among them for Fig. 1 and 3
    data: Path | None = None  # the patch set whose batches Fig. 2a is measured on
    study: Path | None = None  # a folder written by `hynet paper ablate`
    batches: int = 100  # number of batches of 1,024 patches for Fig. 2a; the paper has 1,000


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Make the paper's Tables 1 to 5 and its HPatches figures with its own settings, as far as your data allows.

    The folder holds liberty/, notredame/, yosemite/, hpatches-release/ (its lists in hpatches-tasks/), eth/, imc/, or
    some of them. On a GPU this takes days; run the same command again to continue.

    Example: hynet paper tables --data data/ --out trial/ --steps 100        to check that everything is in place
    """

    data: Path  # the folder with the paper's data
    out: Path = Path("reproduction")  # a folder for runs, tables and index.html, one page with all of them
    steps: int | None = None  # steps per training run, to try things out; by default those of the authors' epochs
    pairs_per_batch: int | None = None  # pairs per batch of each training run; by default the authors' own
    jobs: int | None = None  # training runs at once; by default one per core, or one if a GPU trains
    compiled: bool = True  # compile networks if there is a C++ compiler


def main(args: list[str]) -> Report:
    """Parse the options of the part that the first argument names, and make it."""
    if not args or args[0].startswith("-"):
        if not {*HELP} & {*args}:
            raise BadInput(f"say what to make, one of {', '.join(PARTS)}.")
        print(f"usage: hynet paper PART [OPTIONS]\n\n{__doc__.strip()}\n\n--json prints one JSON object on stdout.")
        raise SystemExit(0)
    options, make = choose(PARTS, args[0], "part of the paper")
    asked = parse_value(options, args[1:], prog=f"hynet paper {args[0]}", description=inspect.getdoc(options))
    values = {name: value for name, value in vars(asked).items() if name != "jobs"}
    study = [values.pop("study")] if "study" in values and args[0] == "ablate" else []
    command = shlex.join(["hynet", "paper", args[0], *study, *as_options(values)])
    return make(asked, command)


def ablate(asked: Ablate, command: str) -> Report:
    """Run a study and write its table."""
    study = Ablation(
        asked.study,
        asked.data,
        asked.validate,
        asked.test,
        asked.out,
        Budget(asked.steps, asked.pairs_per_batch, asked.seeds, asked.compiled, asked.precision),
        pair_list=asked.pair_list,
        own_settings=asked.own_settings,
        alphas=asked.alphas,
        margins=asked.margins,
        jobs=asked.jobs,
    )
    keep_memory_mapped()
    with writable(asked.out), exclusive_lock(asked.out), bar() as progress:
        found = run_study(study, progress, tell)
        files = [str(path) for path in results.write(found.evaluation, asked.out, command)]
    text = results.markdown(found.evaluation, terminal_width())
    return Report(f"{text}\n\nwritten: {', '.join(files)}", _summary(found, asked.study) | {"files": files})


def figures(asked: Figures, command: str) -> Report:
    """Draw the figures."""
    models = [name for name in asked.model.split(",") if name] or ["default"]
    with bar() as progress:
        found = draw(asked.out, Sources(models, asked.data, asked.study, asked.batches, progress), command)
    lines = [f"{name} -> {what}" if isinstance(what, Path) else what for name, what in found.items()]
    return Report("\n".join(lines), {"figures": {name: str(what) for name, what in found.items()}})


def tables(asked: Tables, command: str) -> Report:
    """Train what the tables need, and make them and one page of all."""
    need("torch", "train", "training")
    keep_memory_mapped()
    files: dict[str, str] = {}

    def done(name: str, evaluation: Evaluation) -> None:
        files[name] = str(results.write(evaluation, asked.out / name, command)[0])

    with writable(asked.out), exclusive_lock(asked.out), bar() as progress:
        work = Reproduction(
            asked.data, asked.out, asked.steps, asked.pairs_per_batch, asked.compiled, asked.jobs, progress, tell
        )
        missing = reproduce(work, done)
        shown = asked.out / "index.html"
        pages.write(shown, page([asked.out / name for name in files], command, list(missing.values())).html)
    lines = [f"{TABLES[name][0]} -> {path}" for name, path in files.items()]
    text = "\n".join([*lines, *missing.values(), f"all on one page -> {shown}"])
    return Report(text, {"page": str(shown), "results": files, "missing": missing})


PARTS: Mapping[str, tuple[type, Any]] = {
    "ablate": (Ablate, ablate),
    "figures": (Figures, figures),
    "tables": (Tables, tables),
}


def _summary(found: Study, study: str) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}
    paper: dict[str, dict[str, Any]] = {}
    for name, row in found.evaluation.rows.items():
        rows[name] = {column: value for column, value in row.items() if not column.startswith("paper_")}
        theirs = {column.removeprefix("paper_"): row[column] for column in row.keys() - rows[name].keys()}
        paper |= {name: theirs} if theirs else {}
    details = found.evaluation.details
    return {
        "study": study,
        "rows": rows,
        "paper": paper,
        "seeds": details["seeds"],
        "intervals": results.summary(found.evaluation)["intervals"],
        "margins": details["margins"],
        "orderings": details["orderings"],
    }
