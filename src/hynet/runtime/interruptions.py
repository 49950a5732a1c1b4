"""What Ctrl-C and SIGTERM leave behind, in words: whoever keeps something says so, the command says how to go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def says_what_is_kept(out: Path) -> Iterator[None]:
    """An interruption on its way up gets a note."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(f"what is done is kept in {out}")
        raise
