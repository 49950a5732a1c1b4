"""Work in a process of its own: it can be stopped at any moment, given limits, and shares no state with ours.

    with Helper() as helper:
        helper.call("package.module:function", value, option=2)

The process starts with the first call, or with `start`, and waits for the next one until it is closed or we end.
A function that does many things goes through them by `one_by_one`: the limit of its call then holds for each of them.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, TypeVar

from ..errors import HynetError
from .machine import few_threads, use_cores

Item = TypeVar("Item")

_answers: BinaryIO | None = None  # in a helper: where its caller reads them


class EndedEarly(HynetError, RuntimeError):
    """The process crashed, was killed, or took too long."""


class Helper:
    """A Python process that calls functions for us, one at a time; threads may share it."""

    def __init__(self, memory: int | None = None, threads: int | None = None, *, imports: str | None = None) -> None:
        """memory: bytes of data it may hold, where the system can limit that; threads: those that compute in it.

        imports: a module that it has ready when the first call comes.
        """
        self._memory = memory
        self._threads = threads
        self._imports = imports
        self._process: subprocess.Popen[bytes] | None = None
        self._over = False
        self._owner = os.getpid()
        self._lock = threading.RLock()

    def start(self) -> None:
        """Start the process without waiting for it."""
        if self._owner != os.getpid():  # a fork of ours has the pipes, but must not use them
            self._process = None
            self._owner = os.getpid()
            self._lock = threading.RLock()
        with self._lock:
            if not self._over and (self._process is None or self._process.poll() is not None):
                program = "import sys; sys.path[:] = {!r}; from {} import serve; serve({}, {}, {}, {!r})"
                places = [each for each in sys.path if isinstance(each, str)]  # imports pass over anything else
                command = program.format(places, __name__, os.getpid(), self._memory, self._threads, self._imports)
                self._process = subprocess.Popen(
                    [sys.executable, "-c", command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **({} if self._threads is None else few_threads(self._threads))},
                )
                atexit.register(self.close)
        if self._over:  # asked after the start: whoever ends us sees the process, or we see that it is over
            self.close()
            raise EndedEarly("the work was stopped.")

    def call(self, function: str, *values: Any, seconds: float | None = None, **options: Any) -> Any:
        """What "module:function" returns or raises there. Whatever interrupts us ends the process.

        seconds: that it may take, or each item that it goes through by `one_by_one`.
        """
        self.start()
        with self._lock:
            process = self._process
            if process is None:  # another thread has just closed it
                raise EndedEarly("the work was stopped.")
            assert process.stdin is not None
            assert process.stdout is not None
            watchdog = _Watchdog(process, seconds)
            try:
                pickle.dump((function, values, options), process.stdin, pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                while (answer := pickle.load(process.stdout)) is None:  # the next item
                    watchdog.restart()
                result, error = answer
            except (EOFError, OSError, pickle.UnpicklingError):
                code = process.wait()
                self.close()
                if watchdog.has_killed:
                    raise EndedEarly(f"{function} took more than {seconds:g} seconds.") from None
                raise EndedEarly(f"the process that ran {function} ended early ({_how(code)}).") from None
            except BaseException:
                self.close()  # its answer would be taken for that of the next call
                raise
            finally:
                watchdog.cancel()
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process now, whatever it does."""
        process, self._process = self._process, None
        atexit.unregister(self.close)
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with suppress(OSError):  # what it was never sent
                    pipe.close()
        process.wait()

    def end(self) -> None:
        """Close for good: a thread that is about to call does not start another process."""
        self._over = True
        self.close()

    def close_if_idle(self) -> None:
        """End the process unless it is in the middle of a call."""
        if self._lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._lock.release()

    def __enter__(self) -> Helper:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class _Watchdog:
    """Kills a process that has not finished, nor begun its next item, after `seconds`; None: never."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float | None) -> None:
        self.has_killed = False
        self._process = process
        self._seconds = seconds
        self._timer: threading.Timer | None = None
        self.restart()

    def restart(self) -> None:
        self.cancel()
        if self._seconds is not None:
            self._timer = threading.Timer(self._seconds, self._kill)
            self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _kill(self) -> None:
        self.has_killed = True
        self._process.kill()


# --- In the process ---


def one_by_one(items: Iterable[Item]) -> Iterator[Item]:
    """Each item in turn; in a helper, the time that its call may take begins anew with every one."""
    for item in items:
        if _answers is not None:
            _send(_answers, None)
        yield item


def serve(parent: int, memory: int | None = None, threads: int | None = None, imports: str | None = None) -> None:
    """The life of a helper: read a call, answer it, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends us
    global _answers
    calls, _answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print, and our answers are not for them
    if memory is not None:
        limit_memory(memory)
    if threads is not None:
        use_cores(threads)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    if imports is not None:
        with suppress(Exception):  # the call that needs it brings the error back
            importlib.import_module(imports)
    while True:
        try:
            function, values, options = pickle.load(calls)
        except EOFError:
            return
        answer: tuple[Any, BaseException | None]
        try:
            module, _, name = function.partition(":")
            answer = getattr(importlib.import_module(module), name)(*values, **options), None
        except Exception as error:
            answer = None, _portable(error)
        _send(_answers, answer)


def _send(answers: BinaryIO, answer: tuple[Any, BaseException | None] | None) -> None:
    pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
    answers.flush()


def end_with(parent: int) -> None:
    """A parent that was killed cannot end us, and its successor would work in the same folder."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def limit_memory(size: int) -> None:
    """Let this process hold so many bytes of data: what asks for more gets a MemoryError. Nothing where unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))


def _portable(error: Exception) -> Exception:
    """The error as it can be sent; one that cannot keeps its words."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
