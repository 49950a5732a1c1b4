"""Figures 2a, 3, 4, 5a, 5c and the appendix's: what a model, a module or a study shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, pi, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import need
from ..plans import cell_name
from .style import BLACK, BLUE, CURVES, DASHES, GREEN, MARKERS, ORANGE, RED, Drawing, Missing, panels

if TYPE_CHECKING:
    from ...features.descriptors.outline import LayerOutline
    from ...training.angles import Angles

BINS = 90  # of theta over [0, pi]
LEVELS = {"easy": GREEN, "hard": BLUE, "tough": RED}


def theta(found: Mapping[str, Angles], result: str) -> Drawing:
    """Fig. 2a: model -> its angles."""
    figure, (panel,) = panels()
    edges = np.linspace(0, pi, BINS + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    for number, (model, own) in enumerate(found.items()):
        for kind, values, style in (("positives", own.positives, "-"), ("hardest negatives", own.negatives, "--")):
            shares = np.histogram(values, edges)[0] / len(values)
            label = f"{model}: {kind}"
            panel.plot(centres, shares, color=CURVES[number % len(CURVES)], linestyle=style, label=label)
    panel.axvline(pi / 2, color=BLACK, linewidth=0.8)
    panel.set(xlabel="θ, rad", ylabel="share of pairs", xlim=(0, pi))
    panel.set_ylim(bottom=0)
    panel.set_xticks([0, pi / 4, pi / 2, 3 * pi / 4, pi], ["0", "π/4", "π/2", "3π/4", "π"])
    panel.legend()
    first = next(iter(found.values()))
    size = 2 * first.pairs_per_batch
    inside = min(float((np.concatenate([own.positives, own.negatives]) < pi / 2).mean()) for own in found.values())
    below = "all" if inside == 1 else f"at least {floor(1000 * inside) / 10:.1f}%"
    return Drawing(
        figure,
        f"Angles of partners and of hardest negatives in a batch, mined as HardNet does: {2 * len(first.positives):,} "
        f"pairs of {result} from {first.batches} batches of {size} patches; {below} lie below π/2 "
        "(line).",
    )


def network(layers: Sequence[LayerOutline], name: str, side: int = 32) -> Drawing:
    """Fig. 3: a box a layer, its height that of the feature map, its width growing with the channels.

    side: of the patch, in pixels.
    """
    figure, (panel,) = panels(width=11, height=3.9)
    rectangle = need("matplotlib.patches", "train", "drawing figures").Rectangle
    x = 0.0
    panel.text(x, 0, f"patch\n1×{side}×{side}", ha="center", va="center")
    x += 1.2
    total = 0
    for layer in layers:
        channels, height, _ = (*layer.shape, 1, 1)[:3]
        tall, wide = 0.35 + 2.1 * height / side, 0.25 + channels / 160
        panel.annotate("", (x, 0), xytext=(x - 0.45, 0), arrowprops={"arrowstyle": "-|>", "color": BLACK})
        colour = ORANGE if "BN" in layer.parts else BLUE
        panel.add_patch(rectangle((x, -tall / 2), wide, tall, facecolor=colour, alpha=0.3, edgecolor=BLACK))
        centre = x + wide / 2
        panel.text(centre, tall / 2 + 0.08, "×".join(map(str, layer.shape)), ha="center", va="bottom", fontsize=8)
        panel.text(centre, -1.45, "\n".join(layer.parts), ha="center", va="top", fontsize=8)
        x += wide + 0.95
        total += layer.parameters
    panel.annotate("", (x - 0.05, 0), xytext=(x - 0.5, 0), arrowprops={"arrowstyle": "-|>", "color": BLACK})
    panel.text(x, 0, f"L2 norm\n{prod(layers[-1].shape)}", ha="left", va="center")
    panel.set(xlim=(-0.6, x + 1.1), ylim=(-2.75, 1.7))
    panel.axis("off")
    return Drawing(
        figure,
        f"{name}, drawn from the module itself: {len(layers)} layers, {total:,} parameters. A box grows in height with "
        "its feature map and in width with its channels; below are its parts in order. Orange: it has BatchNorm.",
    )


def bars(result: Mapping[str, Any], trained: str) -> Drawing:
    """Fig. 4 and the appendix's: a panel a task, a bar a method, marks for what it averages."""
    picture = result.get("pictures", {}).get("bars") or {}
    if not picture.get("panels"):
        raise Missing("cannot be drawn, since the study's file holds no scores of HPatches' tasks; run the study again")
    figure, axes = panels(len(picture["panels"]), width=3.9, height=0.36 * len(result["rows"]) + 1.8)
    kinds = [mark for marks in picture["marks"].values() for own in marks.values() for mark in own]
    variants = list(dict.fromkeys(" ".join(mark.split()[1:]) for mark in kinds))
    for panel, (task, values) in zip(axes, picture["panels"].items(), strict=True):
        order = sorted(values, key=lambda method: values[method])
        panel.barh(range(len(order)), [values[method] for method in order], color="#bbbbbb", height=0.55)
        panel.set_yticks(range(len(order)), order)
        for y, method in enumerate(order):
            panel.text(values[method], y + 0.32, f"{values[method]:.2f}", fontsize=8, ha="center")
            for mark, value in picture["marks"].get(task, {}).get(method, {}).items():
                level, *variant = mark.split()
                marker = MARKERS[variants.index(" ".join(variant)) % len(MARKERS)]
                panel.plot(
                    [value],
                    [y],
                    marker=marker,
                    color=LEVELS.get(level, BLACK),
                    markersize=5,
                    linestyle="none",
                    clip_on=False,
                )
        panel.set(title=task, xlabel="mAP, %", xlim=(0, 100))
        panel.grid(axis="y", visible=False)
    line = need("matplotlib.lines", "train", "drawing figures").Line2D
    patch = need("matplotlib.patches", "train", "drawing figures").Patch
    handles = [patch(color=colour, label=level) for level, colour in LEVELS.items()]
    handles += [
        line([], [], color="#777777", marker=MARKERS[number % len(MARKERS)], linestyle="none", label=variant or "all")
        for number, variant in enumerate(variants)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return Drawing(
        figure,
        f"HPatches' three tasks on {Path(result['data']).name}, {trained}; seed 0 of each row. The paper's own figure "
        "is of other data.",
    )


def grid(result: Mapping[str, Any], trained: str) -> Drawing:
    """Fig. 5a: a cell for each alpha and margin."""
    alphas, margins = result["details"]["alphas"], result["details"]["grid_margins"]
    cells = [[result["rows"].get(cell_name(a, m), {}).get("matching") for m in margins] for a in alphas]
    values = np.array([[np.nan if cell is None else cell for cell in row] for row in cells], np.float64)  # (A, M)
    if not np.isfinite(values).any():
        raise Missing("cannot be drawn, since no cell of the grid has a result")
    figure, (panel,) = panels(width=5.0, height=3.6)
    picture = panel.imshow(values, cmap="cividis", origin="lower", aspect="auto")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    best = np.unravel_index(np.nanargmax(values), values.shape)
    for (a, m), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else f"{value:.2f}"
        weight = "bold" if (a, m) == best else "normal"
        panel.text(m, a, text, ha="center", va="center", color="white" if value <= middle else "black", weight=weight)
    panel.set_xticks(range(len(margins)), [f"{margin:g}" for margin in margins])
    panel.set_yticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    panel.set(xlabel="m", ylabel="α")
    panel.grid(visible=False)
    figure.colorbar(picture, ax=panel, label="matching mAP, %")
    return Drawing(
        figure,
        f"Matching on {Path(result['data']).name} over α and the margin m, {trained}. Bold: the best cell, "
        f"α = {alphas[best[0]]:g}, m = {margins[best[1]]:g}; the paper's best, on its own data, is α = 2, m = 1.2.",
    )


def curves(result: Mapping[str, Any], trained: str) -> Drawing:
    """Fig. 5c: FPR@95 while training."""
    picture = result.get("pictures", {}).get("curves", {})
    lines = picture.get("lines", {})
    if not any(line["x"] for line in lines.values()):
        raise Missing("cannot be drawn, since no run of the study was validated on its way")
    figure, (panel,) = panels()
    names = {"s_H": "$s_H$ (HyNet)", "L_A": "$L_A$", "L_B": "$L_B$"}
    for number, (name, line) in enumerate(lines.items()):
        look = {"color": CURVES[number], "linestyle": DASHES[number], "marker": MARKERS[number]}
        panel.plot(line["x"], line["y"], label=names.get(name, name), markersize=4, **look)
    panel.set(xlabel="steps", ylabel="FPR@95, %")
    panel.set_ylim(bottom=0)
    panel.legend()
    return Drawing(figure, f"{picture['title']}, by three losses, {trained}.")
