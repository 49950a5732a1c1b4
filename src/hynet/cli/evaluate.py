"""Measure models on a benchmark, beside the paper's numbers, with 95% intervals.

Example: hynet evaluate ubc --model default,rootsift --data liberty/
         hynet evaluate hpatches --model default,sift --data hpatches-release/ --out results/
`hynet evaluate BENCHMARK --help` shows the options of one benchmark.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from ..benchmarks import BENCHMARKS
from ..benchmarks.harness import results
from ..benchmarks.harness.evaluation import Evaluation
from ..errors import BadInput, choose
from ..system.locks import alone
from ..system.machine import keep_memory_mapped
from . import Report, parse
from .progress import bar

GIVEN = ("models", "data", "progress")  # what `run` of every benchmark takes; the rest are its own options


def run(benchmark: str, *, model: str = "", data: Path, out: Path | None = None, **options: Any) -> Report:
    """Run a benchmark.

    Args:
        model: one or more models, separated by commas: names, or paths of weights; `default` unless others are given.
        data: the folder of the benchmark's data.
        out: a folder for BENCHMARK.json, BENCHMARK.md and pictures.
    """
    if out is None:
        return _measured(benchmark, model, data, None, options)
    results.prepare(out)
    with alone(out / benchmark):
        return _measured(benchmark, model, data, out, options)


def _measured(benchmark: str, model: str, data: Path, out: Path | None, options: dict[str, Any]) -> Report:
    models = [name for name in model.split(",") if name]
    keep_memory_mapped()  # distances come in big blocks: retrieval takes less than half the time
    with bar() as progress:
        evaluation = BENCHMARKS[benchmark](models, data, **options, progress=progress)
    text = results.markdown(evaluation)
    if out is not None:
        command = f"hynet evaluate {benchmark} " + shlex.join(_told(model=model, data=data, **options))
        text += "\n\nwritten: " + ", ".join(map(str, results.write(evaluation, out, command)))
    return Report(text, results.summary(evaluation))


def main(args: list[str]) -> Report:
    """The options depend on the benchmark, which is the first argument."""
    names = "\n".join(f"  {name}: {row.about}" for name, row in BENCHMARKS.items())
    if not args or args[0].startswith("-"):
        if not {"-h", "--help"} & set(args):
            raise BadInput(f"say which benchmark, one of {', '.join(BENCHMARKS)}.")
        args = [next(iter(BENCHMARKS)), *args]
    function = choose(BENCHMARKS, args[0], "benchmark").function()
    description = f"{__doc__}\n{names}\n"
    return parse(_command(args[0], function), args[1:], prog=f"hynet evaluate {args[0]}", description=description)()


def _command(benchmark: str, function: Callable[..., Evaluation]) -> Callable[..., Report]:
    """`run` for one benchmark: the options of every benchmark, then its own."""

    def command(**options: Any) -> Report:
        return run(benchmark, **options)

    parameters: dict[str, inspect.Parameter] = {}
    hints: dict[str, Any] = {}
    texts: list[str] = []
    for source, hidden in ((run, ("benchmark", "options")), (function, GIVEN)):
        own = [p for p in inspect.signature(source).parameters.values() if p.name not in hidden]
        parameters |= {p.name: p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own}
        types = get_type_hints(source, include_extras=True)
        hints |= {p.name: types[p.name] for p in own}
        texts += [_help(source, p.name) for p in own]
    command.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    command.__annotations__ = hints
    command.__doc__ = "Run a benchmark.\n\nArgs:\n" + "\n".join(texts)
    return command


def _help(function: Callable[..., Any], name: str) -> str:
    """The lines of one argument in a docstring's "Args:"."""
    lines = (inspect.getdoc(function) or "").partition("Args:\n")[2].splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith(f"    {name}:")), None)
    if start is None:
        return f"    {name}:"
    more = next((k for k in range(start + 1, len(lines)) if not lines[k].startswith(" " * 8)), len(lines))
    return "\n".join(lines[start:more])


def _told(**options: Any) -> list[str]:
    """The options as one would write them."""
    words = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [flag] if value else []
        elif isinstance(value, tuple | list):
            words += [flag, *map(str, value)] if value else []
        elif value not in (None, ""):
            words += [flag, str(value)]
    return words
