"""Ctrl-C and SIGTERM end a run between two steps, so that what is saved is what an undisturbed run had there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """The signals that ask us to stop, noted as they come; a second one stops at once."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}  # by nohup or `&`

    def stop(number: int, frame: Any) -> None:
        noted.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, stop)
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupt(noted: Sequence[int], steps: int, out: object) -> NoReturn:
    """Do what the signal would have done at once, saying what is kept."""
    try:
        if noted:  # under torchrun another process may have got it
            signal.raise_signal(noted[0])
        raise KeyboardInterrupt
    except KeyboardInterrupt as stop:
        stop.add_note(f"{steps} steps are kept in {out}")
        raise
