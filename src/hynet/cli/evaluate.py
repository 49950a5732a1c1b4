"""Evaluate models on a benchmark, beside the paper's numbers, with 95% intervals.

Example: hynet evaluate ubc --model default,rootsift --data liberty/
         hynet evaluate hpatches --model default,sift --data hpatches-release/ --out results/
`hynet evaluate BENCHMARK --help` shows the options of one benchmark.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import tyro

from ..errors import BadInput, choose
from ..evaluation import BENCHMARKS, results
from ..evaluation.evaluate import evaluate
from . import Report, parse_value, terminal_width
from .help import HELP
from .progress import bar

Options = TypeVar("Options")  # the dataclass of one benchmark


@dataclass(frozen=True, kw_only=True)
class Asked(Generic[Options]):
    """Models, data and options of one benchmark."""

    model: str = ""  # one or more models, separated by commas: names, or paths to weights; by default `default`
    data: Path  # the folder with the benchmark's data
    out: Path | None = None  # a folder for BENCHMARK.json, BENCHMARK.md and pictures
    benchmark: tyro.conf.OmitArgPrefixes[Options]


def main(args: list[str]) -> Report:
    """The options depend on the benchmark, which is the first argument."""
    names = "\n".join(f"  {name}: {row.about or f'from {row.package}'}" for name, row in BENCHMARKS.items())
    if not args or args[0].startswith("-"):
        if not {*HELP} & {*args}:
            raise BadInput(f"say which benchmark, one of {', '.join(BENCHMARKS)}.")
        args = [next(iter(BENCHMARKS)), *args]
    name = args[0]
    options = choose(BENCHMARKS, name, "benchmark").options()
    description = f"{__doc__}\n{names}\n"
    return run(name, parse_value(Asked[options], args[1:], prog=f"hynet evaluate {name}", description=description))  # type: ignore[valid-type]


def run(name: str, asked: Asked[Any]) -> Report:
    """Run the benchmark of that name, and write its files where a folder is given."""
    models = [name for name in asked.model.split(",") if name]
    options = vars(asked.benchmark)
    words = as_options({"model": asked.model, "data": asked.data, **options})
    command = f"hynet evaluate {name} {shlex.join(words)}"
    with bar() as progress:
        found, files = evaluate(name, models, asked.data, out=asked.out, command=command, progress=progress, **options)
    written = f"\n\nwritten: {', '.join(map(str, files))}" if files else ""
    return Report(results.markdown(found, terminal_width()) + written, results.summary(found))


def as_options(options: Mapping[str, Any]) -> list[str]:
    """Options as words of a command line; what is not given is left out."""
    words = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, tuple | list):
            words += [flag, *map(str, value)] if value else []
        elif value not in (None, ""):
            words += [flag, str(value)]
    return words
