"""Results of a benchmark: numbers by method and column with intervals, and the same as tables and JSON.

A benchmark is a file in this folder with

    @dataclass(frozen=True)
    class MineOptions: ...

    def evaluate(models: Sequence[Model], data: Path, options: MineOptions, progress: Progress = silent) -> Evaluation

and a row in BENCHMARKS. The fields of the dataclass, each with a default, become options of `hynet evaluate NAME`; the
comments beside or above them are their help. `contestants.open_contestants(models)` turns the models into descriptors,
the sanity rows among them.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__
from ..geometry.metrics import Interval
from ..runtime.files import atomic_write
from ..types import Table

LIBRARIES = ("numpy", "opencv-contrib-python-headless", "onnxruntime", "torch", "pydegensac", "poselib", "pycolmap")

Curve = Mapping[str, Sequence[float]]  # "x" and "y", equally long


@dataclass(frozen=True)
class Curves:
    """A picture of lines, one per method."""

    title: str
    x: str  # what the axes show
    y: str
    lines: Mapping[str, Curve]  # method -> curve
    log_x: bool = False
    level: float | None = None  # a line across, where methods are compared: 95 for FPR@95


@dataclass(frozen=True)
class Bars:
    """A picture of bars as in the paper's Fig. 4: a panel a task, a bar a method, marks on it for what it averages."""

    title: str
    panels: Mapping[str, Mapping[str, float]]  # panel -> method -> length of the bar
    marks: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)  # panel -> method -> mark


@dataclass(frozen=True)
class Comparison:
    """Difference between two methods on the same samples."""

    column: str
    method: str
    rival: str
    difference: float  # method minus rival
    interval: Interval  # 95%, by paired bootstrap; surely different where it does not hold 0


@dataclass(frozen=True)
class Evaluation:
    """One run of a benchmark. `rows` and `intervals`: method -> column -> number; percentages as the paper prints."""

    benchmark: str
    data: str
    columns: Sequence[str]
    rows: Mapping[str, Mapping[str, float | None]]
    intervals: Mapping[str, Mapping[str, Interval]]  # 95%, by bootstrap over what `notes` says
    title: str = ""
    paper: Table | None = None  # the paper's rows, in the same columns
    formats: Mapping[str, str] = field(default_factory=dict)  # column -> format spec, ".2f" by default
    lower_is_better: Sequence[str] = ()  # columns
    comparisons: Sequence[Comparison] = ()
    pictures: Mapping[str, Curves | Bars] = field(default_factory=dict)  # file stem -> picture
    details: Mapping[str, Any] = field(default_factory=dict)  # all variants, per sequence or scene; plain JSON values
    notes: Sequence[str] = ()  # how it was measured, and what a reader must know to compare it


def summary(evaluation: Evaluation) -> dict[str, Any]:
    """The JSON of `hynet evaluate --json`."""
    rows = {method: dict(row) for method, row in evaluation.rows.items()}
    intervals = {
        method: {column: list(ends) for column, ends in row.items()} for method, row in evaluation.intervals.items()
    }
    return {
        "benchmark": evaluation.benchmark,
        "data": evaluation.data,
        "columns": list(evaluation.columns),
        "rows": rows,
        "intervals": intervals,
    }


def table(evaluation: Evaluation) -> Table:
    """Our rows under the paper's, each number with its interval."""
    names = shown(evaluation.rows)
    ours = {
        names[method]: {column: _cell(evaluation, method, column) for column in evaluation.columns}
        for method in evaluation.rows
    }
    title = evaluation.title or f"{evaluation.benchmark}: {evaluation.data}"
    own = Table(title, evaluation.columns, ours)
    return own if evaluation.paper is None else own.beside(evaluation.paper)


def markdown(evaluation: Evaluation, width: int | None = None) -> str:
    """The table, what is surely different, and the notes; tables at most `width` characters wide."""
    parts = [table(evaluation).markdown(width)]
    if evaluation.comparisons:
        names = shown(evaluation.rows)
        columns = list(dict.fromkeys(each.column for each in evaluation.comparisons))
        rows: dict[str, dict[str, str]] = {}
        for each in evaluation.comparisons:
            low, high = each.interval
            name = f"{names.get(each.method, each.method)} - {names.get(each.rival, each.rival)}"
            rows.setdefault(name, {})[each.column] = f"{each.difference:+.2f} [{low:+.2f}, {high:+.2f}]"
        parts.append(Table("Differences on the same samples, 95% by paired bootstrap", columns, rows).markdown(width))
    if evaluation.notes:
        parts.append("\n".join(f"- {note}" for note in evaluation.notes))
    return "\n\n".join(parts)


def shown(methods: Iterable[str]) -> dict[str, str]:
    """Method -> what a table calls it: weights by their file name, where that tells them apart."""
    short = {method: _short(method) for method in methods}
    names = list(short.values())
    return {method: name if names.count(name) == 1 else method for method, name in short.items()}


def _short(method: str) -> str:
    """A method may be named SCENE: DETECTOR+MODEL; weights by their path are shortened to their file name."""
    scene, colon, rest = method.rpartition(": ")
    detector, plus, model = rest.partition("+")
    if not plus or (os.sep in detector and not Path(detector).suffix):  # a plus in a path is a part of it
        return f"{scene}{colon}{_file_name(rest)}"
    return f"{scene}{colon}{_file_name(detector)}+{_file_name(model)}"


def _file_name(model: str) -> str:
    return Path(model).name if os.sep in model else model


def _cell(evaluation: Evaluation, method: str, column: str) -> str | None:
    value = evaluation.rows[method].get(column)
    if value is None:
        return None
    spec = evaluation.formats.get(column, ".2f")
    ends = evaluation.intervals.get(method, {}).get(column)
    # Of one sample, or of samples that are all alike, an interval knows nothing.
    bounds = f" [{ends[0]:{spec}}, {ends[1]:{spec}}]" if ends is not None and ends[0] < ends[1] else ""
    return f"{value:{spec}}{bounds}"


def write(evaluation: Evaluation, out: Path, command: str = "") -> list[Path]:
    """Write the files of an evaluation, in place of those of an earlier one of the same benchmark.

    out/NAME.json     everything: rows, intervals, the paper's rows, comparisons, curves, details, versions, command
    out/NAME.md       the table, notes and pictures
    out/NAME-*.svg    the pictures
    """
    from . import charts  # which draws what this module holds

    name = evaluation.benchmark
    drawn = {
        out / f"{name}-{stem}.svg": charts.svg_file(charts.drawn(picture, shown(evaluation.rows)))
        for stem, picture in evaluation.pictures.items()
    }
    content = {
        **summary(evaluation),
        "title": evaluation.title,
        "paper": None if evaluation.paper is None else asdict(evaluation.paper),
        "formats": dict(evaluation.formats),
        "lower_is_better": list(evaluation.lower_is_better),
        "comparisons": [asdict(each) for each in evaluation.comparisons],
        "pictures": {
            stem: {"kind": type(picture).__name__.lower(), **asdict(picture)}
            for stem, picture in evaluation.pictures.items()
        },
        "details": dict(evaluation.details),
        "notes": list(evaluation.notes),
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    images = [f"![{path.stem}]({path.name})" for path in drawn]
    text = "\n\n".join(filter(None, [markdown(evaluation), f"`{command}`" if command else "", *images]))
    files = {out / f"{name}.json": json.dumps(content, indent=1), out / f"{name}.md": text + "\n", **drawn}
    for path, text in files.items():
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return list(files)


def versions() -> dict[str, str | None]:
    """Versions of the libraries that the numbers were computed with."""
    found: dict[str, str | None] = {"hynet": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = None
    return found
