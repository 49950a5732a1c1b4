"""Reproduce the paper's Tables 1 to 5 and its HPatches figures with its own settings, as far as your data allows.

The folder holds liberty/, notredame/, yosemite/, hpatches-release/ (its lists in hpatches-tasks/), eth/, imc/, or some
of them. On a GPU this takes days; run the same command again to continue.

Example: hynet reproduce --data phototour-and-hpatches/ --out reproduction/
         hynet reproduce --data data/ --out trial/ --steps 100        to check that everything is in place
"""

from __future__ import annotations

import shlex
from pathlib import Path

from .. import pages
from ..errors import need
from ..evaluation.evaluate import writable, write
from ..evaluation.results import Evaluation
from ..pages.report.page import page
from ..paper.tables import PARTS, Reproduction, reproduce
from ..runtime.locks import exclusive_lock
from ..runtime.machine import keep_memory_mapped
from . import Report
from .progress import bar, tell


def run(
    *,
    data: Path,
    out: Path = Path("reproduction"),
    steps: int | None = None,
    pairs_per_batch: int | None = None,
    jobs: int | None = None,
    compiled: bool = True,
) -> Report:
    """Reproduce the paper.

    Args:
        data: the folder with the paper's data.
        out: a folder for runs, tables and index.html, one page with all of them.
        steps: steps per training run, to try things out; by default as many as the authors' epochs have.
        pairs_per_batch: pairs per batch of each training run; by default the authors' own.
        jobs: training runs at once; by default one per core, or one if a GPU trains.
        compiled: compile networks if there is a C++ compiler.
    """
    need("torch", "train", "training")
    keep_memory_mapped()
    words = ["hynet", "reproduce", "--data", str(data), "--out", str(out)]
    words += ["--steps", str(steps)] if steps is not None else []
    words += ["--pairs-per-batch", str(pairs_per_batch)] if pairs_per_batch is not None else []
    command = shlex.join(words)
    files: dict[str, str] = {}

    def done(name: str, evaluation: Evaluation) -> None:
        files[name] = str(write(evaluation, out / name, command)[0])

    with writable(out), exclusive_lock(out), bar() as progress:
        asked = Reproduction(data, out, steps, pairs_per_batch, compiled, jobs, progress, tell)
        missing = reproduce(asked, done)
        pages.write(out / "index.html", page([out / name for name in files], command, list(missing.values())).html)
    lines = [f"{PARTS[name][0]} -> {path}" for name, path in files.items()]
    text = "\n".join([*lines, *missing.values(), f"all on one page -> {out / 'index.html'}"])
    return Report(text, {"page": str(out / "index.html"), "results": files, "missing": missing})
