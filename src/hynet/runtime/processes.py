"""Functions called in processes of their own: each can be stopped at any moment, given limits, and shares no state.

    with Worker() as worker:
        worker.call("package.module:function", value, option=2)

The process starts with the first call, or with `start`, and waits for the next one until it is closed or we end. The
function may report with `tell` while it works, and go through its items with `one_by_one`: the limit of its call then
holds for each of them.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, TypeVar

from ..errors import HynetError
from .machine import few_threads, keep_memory_mapped, use_cores

Item = TypeVar("Item")
News = Callable[[Any], object]

_answers: BinaryIO | None = None  # in a worker: where its caller reads them


class EndedEarly(HynetError, RuntimeError):
    """The process crashed, was killed, or took too long."""


class Worker:
    """A Python process that calls functions for us, one at a time; threads may share it."""

    def __init__(self, memory: int | None = None, threads: int | None = None, *, imports: str = "") -> None:
        """memory: bytes of data it may hold, where the system can limit that; threads: those that compute in it.

        imports: a module that it has ready when the first call comes.
        """
        self._limits = memory, threads, imports
        self._process: subprocess.Popen[bytes] | None = None
        self._over = False
        self._owner = os.getpid()
        self._lock = threading.RLock()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting for it."""
        if self._owner != os.getpid():  # a fork of ours has the pipes, but must not use them
            self._process, self._owner, self._lock = None, os.getpid(), threading.RLock()
        with self._lock:
            process = self._process
            if not self._over and (process is None or process.poll() is not None):
                process = self._process = _started(*self._limits)
                atexit.register(self.close)
        if process is None or self._over:  # asked after the start: `end` sees the process, or we see that it is over
            self.close()
            raise EndedEarly("the work was stopped.")
        return process

    def call(
        self, function: str, *values: Any, seconds: float | None = None, news: News = lambda _: None, **options: Any
    ) -> Any:
        """Return or raise what "module:function" does there. Whatever interrupts us ends the process.

        seconds: that it may take, or each item that it goes through by `one_by_one`.
        news: is called with everything that the function tells.
        """
        task = pickle.dumps((function, values, options), pickle.HIGHEST_PROTOCOL)
        with self._lock:
            process = self.start()
            watchdog = _Watchdog(process, seconds)
            try:
                kind, value = _asked(process, task)
                while kind == "news":
                    watchdog.restart()
                    if value is not None:
                        news(value)
                    kind, value = _asked(process)
            except _Gone:
                process.kill()  # in case it is only what it sent that cannot be read
                code = process.wait()
                self.close()
                if watchdog.has_killed:
                    raise EndedEarly(f"{function} took more than {seconds:g} seconds.") from None
                how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                raise EndedEarly(f"the process that ran {function} ended early ({how}).") from None
            except BaseException:
                self.close()  # its answer would be taken for that of the next call
                raise
            finally:
                watchdog.cancel()
        if kind == "error":
            raise value
        return value

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

    def ask_to_end(self) -> subprocess.Popen[bytes] | None:
        """Send SIGTERM to the process, if there is one, and start no other; `end` does not wait for it."""
        self._over = True
        process = self._process
        if process is not None:
            process.terminate()
        return process

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

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()


class _Gone(Exception):
    """The process no longer answers."""


def _started(memory: int | None, threads: int | None, imports: str) -> subprocess.Popen[bytes]:
    places = [each for each in sys.path if isinstance(each, str)]  # imports pass over anything else
    program = f"import sys; sys.path[:] = {places!r}; from {__name__} import serve; serve{(memory, threads, imports)!r}"
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **({} if threads is None else few_threads(threads))},
    )


def _asked(process: subprocess.Popen[bytes], task: bytes | None = None) -> tuple[str, Any]:
    """Send the task, if there is one, and wait for the next message: its kind and its value."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if task is not None:
            pickle.dump(task, process.stdin)
            process.stdin.flush()
        return pickle.load(process.stdout)
    except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # ValueError: `close` has closed its pipes
        raise _Gone from None


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


def tell(value: Any) -> None:
    """Report to the caller's `news`; outside a worker this does nothing."""
    if _answers is not None:
        _send(_answers, "news", value)


def one_by_one(items: Iterable[Item]) -> Iterator[Item]:
    """Yield each item; in a worker, the time that its call may take begins anew with every one."""
    for item in items:
        tell(None)
        yield item


def serve(memory: int | None, threads: int | None, imports: str) -> None:
    """Run a worker: answer one call after the other until the caller is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the caller, which ends us
    global _answers
    calls, _answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # libraries print, and our answers are not for them
    if memory is not None:
        limit_memory(memory)
    if threads is not None:
        use_cores(threads)
        keep_memory_mapped()  # a photo's scales take 200 MB, which would be fetched anew for each
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(calls, tasks), daemon=True).start()
    if imports:
        with suppress(Exception):  # the call that needs it brings the error back
            importlib.import_module(imports)
    while True:
        task = tasks.get()
        try:
            function, values, options = pickle.loads(task)
            module, _, name = function.partition(":")
            _send(_answers, "result", getattr(importlib.import_module(module), name)(*values, **options))
        except Exception as error:
            _send(_answers, "error", _portable(error))


def _receive(calls: BinaryIO, tasks: queue.SimpleQueue[bytes]) -> None:
    """Read calls, also during one: the pipe closes with the caller, however that ends, and so do we."""
    try:
        while True:
            tasks.put(pickle.load(calls))
    finally:
        os._exit(1)


def _send(answers: BinaryIO, kind: str, value: Any) -> None:
    answers.write(pickle.dumps((kind, value), pickle.HIGHEST_PROTOCOL))
    answers.flush()


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
