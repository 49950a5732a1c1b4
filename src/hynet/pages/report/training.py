"""The curves of training runs as charts: loss, similarities, FPR@95."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...evaluation import charts

Lines = Sequence[Mapping[str, Any]]  # of a log
MINUTES = "minutes of training"


def section(logs: Mapping[str, Lines]) -> str:
    """HTML of all runs together, by the folders that hold them; nothing for no runs."""
    if not logs:
        return ""
    found = [charts.curves(title, lines, x=MINUTES) for title, lines in panels(logs).items()]
    drawn = "".join(charts.figure(chart) for chart in found if chart is not None)
    lowest = {name: error for name, lines in logs.items() if (error := best(lines)) is not None}
    told = "".join(f"<li>{charts.escape(line)}</li>" for line in sentences(lowest))
    return f'<section id="training"><h2>Training</h2><ul>{told}</ul><div class="charts">{drawn}</div></section>'


def best(lines: Lines) -> float | None:
    """The lowest mean FPR@95 over the validation sets."""
    means = [sum(line["validation"].values()) / len(line["validation"]) for line in lines if line.get("validation")]
    return min(means, default=None)


def sentences(lowest: Mapping[str, float | None]) -> list[str]:
    """One line for each run that was validated."""
    return [f"{name}: best mean FPR@95 {error:.2f}%" for name, error in lowest.items() if error is not None]


def panels(logs: Mapping[str, Lines]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Title -> name -> curve over the minutes; a run is called by its folder's name where no other is called so."""
    losses, similarities, errors = {}, {}, {}
    for run, lines in zip(_short(logs), logs.values(), strict=True):
        losses[run] = _curve(lines, "loss")
        for kind in ("positive", "negative"):
            similarities[f"{run}, {kind}s"] = _curve(lines, f"{kind}_similarity")
        checks = [{"minutes": line["minutes"], **line["validation"]} for line in lines if "validation" in line]
        names = sorted({key for line in lines for key in line.get("validation", ())})
        for name, short in zip(names, _short(names), strict=True):
            errors[f"{run} on {short}"] = _curve([line for line in checks if line.get(name) is not None], name)
    return {"loss": losses, "cosine similarity": similarities, "FPR@95 in %, validation": errors}


def _short(paths: Iterable[str]) -> list[str]:
    full = [str(path) for path in paths]
    last = [Path(path).name or path for path in full]
    return [name if last.count(name) == 1 else path for name, path in zip(last, full, strict=True)]


def _curve(lines: Lines, name: str) -> dict[str, list[float]]:
    known = [line for line in lines if name in line]
    return {"x": [line["minutes"] for line in known], "y": [line[name] for line in known]}
