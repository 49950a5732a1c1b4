"""Curves and bars of an Evaluation as charts, for its files and for the page of results."""

from __future__ import annotations

from collections.abc import Mapping

from . import charts
from .charts import Chart
from .evaluation import Bars, Curves


def drawn(picture: Curves | Bars, names: Mapping[str, str]) -> list[Chart]:
    """One chart, or one for each panel; `names`: method -> what it is called in it."""
    if isinstance(picture, Bars):
        return [
            charts.bars(panel, values, picture.marks.get(panel, {}), names) for panel, values in picture.panels.items()
        ]
    lines = {names.get(method, method): line for method, line in picture.lines.items()}
    chart = charts.curves(picture.title, lines, x=picture.x, y=picture.y, log_x=picture.log_x, level=picture.level)
    return [] if chart is None else [chart]
