"""Progress of long work on stderr: a bar where a person watches, lines of JSON where a program asked for JSON.

At most one line a second: {"step": "matching", "done": 120, "total": 4950, "seconds": 3.1, "left": 124.8}. `seconds` is
the time that this step has taken, `left` an estimate of what it will take, null while nothing is known.

Where there is neither, a line now and then: "2 min: matching, 120 of 4,950, 40 min left". The first comes after half a
minute, so short work says nothing.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..runtime.long_runs import duration, repeatedly
from ..types import Progress

EVERY = 1.0  # seconds, of lines of JSON
NOW_AND_THEN = 30.0  # seconds, of lines for people
_as_json = False  # what this command was asked for


def for_machines(as_json: bool) -> None:
    """Whether progress is to be told as JSON."""
    global _as_json
    _as_json = as_json


@contextmanager
def bar() -> Iterator[Progress]:
    """with bar() as progress: long_work(progress=progress)"""
    with _json_lines() if _as_json else _bar() if sys.stderr.isatty() else _plain_lines() as progress:
        yield progress


class _Steps:
    """The latest progress report, and the speed of its step.

    A new step has its own speed. It is recognised by its counts, since the text of a report may be a photo's name.
    """

    def __init__(self) -> None:
        self.done, self.total, self.what = 0, -1, ""
        self._began, self._first = time.monotonic(), 0

    def begins(self, done: int, total: int, what: str) -> bool:
        """Note it; whether it is of a new step."""
        new = total != self.total or done < self.done
        if new:
            self._began, self._first = time.monotonic(), done
        self.done, self.total, self.what = done, total, what
        return new

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float | None:
        """Seconds, if something has been done by which to tell."""
        since = self.done - self._first
        return self.seconds * (self.total - self.done) / since if since > 0 else None


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)
        steps = _Steps()

        def progress(done: int, total: int, what: str) -> None:
            if steps.begins(done, total, what):
                bars.reset(task, total=total)
            bars.update(task, completed=done, total=total, description=what)

        yield progress


@contextmanager
def _json_lines() -> Iterator[Progress]:
    steps, told = _Steps(), time.monotonic()

    def progress(done: int, total: int, what: str) -> None:
        nonlocal told
        steps.begins(done, total, what)
        if time.monotonic() - told < EVERY:
            return
        told = time.monotonic()
        left = None if steps.left is None else round(steps.left, 1)
        line = {"step": what, "done": done, "total": total, "seconds": round(steps.seconds, 1), "left": left}
        print(json.dumps(line), file=sys.stderr, flush=True)

    yield progress


@contextmanager
def _plain_lines() -> Iterator[Progress]:
    """Print progress in plain lines at fixed intervals, since COLMAP maps for minutes without reporting any."""
    steps, start, news = _Steps(), time.monotonic(), threading.Event()

    def progress(done: int, total: int, what: str) -> None:
        steps.begins(done, total, what)
        news.set()

    def speak() -> None:
        if news.is_set() or steps.done < steps.total:  # else it is done, and nobody has said what comes next
            news.clear()
            print(_line(steps, time.monotonic() - start), file=sys.stderr, flush=True)

    with repeatedly(speak, NOW_AND_THEN):
        yield progress


def _line(steps: _Steps, seconds: float) -> str:
    parts = [f"{duration(seconds)}: {steps.what}"]
    if steps.total > 1:
        parts.append(f"{steps.done:,} of {steps.total:,}")
    if left := steps.left:  # asked once: another thread goes on meanwhile
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def tell(line: str) -> None:
    """A line for whoever reads a log; on a terminal the bar says it."""
    if _as_json or not sys.stderr.isatty():
        print(json.dumps({"note": line}) if _as_json else line, file=sys.stderr, flush=True)


def announce_dashboard(address: str | None) -> None:
    """Print the address of a cluster's dashboard, if it has one."""
    if address:
        told = json.dumps({"dashboard": address}) if _as_json else f"the cluster shows its work at {address}"
        print(told, file=sys.stderr, flush=True)
