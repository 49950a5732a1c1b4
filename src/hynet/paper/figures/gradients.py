"""Figures 1, 2b and 5b: where gradients point, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import asin, inf, pi, sqrt
from typing import Any

import numpy as np

from ...errors import need
from ...geometry.two_views import rotations
from ...losses import similarity
from ...types import Array
from .style import BLACK, BLUE, CURVES, DASHES, GREEN, RED, Drawing, panels

# Measure -> its sign and how the paper writes it: similarities grow when partners get closer, distances fall.
SHOWN = {"s_bar": (1, r"$\bar{s}$"), "d_bar": (-1, r"$\bar{d}$"), "s": (1, "$s$"), "d": (-1, "$d$")}
ALPHAS = (0.0, 0.5, 1.0, 2.0, 4.0, inf)


@dataclass(frozen=True)
class Parts:
    """The way a positive pair sends one descriptor: all of it, what changes its length, what turns it."""

    whole: Array  # (D,)
    parallel: Array
    orthogonal: Array


def descent(measure: str, x: Array, y: Array) -> Parts:
    """Descent of x for a positive pair; for a negative one it is the opposite."""
    sign, _ = SHOWN[measure]
    gradient = sign * similarity.GRADIENTS[measure](x, y)
    return Parts(gradient, *similarity.decompose(gradient, x))


def directions(x: Array, y: Array, source: str) -> Drawing:
    """Fig. 1, in the plane that the two descriptors span, in which their gradients lie too."""
    figure, axes = panels(len(SHOWN), width=2.6, height=2.5)
    across = x / np.linalg.norm(x)
    up = y - (y @ across) * across
    up /= np.linalg.norm(up)
    angle = float(np.arccos(np.clip(similarity.s(x, y), -1, 1)))
    tilt = (pi - angle) / 2  # both as far from the vertical
    turn = rotations(tilt)
    length = max(np.linalg.norm(x), np.linalg.norm(y))

    def flat(vector: Array) -> Array:
        return turn @ np.array([vector @ across, vector @ up]) / length

    for panel, (measure, (_, symbol)) in zip(axes, SHOWN.items(), strict=True):
        for name, own, other in (("x", x, y), ("y", y, x)):
            tip = flat(own)
            _arrow(panel, np.zeros(2), tip, BLACK, 2.0)
            panel.annotate(f"$\\mathbf{{{name}}}$", tip * 0.5, xytext=(6, -2), textcoords="offset points")
            parts = descent(measure, own, other)
            scale = 0.55 * length / np.linalg.norm(parts.whole)  # lengths mean nothing here, as in the paper
            _arrow(panel, tip, tip - scale * flat(parts.whole), RED, 1.2, "--")
            for vector, colour in ((parts.parallel, GREEN), (parts.orthogonal, BLUE)):
                if np.linalg.norm(vector) > 1e-6 * np.linalg.norm(parts.whole):
                    _arrow(panel, tip, tip + scale * flat(vector), colour, 4.0)
            _arrow(panel, tip, tip + scale * flat(parts.whole), RED, 1.2)  # thin: where it is all of it, both are seen
        panel.set(xlim=(-1.15, 1.15), ylim=(-0.05, 1.6), aspect="equal", xticks=[], yticks=[], title=symbol)
        for spine in panel.spines.values():
            spine.set_visible(False)
    lines = [
        need("matplotlib.lines", "train", "drawing figures").Line2D([], [], color=colour, linestyle=style, label=label)
        for colour, style, label in (
            (RED, "-", r"$\Delta$, positive pair"),
            (RED, "--", r"$\Delta$, negative pair"),
            (GREEN, "-", r"$\Delta_\parallel$"),
            (BLUE, "-", r"$\Delta_\perp$"),
        )
    ]
    figure.legend(handles=lines, loc="outside upper center", ncols=4)
    return Drawing(
        figure,
        f"Directions of gradient descent of two descriptors {np.degrees(angle):.0f}° apart ({source}), in their "
        "plane; the lengths of gradients are made alike. The normalised s and d have no parallel part: all of their "
        "gradient turns the descriptor.",
    )


def magnitudes() -> Drawing:
    """Fig. 2b."""
    figure, (panel,) = panels()
    theta = np.linspace(0, pi / 2, 181)
    for number, (values, label) in enumerate([(similarity.g_s(theta), "$g_s$"), (similarity.g_d(theta), "$g_d$")]):
        panel.plot(theta, values, color=CURVES[number], linestyle=DASHES[number], label=label, linewidth=2)
    _over_theta(panel, "gradient magnitude")
    return Drawing(
        figure,
        "Gradient magnitudes of the inner product (g_s = |sin θ|) and of the L2 distance (g_d = |cos(θ/2)|) of unit "
        "descriptors; hard positives (large θ) are moved most by s, hard negatives (small θ) by d. Computed.",
    )


def hybrid_magnitudes() -> Drawing:
    """Fig. 5b."""
    figure, (panel,) = panels()
    theta = np.linspace(0, pi / 2, 1571)
    for number, (alpha, values) in enumerate(hybrids(theta).items()):
        colour, style = (BLACK, "-") if alpha == 2.0 else (CURVES[number], DASHES[number + 1])  # the paper's own
        label = (
            r"$\alpha=\infty$ ($g_s$)" if alpha == inf else rf"$\alpha={alpha:g}$" + (" ($g_d$)" if not alpha else "")
        )
        width = 2.6 if alpha == 2.0 else 1.4
        panel.plot(theta, values, color=colour, linestyle=style, label=label, linewidth=width)
        panel.plot(steepest(alpha), 1.0, marker="o", color=colour, clip_on=False, linestyle="none")
    _over_theta(panel, "$g_H$")
    panel.set_ylim(0, 1.05)
    return Drawing(
        figure,
        "Gradient magnitude of the hybrid similarity for several α, scaled by Z(α) so that its maximum (dot) is 1; for "
        f"α = 2 that lies at θ = {steepest(2.0):.2f} rad and Z = {similarity.unit_slope(2.0):.3f}. Computed.",
    )


def hybrids(theta: Array) -> Mapping[float, Array]:
    """alpha -> g_H; infinity is s alone."""
    return {alpha: similarity.g_s(theta) if alpha == inf else similarity.g_h(theta, alpha) for alpha in ALPHAS}


def steepest(alpha: float) -> float:
    """theta of the largest slope, in closed form as in similarity.unit_slope."""
    if alpha == inf:
        return pi / 2
    return 2 * asin(4 * alpha / (1 + sqrt(1 + 32 * alpha**2)))


def _over_theta(panel: Any, name: str) -> None:
    panel.set(xlabel="θ, rad", ylabel=name, xlim=(0, pi / 2))
    panel.set_xticks([0, pi / 8, pi / 4, 3 * pi / 8, pi / 2], ["0", "π/8", "π/4", "3π/8", "π/2"])
    panel.legend()


def _arrow(panel: Any, start: Array, end: Array, colour: str, width: float, style: str = "-") -> None:
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "linestyle": style, "shrinkA": 0, "shrinkB": 0}
    panel.annotate("", end, xytext=start, arrowprops=look)
