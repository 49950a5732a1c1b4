"""The curves of training runs in one picture: loss, similarities, FPR@95."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import need
from ..system.files import whole


def draw(logs: Mapping[str, Sequence[Mapping[str, Any]]], out: Path) -> None:
    """The logs of runs (`logbook.read`) over their minutes of training."""
    need("matplotlib", "train", "drawing curves").use("Agg")
    pyplot = need("matplotlib.pyplot", "train", "drawing curves")
    figure, (losses, similarities, errors) = pyplot.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
    for name, lines in logs.items():
        steps = [line for line in lines if "loss" in line]
        colour = losses.plot(*_curve(steps, "loss"), label=name)[0].get_color()
        similarities.plot(*_curve(steps, "positive_similarity"), color=colour, label=f"{name}, positives")
        similarities.plot(*_curve(steps, "negative_similarity"), "--", color=colour, label=f"{name}, negatives")
        checks = [line for line in lines if "validation" in line]
        for number, set_name in enumerate(sorted({key for line in checks for key in line["validation"]})):
            x = [line["minutes"] for line in checks]
            y = [line["validation"].get(set_name) for line in checks]
            errors.plot(x, y, marker="os^v"[number % 4], color=colour, label=f"{name} on {set_name}")
    for axes, title in ((losses, "loss"), (similarities, "cosine similarity"), (errors, "FPR@95 in %, validation")):
        axes.set(title=title, xlabel="minutes of training")
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="small")
    with whole(out) as temporary:
        figure.savefig(temporary, dpi=120)
    pyplot.close(figure)


def _curve(lines: Sequence[Mapping[str, Any]], name: str) -> tuple[list[float], list[float]]:
    known = [line for line in lines if name in line]
    return [line["minutes"] for line in known], [line[name] for line in known]


def best(lines: Sequence[Mapping[str, Any]]) -> float | None:
    """The lowest mean FPR@95 over the validation sets."""
    means = [sum(line["validation"].values()) / len(line["validation"]) for line in lines if line.get("validation")]
    return min(means, default=None)
