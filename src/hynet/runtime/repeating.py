"""Something done again and again beside other work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeatedly(act: Callable[[], None], seconds: float) -> Iterator[None]:
    """Every so many seconds, in a thread of its own, until the end of the block."""
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
