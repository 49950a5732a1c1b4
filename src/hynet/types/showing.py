"""Values as notebooks show them: small HTML with a drawing, made of plain text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ..runtime.arrays import Array

WIDTH = 320  # pixels of a drawing
DOTS = 400  # more would hide each other
BARS = 24
TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
CELL = "padding:2px 10px;text-align:right;border-bottom:1px solid #8884"


def keypoints(xy: Array, sigma: Array, scores: Array, size: tuple[int, int], words: str) -> str:
    """Drawing of the strongest keypoints of a photo, as circles of three sigma."""
    width, height = size
    scale = WIDTH / max(width, height)
    best = np.argsort(-scores, kind="stable")[:DOTS]
    circles = "".join(
        f'<circle cx="{x * scale:.1f}" cy="{y * scale:.1f}" r="{max(1.0, 3 * s * scale):.1f}"/>'
        for (x, y), s in zip(xy[best], sigma[best], strict=True)
    )
    frame = f'<rect width="{width * scale:.0f}" height="{height * scale:.0f}" fill="#8882" stroke="none"/>'
    drawing = f'<g fill="none" stroke="#1a9e5c" stroke-opacity="0.7">{frame}{circles}</g>'
    return _figure(drawing, width * scale, height * scale, words)


def histogram(values: Array, most: float, words: str) -> str:
    """Histogram of values from 0 to `most`."""
    counts, _ = np.histogram(values, BARS, (0, most))
    tallest, step, height = max(1, int(counts.max())), WIDTH / BARS, 80
    bars = "".join(
        f'<rect x="{k * step:.1f}" y="{height - count / tallest * height:.1f}" width="{step - 1:.1f}" '
        f'height="{count / tallest * height:.1f}"/>'
        for k, count in enumerate(counts)
    )
    return _figure(f'<g fill="#1a9e5c">{bars}</g>', WIDTH, height, words)


def table(title: str, lines: Sequence[Sequence[str]]) -> str:
    """The first line is the header, the first cell of each the row's name."""
    rows = []
    for number, line in enumerate(lines):
        kind = "th" if number == 0 else "td"
        first = f'<th style="{CELL};text-align:left">{escape(line[0])}</th>'
        cells = [f'<{kind} style="{CELL}">{escape(cell)}</{kind}>' for cell in line[1:]]
        rows.append(f"<tr>{first}{''.join(cells)}</tr>")
    return f'<div><b>{escape(title)}</b><table style="{TABLE}">{"".join(rows)}</table></div>'


def _figure(drawing: str, width: float, height: float, words: str) -> str:
    box = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<figure style="margin:0"><svg {box}>{drawing}</svg><figcaption>{escape(words)}</figcaption></figure>'
