"""JSON files of `hynet evaluate --out` -> runs, joined where they measured alike; and which method is surely best."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import DataNotFound
from ...evaluation.contestants import SANITY

Numbers = Mapping[str, Mapping[str, Any]]  # method -> column -> number or None


@dataclass(frozen=True)
class Run:
    """The results in one file, or in several that measured alike, as `hynet evaluate --out` writes them."""

    files: Sequence[str]
    benchmark: str
    data: str
    columns: Sequence[str]
    rows: Numbers
    intervals: Mapping[str, Mapping[str, tuple[float, float]]]
    title: str
    paper: Numbers
    paper_source: str
    formats: Mapping[str, str]  # column -> format spec
    lower_is_better: Sequence[str]
    comparisons: Sequence[Mapping[str, Any]]  # column, method, rival, difference, interval: on the same samples
    pictures: Mapping[str, Mapping[str, Any]]
    notes: Sequence[str]
    commands: Sequence[str]
    made: Sequence[str]  # when, and with which version


def read(path: Path) -> Run:
    """One run; ValueError says why a file is none."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError("is no text") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is no whole JSON ({error.msg} in line {error.lineno})") from None
    if not isinstance(told, dict) or not {"benchmark", "columns", "rows"} <= set(told):
        raise ValueError("is JSON, but no result of `hynet evaluate`")
    try:
        return _run(str(path), told)
    except (TypeError, AttributeError, ValueError):
        raise ValueError("has the fields of a result, but not their shape") from None


def json_files(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the result files among these places: files as they are, folders searched at any depth."""
    for place in places:
        if not place.exists():
            raise DataNotFound(f"no {place}; give a folder that `hynet evaluate --out` wrote.")
        found = sorted(place.rglob("*.json")) if place.is_dir() else [place]
        # The folder of a training run, such as those of a study, holds none.
        yield from (path for path in found if not path.with_name("log.jsonl").exists())


def joined(runs: Iterable[Run]) -> list[Run]:
    """Runs that measured alike on the same data share a table, unless they disagree about a method."""
    groups: list[Run] = []
    for run in runs:
        place = next((place for place, other in enumerate(groups) if _fit(other, run)), None)
        if place is None:
            groups.append(run)
        else:
            groups[place] = _both(groups[place], run)
    return groups


def best(run: Run, column: str) -> set[str]:
    """The methods that are best in a column beyond doubt, against every other measured one of their scene.

    Beyond doubt: where both were compared on the same samples, that interval does not hold 0; elsewhere their own
    intervals do not overlap. A method without an interval takes no part, and none wins by one of no width (one sample).
    """
    sign = -1 if column in run.lower_is_better else 1
    values = {
        name: sign * row[column]
        for name, row in run.rows.items()
        if row.get(column) is not None and column in run.intervals.get(name, {}) and not is_sanity(name)
    }
    winners = set()
    for scene in {_scene(name) for name in values}:
        here = [name for name in values if _scene(name) == scene]
        first = max(here, key=lambda name: values[name])
        if (
            len(here) > 1
            and _has_width(run, first, column)
            and all(_surely_differ(run, column, first, name) for name in here if name != first)
        ):
            winners.add(first)
    return winners


def is_sanity(name: str) -> bool:
    """A descriptor that knows nothing: shown to prove that the measure works, and never the best."""
    return name.rpartition(": ")[2].rpartition("+")[2] in SANITY


def _run(file: str, told: Mapping[str, Any]) -> Run:
    paper, versions = told.get("paper") or {}, told.get("versions") or {}
    made = " with hynet ".join(filter(None, [told.get("date"), versions.get("hynet")]))
    return Run(
        files=[file],
        benchmark=str(told["benchmark"]),
        data=str(told.get("data", "")),
        columns=[str(column) for column in told["columns"]],
        rows=_numbers(told["rows"]),
        intervals={
            method: {column: (low, high) for column, (low, high) in row.items() if _is_number(low) and _is_number(high)}
            for method, row in (told.get("intervals") or {}).items()
        },
        title=str(told.get("title") or ""),
        paper=_numbers(paper.get("rows") or {}),
        paper_source=str(paper.get("source") or paper.get("title") or ""),
        formats={**(paper.get("formats") or {}), **(told.get("formats") or {})},
        lower_is_better=list(told.get("lower_is_better") or ()),
        comparisons=list(told.get("comparisons") or ()),
        pictures=dict(told.get("pictures") or {}),
        notes=[str(note) for note in told.get("notes") or ()],
        commands=[str(told["command"])] if told.get("command") else [],
        made=[made] if made else [],
    )


def _numbers(told: Mapping[str, Mapping[str, Any]]) -> Numbers:
    """Numbers that can be shown; anything else is an empty place."""
    return {
        name: {column: value if _is_number(value) else None for column, value in row.items()}
        for name, row in told.items()
    }


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False


def _fit(first: Run, second: Run) -> bool:
    alike = all(getattr(first, name) == getattr(second, name) for name in ("benchmark", "data", "title", "notes"))
    return alike and all(first.rows[name] == row for name, row in second.rows.items() if name in first.rows)


def _both(first: Run, second: Run) -> Run:
    return replace(
        first,
        files=[*first.files, *second.files],
        columns=_union(first.columns, second.columns),
        rows={**first.rows, **second.rows},
        intervals={**first.intervals, **second.intervals},
        paper={**first.paper, **second.paper},
        formats={**first.formats, **second.formats},
        lower_is_better=_union(first.lower_is_better, second.lower_is_better),
        comparisons=[*first.comparisons, *(each for each in second.comparisons if each not in first.comparisons)],
        pictures=_overlaid(first.pictures, second.pictures),
        commands=_union(first.commands, second.commands),
        made=_union(first.made, second.made),
    )


def _union(first: Sequence[str], second: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _overlaid(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dicts as one: curves, panels and bars of the same name meet; elsewhere the first speaks."""
    both = {**second, **first}
    for name in first.keys() & second.keys():
        if isinstance(first[name], dict) and isinstance(second[name], dict):
            both[name] = _overlaid(first[name], second[name])
    return both


def _scene(name: str) -> str:
    """Rows of one scene among several are named SCENE: METHOD."""
    return name.rpartition(": ")[0]


def _has_width(run: Run, name: str, column: str) -> bool:
    low, high = run.intervals[name][column]
    return low < high


def _surely_differ(run: Run, column: str, first: str, second: str) -> bool:
    for each in run.comparisons:
        if each["column"] == column and {each["method"], each["rival"]} == {first, second}:
            low, high = each["interval"]
            return low > 0 or high < 0
    (low, high), (other_low, other_high) = run.intervals[first][column], run.intervals[second][column]
    return low > other_high or high < other_low
