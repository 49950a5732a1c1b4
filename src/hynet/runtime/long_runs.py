"""Parts of every long run: how long it takes, looks at it now and then, and a note of what an interruption leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def duration(seconds: float) -> str:
    """Seconds in the unit that a person would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def repeatedly(act: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call a function every so many seconds, in a thread of its own, until the end of the block."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def note_what_is_kept(out: Path) -> Iterator[None]:
    """Add a note to an interruption on its way up; the command says how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(f"what is done is kept in {out}")
        raise
