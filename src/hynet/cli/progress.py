"""How far long work is, on stderr: a bar where a person watches, lines of JSON where a program asked for JSON.

At most one line a second: {"step": "matching", "done": 120, "total": 4950, "seconds": 3.1, "left": 124.8}. `seconds` is
the time that this step has taken, `left` an estimate of what it will take, null while nothing is known.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..types import Progress, silent

EVERY = 1.0  # seconds
_as_json = False  # what this command was asked for


def for_machines(as_json: bool) -> None:
    """Whether progress is to be told as JSON."""
    global _as_json
    _as_json = as_json


@contextmanager
def bar() -> Iterator[Progress]:
    """with bar() as progress: long_work(progress=progress)"""
    if _as_json:
        yield _Lines()
        return
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)
        steps = _Steps()

        def progress(done: int, total: int, what: str) -> None:
            if steps.begins(done, total):
                bars.reset(task, total=total)
            bars.update(task, completed=done, total=total, description=what)

        yield progress


class _Steps:
    """Where one step ends and the next, whose speed is its own, begins: what is told of it may be a photo's name."""

    def __init__(self) -> None:
        self._last = 0, -1  # done, total

    def begins(self, done: int, total: int) -> bool:
        before, of = self._last
        self._last = done, total
        return total != of or done < before


class _Lines:
    """Progress as lines of JSON."""

    def __init__(self) -> None:
        self._steps = _Steps()
        self._began = self._told = time.monotonic()
        self._first = 0

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if self._steps.begins(done, total):
            self._began, self._first = now, done
        if now - self._told < EVERY:
            return
        self._told = now
        spent, since = now - self._began, done - self._first
        left = round(spent * (total - done) / since, 1) if since > 0 else None
        told = {"step": what, "done": done, "total": total, "seconds": round(spent, 1), "left": left}
        print(json.dumps(told), file=sys.stderr, flush=True)


def tell(line: str) -> None:
    """A line for whoever reads a log; on a terminal the bar says it."""
    if _as_json or not sys.stderr.isatty():
        print(json.dumps({"note": line}) if _as_json else line, file=sys.stderr, flush=True)


def announce_dashboard(address: str | None) -> None:
    """Where a cluster shows what it does, if it does."""
    if address:
        told = json.dumps({"dashboard": address}) if _as_json else f"the cluster shows its work at {address}"
        print(told, file=sys.stderr, flush=True)
