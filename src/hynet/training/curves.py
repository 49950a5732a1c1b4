"""The curves of training runs in one picture: loss, similarities, FPR@95."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import need
from ..runtime.files import atomic_write

Points = tuple[list[float], list[float]]  # minutes, values
Lines = Sequence[Mapping[str, Any]]  # of a log


def draw(logs: Mapping[str, Lines], out: Path) -> None:
    """The logs of runs (`logbook.read`) over their minutes; what has no curve has no panel and no legend."""
    need("matplotlib", "train", "drawing curves").use("Agg")
    pyplot = need("matplotlib.pyplot", "train", "drawing curves")
    logs = dict(zip(_short(logs), logs.values(), strict=True))
    panels = {title: panel for title, panel in _panels(logs).items() if panel} or {"nothing was logged yet": {}}
    figure, all_axes = pyplot.subplots(
        1, len(panels), figsize=(5 * len(panels), 4.5), layout="constrained", squeeze=False
    )
    colours = {run: f"C{number % 10}" for number, run in enumerate(logs)}
    for axes, (title, panel) in zip(all_axes[0], panels.items(), strict=True):
        for label, (run, points, style) in panel.items():
            axes.plot(*points, style if len(points[0]) > 1 else "o", color=colours[run], label=label)
        axes.set(title=title, xlabel="minutes of training")
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="small")
    lowest = {run: best(lines) for run, lines in logs.items()}
    told = [f"{run}: best mean FPR@95 {error:.2f}%" for run, error in lowest.items() if error is not None]
    if told:
        figure.suptitle("; ".join(told), fontsize="medium")
    with atomic_write(out) as temporary:
        figure.savefig(temporary, dpi=120)
    pyplot.close(figure)


def _panels(logs: Mapping[str, Lines]) -> dict[str, dict[str, tuple[str, Points, str]]]:
    """Title -> label -> run, points, style; only of what was logged."""
    losses, similarities, errors = {}, {}, {}
    for run, lines in logs.items():
        if (points := _curve(lines, "loss"))[0]:
            losses[run] = run, points, "-"
        for kind, style in (("positive", "-"), ("negative", "--")):
            if (points := _curve(lines, f"{kind}_similarity"))[0]:
                similarities[f"{run}, {kind}s"] = run, points, style
        checks = [line for line in lines if "validation" in line]
        names = sorted({key for line in checks for key in line["validation"]})
        for number, (name, short) in enumerate(zip(names, _short(names), strict=True)):
            own = [line for line in checks if line["validation"].get(name) is not None]
            points = [line["minutes"] for line in own], [line["validation"][name] for line in own]
            errors[f"{run} on {short}"] = run, points, f"-{'os^v'[number % 4]}"
    return {"loss": losses, "cosine similarity": similarities, "FPR@95 in %, validation": errors}


def _short(paths: Iterable[str]) -> list[str]:
    """Folders by their last part, where that tells them apart."""
    full = [str(path) for path in paths]
    last = [Path(path).name or path for path in full]
    return [name if last.count(name) == 1 else path for name, path in zip(last, full, strict=True)]


def _curve(lines: Lines, name: str) -> Points:
    known = [line for line in lines if name in line]
    return [line["minutes"] for line in known], [line[name] for line in known]


def best(lines: Lines) -> float | None:
    """The lowest mean FPR@95 over the validation sets."""
    means = [sum(line["validation"].values()) / len(line["validation"]) for line in lines if line.get("validation")]
    return min(means, default=None)
