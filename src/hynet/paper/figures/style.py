"""One style for all figures: legible in print, and to colour-blind readers (Okabe and Ito's colours, line styles)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import need
from ...runtime.files import atomic_write

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7",
)  # fmt: skip
CURVES = (BLUE, RED, GREEN, ORANGE, PINK, SKY, BLACK)
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), "-")
MARKERS = ("o", "s", "^", "D", "v", "P")
SETTINGS: Mapping[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "hynet",  # the same numbers give the same bytes
    "svg.fonttype": "path",
}
DPI = 160
LINE = 0.17  # inches of a line of the caption


class Missing(Exception):
    """Sentence about something that a figure needs and was not given."""


@dataclass(frozen=True)
class Drawing:
    """A figure, and what it shows in words: what was measured, on what."""

    figure: Any  # matplotlib's
    caption: str


def panels(count: int = 1, width: float = 4.6, height: float = 3.2, **options: Any) -> tuple[Any, Sequence[Any]]:
    """A figure with so many axes side by side, in our style."""
    figures = need("matplotlib.figure", "train", "drawing figures")
    figure = figures.Figure(figsize=(width * count, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False, **options)[0])


def styled() -> AbstractContextManager[Any]:
    """Context in which figures are drawn in our style."""
    return need("matplotlib", "train", "drawing figures").rc_context(dict(SETTINGS))


def save(drawing: Drawing, name: str, out: Path, command: str) -> list[Path]:
    """out/NAME.svg and out/NAME.png, the caption below the figure."""
    figure = drawing.figure
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(f"{drawing.caption} {command}", max(40, int(width * 14.5)))
    room = LINE * len(lines) + 0.15
    figure.set_size_inches(width, height + room)
    figure.get_layout_engine().set(rect=(0, room / (height + room), 1, height / (height + room)))
    figure.text(0.02, 0.08 / (height + room), "\n".join(lines), fontsize=8, va="bottom", linespacing=1.3)
    paths = [out / f"{name}.{kind}" for kind in ("svg", "png")]
    for path in paths:
        with atomic_write(path) as temporary:
            undated = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(temporary, dpi=DPI, metadata=undated)
    return paths
