"""Early ends of a command: Ctrl-C and SIGTERM stop it at once, saying what is kept; or the system refused something.

Whoever keeps something adds a note to the interruption on its way up; how to go on is said here, once:

    except KeyboardInterrupt as stop:
        stop.add_note("12 of 20 photos are kept")
        raise
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType


class Terminated(KeyboardInterrupt):
    """A polite kill, by SIGTERM."""


def listen_to_sigterm() -> None:
    """SIGTERM unwinds as Ctrl-C does, so that processes of ours end and temporary files go."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)


def stopped(stop: KeyboardInterrupt, args: Sequence[str], at_once: bool) -> int:
    """Say it and give the exit code, or leave `at_once`: threads in the middle of a photo would hold us up."""
    notes = getattr(stop, "__notes__", [])
    said = ["stopped", *notes, _go_on(args)] if notes else ["stopped"]
    print(f"hynet: {'; '.join(said)}.", file=sys.stderr, flush=True)
    code = 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    if at_once:
        atexit._run_exitfuncs()  # as at any end, but for waiting for threads
        os._exit(code)
    return code


def refusal(error: OSError | MemoryError) -> str:
    """Describe in a sentence a refusal of the system: a limit, a full device, a file that has gone."""
    if isinstance(error, MemoryError):
        return "there is not enough memory; use smaller photos, fewer keypoints or fewer jobs."
    where = f"{error.filename}: " if error.filename else ""
    return f"the system refused: {where}{error.strerror or error}; mend that and run the same command again."


def leave_stdout() -> None:
    """Python would try to write what is left once more at exit, and complain."""
    with suppress(OSError, ValueError):  # replaced by something without a number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _go_on(args: Sequence[str]) -> str:
    if args[:1] == ["train"] and "--resume" not in args:
        return "add --resume to the same command to go on"
    return "run the same command again to go on"


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
