"""What every benchmark returns: numbers by method and column, their intervals, and the samples they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..types import Table

Interval = tuple[float, float]
Curve = Mapping[str, Sequence[float]]  # "x" and "y", equally long


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
    curves: Mapping[str, Mapping[str, Curve]] = field(default_factory=dict)  # picture -> method -> curve
    details: Mapping[str, Any] = field(default_factory=dict)  # all variants, per sequence or scene; plain JSON values
    notes: Sequence[str] = ()  # how it was measured, and what a reader must know to compare it
