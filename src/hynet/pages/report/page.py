"""Runs as one self-contained page: per benchmark a sortable table beside the paper's, charts, notes, the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import pages
from ...errors import DataNotFound
from ...evaluation import charts
from ...evaluation.charts import drawn
from ...evaluation.results import Bars, Curves, shown
from ...training import logbook
from .. import Cell, escape
from . import training
from .runs import Run, best, is_sanity, joined, json_files, read

MOST_CHARTS = 6  # columns with intervals that get a chart of their own
EMPTY = Cell("–")


@dataclass(frozen=True)
class Page:
    """The page with what it shows, and what it leaves out."""

    html: str
    files: Sequence[str]
    skipped: Mapping[str, str]  # JSON file that is no result -> why
    trained: Mapping[str, float | None]  # training run -> lowest mean FPR@95 in percent


def page(places: Sequence[Path], command: str = "", remarks: Sequence[str] = ()) -> Page:
    """Return the page of all results in some folders or files, and of training runs; `remarks` stand above them."""
    logs = {str(place): logbook.read(place) for place in places if (place / logbook.LOG).exists()}
    runs, skipped = [], {}
    for path in json_files([place for place in places if str(place) not in logs]):
        try:
            run = read(path)
            section(run)  # of what cannot be shown we say so, and show the rest
            runs.append(run)
        except (ValueError, OSError) as error:
            skipped[str(path)] = str(error)
        except (KeyError, TypeError, AttributeError):
            skipped[str(path)] = "has pictures or comparisons of an unknown shape"
    if not runs and not logs:
        listed = "; ".join(f"{path} {why}" for path, why in list(skipped.items())[:3])
        raise DataNotFound(
            f"no results in {', '.join(map(str, places))}{f' ({listed})' if listed else ''}; "
            "`hynet evaluate BENCHMARK --out results/` writes some, and `hynet train --out run/` runs."
        )
    runs.sort(key=lambda run: (run.benchmark, run.data, run.files))
    lowest = {name: training.best(lines) for name, lines in logs.items()}
    html = _html(joined(runs), training.section(logs), skipped, command, remarks)
    return Page(html, [run.files[0] for run in runs], skipped, lowest)


def section(run: Run, anchor: str = "run") -> str:
    """One benchmark."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in run.notes)
    commands = escape("\n".join(run.commands))
    parts = [
        f'<section id="{anchor}"><h2>{escape(_name(run))}</h2>',
        _table(run),
        _charts(run),
        _differences(run),
        f"<ul>{notes}</ul>" if notes else "",
        f"<pre><code>{commands}</code></pre>" if commands else "",
        f"<p><small>{escape('; '.join([*run.made, *run.files]))}</small></p></section>",
    ]
    return "\n".join(filter(None, parts))


def _html(runs: Sequence[Run], curves: str, skipped: Mapping[str, str], command: str, remarks: Sequence[str]) -> str:
    links = [
        f'<li><a href="#run{number}">{escape(_name(run))}</a> <small>{len(run.rows)} methods</small></li>'
        for number, run in enumerate(runs)
    ]
    left_out = [f"<li><code>{escape(path)}</code> {escape(why)}.</li>" for path, why in skipped.items()]
    body = [
        "<h1>Results</h1>",
        '<p class="faint">In brackets: 95% intervals. Bold: surely the best measured row of its column, by the '
        "difference on the same samples where that was measured, otherwise by intervals that do not overlap. "
        "A click on a heading sorts.</p>",
        f"<ul>{''.join(f'<li>{escape(remark)}</li>' for remark in remarks)}</ul>" if remarks else "",
        f"<nav><ul>{''.join(links)}</ul></nav>" if len(runs) > 1 else "",
        curves,
        *(section(run, f"run{number}") for number, run in enumerate(runs)),
        f"<h2>Left out</h2><ul>{''.join(left_out)}</ul>" if skipped else "",
        f"<h2>This page</h2><pre><code>{escape(command)}</code></pre>" if command else "",
    ]
    return pages.page("Results", "\n".join(filter(None, body)), scripts=[pages.asset("sort.js")])


def _name(run: Run) -> str:
    return run.title or f"{run.benchmark}: {run.data}"


def _table(run: Run) -> str:
    """The paper's rows above ours."""
    names, winners = shown(run.rows), {column: best(run, column) for column in run.columns}
    rows, kinds = [], []
    for name, numbers in run.paper.items():
        head = Cell(f'{escape(name)}<span class="tag" title="{escape(run.paper_source)}">paper</span>', name)
        rows.append([head, *(_value(run, column, numbers.get(column)) for column in run.columns)])
        kinds.append("paper")
    for name, numbers in run.rows.items():
        intervals = run.intervals.get(name, {})
        tag = '<span class="tag">sanity</span>' if is_sanity(name) else ""
        cells = [
            _value(run, column, numbers.get(column), intervals.get(column), name in winners[column])
            for column in run.columns
        ]
        rows.append([Cell(escape(names[name]) + tag, names[name]), *cells])
        kinds.append("sanity" if is_sanity(name) else "")
    return pages.table(["method", *run.columns], rows, kinds)


def _value(
    run: Run, column: str, value: float | None, interval: tuple[float, float] | None = None, wins: bool = False
) -> Cell:
    if value is None:
        return EMPTY
    spec = run.formats.get(column, ".2f")
    bounds = (
        f"<small>[{interval[0]:{spec}}, {interval[1]:{spec}}]</small>" if interval and interval[0] < interval[1] else ""
    )
    return Cell(f"{value:{spec}}{bounds}", value, "best" if wins else "")


def _differences(run: Run) -> str:
    if not run.comparisons:
        return ""
    names = shown(run.rows)
    columns = list(dict.fromkeys(each["column"] for each in run.comparisons))
    rows: dict[str, dict[str, Cell]] = {}
    for each in run.comparisons:
        (low, high), difference = each["interval"], each["difference"]
        title = f"{names.get(each['method'], each['method'])} − {names.get(each['rival'], each['rival'])}"
        text = f"{difference:+.2f}<small>[{low:+.2f}, {high:+.2f}]</small>"
        rows.setdefault(title, {})[each["column"]] = Cell(text, difference, "best" if low > 0 or high < 0 else "")
    cells = [
        [Cell(escape(title), title), *(row.get(column, EMPTY) for column in columns)] for title, row in rows.items()
    ]
    legend = '<p class="faint">Bold: surely different, the interval leaves out zero.</p>'
    return "<h3>Differences on the same samples</h3>" + legend + pages.table(["", *columns], cells)


def _charts(run: Run) -> str:
    columns = [column for column in run.columns if any(column in row for row in run.intervals.values())]
    dots = [charts.dots(column, rows) for column in columns[:MOST_CHARTS] if len(rows := _dots(run, column)) > 1]
    others = [chart for picture in run.pictures.values() for chart in drawn(_picture(picture), shown(run.rows))]
    return "".join(
        f'<div class="charts">{"".join(map(charts.figure, group))}</div>' for group in (dots, others) if group
    )


def _picture(told: Mapping[str, Any]) -> Curves | Bars:
    """Rebuild a figure from its form in a result file."""
    if told["kind"] == "curves":
        return Curves(told["title"], told["x"], told["y"], told["lines"], bool(told["log_x"]), told.get("level"))
    return Bars(told.get("title", ""), told["panels"], told["marks"])


def _dots(run: Run, column: str) -> list[charts.Dot]:
    """Without the sanity rows, which are far off and would squeeze the intervals together."""
    names = shown(run.rows)
    paper = [
        charts.Dot(f"{name} (paper)", row[column], hollow=True)
        for name, row in run.paper.items()
        if row.get(column) is not None
    ]
    ours = [
        charts.Dot(names[name], value, run.intervals.get(name, {}).get(column))
        for name, row in run.rows.items()
        if (value := row.get(column)) is not None and not is_sanity(name)
    ]
    return paper + ours
