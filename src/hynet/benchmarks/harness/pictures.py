"""Curves and bars of an Evaluation as PNG files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import need
from ...system.files import whole
from .evaluation import Bars, Curves

# One colour a method, told apart by the colour-blind (Okabe and Ito); then again, dashed.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw(picture: Curves | Bars, path: Path, names: Mapping[str, str]) -> Path:
    """Write the picture; `names`: method -> what it is called in it."""
    need("matplotlib", "train", "drawing results").use("Agg")
    pyplot = need("matplotlib.pyplot", "train", "drawing results")
    figure = _curves(pyplot, picture, names) if isinstance(picture, Curves) else _bars(pyplot, picture, names)
    with whole(path) as temporary:
        figure.savefig(temporary, dpi=120)
    pyplot.close(figure)
    return path


def _curves(pyplot: Any, picture: Curves, names: Mapping[str, str]) -> Any:
    figure, axes = pyplot.subplots(figsize=(6.5, 5), layout="constrained")
    for number, (method, line) in enumerate(picture.lines.items()):
        style = ("-", "--", ":")[number // len(COLOURS) % 3]
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(line["x"], line["y"], style, color=colour, label=names.get(method, method))
    axes.set(title=picture.title, xlabel=picture.x, ylabel=picture.y, xscale="log" if picture.log_x else "linear")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def _bars(pyplot: Any, picture: Bars, names: Mapping[str, str]) -> Any:
    """The best on top in each panel, the average at the end of its bar, its parts as marks on it."""
    tallest = max(len(panel) for panel in picture.panels.values())
    size = (4.2 * len(picture.panels), 1.6 + 0.38 * tallest)
    figure, row = pyplot.subplots(1, len(picture.panels), figsize=size, squeeze=False, layout="constrained")
    figure.suptitle(picture.title)
    levels: list[str] = []  # "easy inter": a colour for easy, a shape for inter
    kinds: list[str] = []
    for axes, (title, panel) in zip(row[0], picture.panels.items(), strict=True):
        marks = picture.marks.get(title, {})
        methods = sorted(panel, key=lambda method: panel[method])
        axes.barh(range(len(methods)), [panel[method] for method in methods], height=0.62, color="#C9D6E2")
        for place, method in enumerate(methods):
            axes.text(101, place, f"{panel[method]:.2f}", va="center", fontsize="small")
            for name, value in marks.get(method, {}).items():
                level, _, kind = name.partition(" ")
                style = {
                    "color": COLOURS[_place(levels, level) % len(COLOURS)],
                    "marker": MARKS[_place(kinds, kind) % len(MARKS)],
                }
                axes.plot(value, place, linestyle="", markersize=5, alpha=0.8, **style)
        axes.set(title=title, xlim=(0, 100), xlabel="mAP in %")
        axes.set_yticks(range(len(methods)), [names.get(method, method) for method in methods], fontsize="small")
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    dots = [
        row[0, 0].plot([], [], "o", color=COLOURS[k % len(COLOURS)], label=level)[0] for k, level in enumerate(levels)
    ]
    dots += [
        row[0, 0].plot([], [], MARKS[k % len(MARKS)], color="grey", linestyle="", label=kind)[0]
        for k, kind in enumerate(kinds)
        if kind
    ]
    if dots:
        figure.legend(handles=dots, loc="outside lower center", ncols=len(dots), fontsize="small")
    return figure


def _place(seen: list[str], name: str) -> int:
    """Where a name stands among those seen so far, itself now among them."""
    if name not in seen:
        seen.append(name)
    return seen.index(name)
