"""Ctrl-C and SIGTERM end a command at once, and say what is kept.

Whoever keeps something adds a note to the interruption on its way up:

    except KeyboardInterrupt as stop:
        stop.add_note("12 of 20 photos are kept; run the same command again to go on")
        raise
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType


class Terminated(KeyboardInterrupt):
    """A polite kill, by SIGTERM."""


def listen_to_sigterm() -> None:
    """SIGTERM unwinds as Ctrl-C does, so that processes of ours end and temporary files go."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def stopped(stop: KeyboardInterrupt, at_once: bool) -> int:
    """Say it and give the exit code, or leave `at_once`: threads in the middle of a photo would hold us up."""
    print(f"hynet: {'; '.join(['stopped', *getattr(stop, '__notes__', [])])}.", file=sys.stderr, flush=True)
    code = 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    if at_once:
        os._exit(code)
    return code


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
