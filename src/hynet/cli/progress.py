"""A progress bar on stderr where a person watches, and nothing where a program does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ..types import Progress, silent


@contextmanager
def bar() -> Iterator[Progress]:
    """with bar() as progress: long_work(progress=progress)"""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)

        def progress(done: int, total: int, what: str) -> None:
            bars.update(task, completed=done, total=total, description=what)

        yield progress


def tell(line: str) -> None:
    """A line for whoever reads a log; on a terminal the bar says it."""
    if not sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
