"""Small charts as SVG: sharp in print, readable without scripts; styled by the page they are in, or files of their own.

By hand, because a page of results must need no package that using does not need, and its charts answer to the mouse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from .results import Bars, Curves

COLOURS = 8  # --c0 to --c7 in page.css, and in STYLE
DASHES = ("", "6 3", "2 3", "8 3 2 3")  # once the colours are used up
SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "M-3.5 -3.5h7v7h-7z", "M0 -4.5L4.5 3.5H-4.5z", "M0 -5L5 0L0 5L-5 0z")

WIDTH, ROW = 460, 24  # pixels of a chart, and of one row of it
NAMES = 170  # pixels for the names of rows
EDGE = 20  # pixels at the right, so that the last number is not cut
STYLE = """
  svg { --ground: #fff; --ink: #1c1f24; --faint: #6a717c; --rule: #dfe2e6; --accent: #0b63c5;
        --c0: #0b63c5; --c1: #c2410c; --c2: #16794a; --c3: #8b3fb8; --c4: #a16207; --c5: #0e7490; --c6: #be185d;
        --c7: #57606a; font: 12px system-ui, sans-serif; fill: var(--ink); background: var(--ground); }
  .axis { stroke: var(--rule); fill: none; } .label { fill: var(--faint); } .bar { fill: var(--accent); opacity: .28; }
  .title { font-weight: 600; }
"""  # of a file; a page brings its own


@dataclass(frozen=True)
class Entry:
    """One line of a legend: a stroke, or a mark where it has a shape."""

    name: str
    colour: str
    dash: str = ""
    shape: str = ""


@dataclass(frozen=True)
class Chart:
    """SVG of a picture WIDTH pixels wide, its title and its legend."""

    title: str
    height: int
    inner: str
    legend: Sequence[Entry] = ()


@dataclass(frozen=True)
class Dot:
    """One row of a dot chart."""

    name: str
    value: float
    interval: tuple[float, float] | None = None
    hollow: bool = False  # somebody else's number


def drawn(picture: Curves | Bars, names: Mapping[str, str]) -> list[Chart]:
    """One chart, or one for each panel; `names`: method -> what it is called in it."""
    if isinstance(picture, Bars):
        return [bars(panel, values, picture.marks.get(panel, {}), names) for panel, values in picture.panels.items()]
    lines = {names.get(method, method): line for method, line in picture.lines.items()}
    chart = curves(picture.title, lines, x=picture.x, y=picture.y, log_x=picture.log_x, level=picture.level)
    return [] if chart is None else [chart]


def dots(title: str, rows: Sequence[Dot]) -> Chart:
    """One dot per row, with its interval as a bar."""
    ends = [end for row in rows for end in (row.value, *(row.interval or ()))]
    ticks = nice_ticks(min(ends), max(ends))
    across = Scale(ticks[0], ticks[-1], NAMES, WIDTH - EDGE)
    bottom = ROW * len(rows) + 4
    parts = [_upright_lines(ticks, across, bottom)]
    for number, row in enumerate(rows):
        y, x = ROW * (number + 0.5) + 4, across(row.value)
        colour = "var(--faint)" if row.hollow else "var(--accent)"
        parts.append(_row_name(row.name, y))
        if row.interval:
            low, high = (across(end) for end in row.interval)
            parts.append(f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="{colour}" stroke-width="3" opacity=".45"/>')
        fill = "var(--ground)" if row.hollow else colour
        hover = _hover(f"{row.name}: {row.value:.4g}")
        parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{fill}" stroke="{colour}">{hover}</circle>')
    return Chart(title, bottom + 24, "".join(parts))


def bars(
    title: str, values: Mapping[str, float], marks: Mapping[str, Mapping[str, float]], names: Mapping[str, str]
) -> Chart:
    """One bar per method, the longest on top, with marks for the values that it averages."""
    order = sorted(values, key=lambda name: values[name], reverse=True)
    kinds = list(dict.fromkeys(mark for method in order for mark in marks.get(method, {})))
    ends = [*values.values(), *(value for method in order for value in marks.get(method, {}).values())]
    ticks = nice_ticks(0, max(ends, default=0))
    across = Scale(ticks[0], ticks[-1], NAMES, WIDTH - 2.5 * EDGE)
    bottom = ROW * len(order) + 4
    parts = [_upright_lines(ticks, across, bottom)]
    for number, method in enumerate(order):
        y, length = ROW * (number + 0.5) + 4, across(values[method]) - NAMES
        parts.append(_row_name(names.get(method, method), y))
        parts.append(f'<rect x="{NAMES}" y="{y - 7}" width="{max(length, 0):.1f}" height="14" class="bar"/>')
        parts.append(f'<text x="{WIDTH}" y="{y + 4}" text-anchor="end">{values[method]:.2f}</text>')
        for mark, value in marks.get(method, {}).items():
            kind = kinds.index(mark)
            place = f'transform="translate({across(value):.1f} {y})"'
            shape = f'd="{SHAPES[kind % len(SHAPES)]}" fill="var(--c{kind % COLOURS})"'
            parts.append(f"<path {place} {shape}>{_hover(f'{mark}: {value:.2f}')}</path>")
    legend = [
        Entry(mark, f"var(--c{kind % COLOURS})", shape=SHAPES[kind % len(SHAPES)]) for kind, mark in enumerate(kinds)
    ]
    return Chart(title, bottom + 24, "".join(parts), legend)


def curves(
    title: str,
    lines: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    x: str = "",
    y: str = "",
    log_x: bool = False,
    level: float | None = None,
) -> Chart | None:
    """Lines in one frame: name -> {"x": ..., "y": ...}. None where no line has a point; such lines have no legend.

    level: a faint line across, where curves are compared.
    """
    points = {name: _finite(line, log_x) for name, line in lines.items()}  # (K, 2) each
    points = {name: xy for name, xy in points.items() if len(xy)}
    if not points:
        return None
    (x_low, y_low), (x_high, y_high) = (end(np.concatenate(list(points.values())), 0) for end in (np.min, np.max))
    y_ticks = nice_ticks(y_low, y_high)
    x_ticks = [float(k) for k in range(int(np.floor(x_low)), int(np.ceil(x_high)) + 1)] if log_x else []
    if len(x_ticks) < 2:
        x_ticks = nice_ticks(x_low, x_high)
    left, bottom = 52, 270
    across, up = Scale(x_ticks[0], x_ticks[-1], left, WIDTH - EDGE), Scale(y_ticks[0], y_ticks[-1], bottom, 8)
    parts = [_upright_lines(x_ticks, across, bottom, powers=log_x)]
    for tick in y_ticks:
        parts.append(f'<path class="axis" d="M{left} {up(tick):.1f}H{WIDTH - EDGE}"/>')
        parts.append(f'<text class="label" x="{left - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    middle = (left + WIDTH - EDGE) / 2
    parts.append(f'<text class="label" x="{middle}" y="{bottom + 34}" text-anchor="middle">{escape(x)}</text>')
    turned = f'transform="translate(12 {bottom / 2}) rotate(-90)"'
    parts.append(f'<text class="label" {turned} text-anchor="middle">{escape(y)}</text>')
    if level is not None and y_ticks[0] < level < y_ticks[-1]:
        across_at = f'd="M{left} {up(level):.1f}H{WIDTH - EDGE}" stroke="var(--faint)" stroke-dasharray="2 3"'
        parts.append(f"<path {across_at}>{_hover(f'{level:g}')}</path>")
    legend = []
    for number, (name, xy) in enumerate(points.items()):
        colour, dash = f"var(--c{number % COLOURS})", DASHES[number // COLOURS % len(DASHES)]
        path = " ".join(f"{across(px):.1f},{up(py):.1f}" for px, py in _thinned(xy))
        style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        parts.append(f'<polyline points="{path}" {style}>{_hover(name)}</polyline>')
        if len(np.unique(xy, axis=0)) == 1:  # a line of one point is not seen
            place = f'cx="{across(xy[0, 0]):.1f}" cy="{up(xy[0, 1]):.1f}"'
            parts.append(f'<circle {place} r="4" fill="{colour}">{_hover(name)}</circle>')
        legend.append(Entry(name, colour, dash))
    return Chart(title, bottom + 40, "".join(parts), legend)


def figure(chart: Chart) -> str:
    """For a page: SVG under its title, the legend below."""
    size = f'width="{WIDTH}" height="{chart.height}" viewBox="0 0 {WIDTH} {chart.height}"'
    label = f'role="img" aria-label="{escape(chart.title)}"'
    spans = "".join(f"<span>{_swatch(entry)}{escape(entry.name)}</span>" for entry in chart.legend)
    below = f'<div class="legend">{spans}</div>' if spans else ""
    return (
        f"<figure><figcaption>{escape(chart.title)}</figcaption><svg {size} {label}>{chart.inner}</svg>{below}</figure>"
    )


def svg_file(charts: Sequence[Chart]) -> str:
    """An SVG file of its own, the charts one below the other, each with its title above and its legend below."""
    parts: list[str] = []
    y = 0
    for chart in charts:
        parts.append(f'<text class="title" x="8" y="{y + 18}">{escape(chart.title)}</text>')
        parts.append(f'<g transform="translate(0 {y + 24})">{chart.inner}</g>')
        y += 24 + chart.height
        for entry in chart.legend:
            parts.append(f'<g transform="translate(24 {y + 8})">{_stroke(entry)}</g>')
            parts.append(f'<text x="48" y="{y + 12}">{escape(entry.name)}</text>')
            y += 18
        y += 16
    size = f'width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}"'
    ground = '<rect width="100%" height="100%" fill="var(--ground)"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>{ground}{"".join(parts)}</svg>\n'


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers, the first not above `low`, the last not below `high`."""
    if high <= low:
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / about
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
    return [float(f"{step * k:.12g}") for k in np.arange(first, last + 1)]


@dataclass(frozen=True)
class Scale:
    """Numbers from `low` to `high` -> pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def _upright_lines(ticks: Sequence[float], across: Scale, bottom: float, powers: bool = False) -> str:
    """A line a tick, with its number below."""
    return "".join(
        f'<path class="axis" d="M{across(tick):.1f} 4V{bottom}"/>'
        f'<text class="label" x="{across(tick):.1f}" y="{bottom + 16}" text-anchor="middle">'
        f"{10**tick if powers else tick:g}</text>"
        for tick in ticks
    )


def _row_name(name: str, y: float, most: int = 24) -> str:
    short = name if len(name) <= most else name[: most - 1] + "…"
    return f'<text x="{NAMES - 12}" y="{y + 4}" text-anchor="end">{escape(short)}{_hover(name)}</text>'


def _hover(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _swatch(entry: Entry) -> str:
    """Sign of a legend's entry, in HTML."""
    if entry.shape:
        return f'<svg width="14" height="12" viewBox="-7 -6 14 12">{_stroke(entry)}</svg>'
    border = "dashed" if entry.dash else "solid"
    return f'<i style="color: {entry.colour}; border-top-style: {border}"></i>'


def _stroke(entry: Entry) -> str:
    """Sign of a legend's entry, in SVG, around (0, 0)."""
    if entry.shape:
        return f'<path d="{entry.shape}" fill="{entry.colour}"/>'
    return f'<path d="M-14 0H14" stroke="{entry.colour}" stroke-width="2" stroke-dasharray="{entry.dash}"/>'


def _finite(line: Mapping[str, Sequence[float]], log_x: bool) -> np.ndarray:
    """(K, 2), x as its logarithm where the axis is one."""
    xy = np.array([line["x"], line["y"]], np.float64).T
    if log_x:
        xy = xy[xy[:, 0] > 0]
        xy[:, 0] = np.log10(xy[:, 0])
    return xy[np.isfinite(xy).all(1)]


def _thinned(xy: np.ndarray, most: int = 400) -> np.ndarray:
    """A ROC curve may have a point a pair; a picture shows a few hundred."""
    if len(xy) <= most:
        return xy
    return xy[np.linspace(0, len(xy) - 1, most).round().astype(int)]
