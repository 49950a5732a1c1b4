"""What every benchmark returns: numbers by method and column, their intervals, and pictures of them.

A benchmark is a file in the folder above with

    @dataclass(frozen=True)
    class MineOptions: ...

    def evaluate(models: Sequence[Model], data: Path, options: MineOptions, progress: Progress = silent) -> Evaluation

and a row in BENCHMARKS. The fields of the dataclass, each with a default, become options of `hynet evaluate NAME`; the
comments beside or above them are their help. `contestants.open_contestants(models)` turns the models into descriptors,
the sanity rows among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...geometry.metrics import Interval
from ...types import Table

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
    """How much better one method is than another on the same samples."""

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
