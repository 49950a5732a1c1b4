"""The one pool of processes: batches of work on this machine, or on the workers of a Dask cluster (`dask_pool`).

    with open_pool("local", workers=4) as pool:
        for batch, result in run_batches(pool, source):     # source() -> the next Batch, or None: none just now
            ...

A batch is done in a process that can crash, hang or run out of memory without harm to the rest, and that keeps what it
has loaded for the next batch. What makes a batch fail is found by halving it. By default a process computes with one
thread, so that results are the same bytes on one core or a thousand.
"""

from __future__ import annotations

import importlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from subprocess import TimeoutExpired
from typing import Any, Literal, Protocol

from ..errors import BadInput, HynetError, plural
from .machine import cores, memory
from .processes import EndedEarly, Worker

STARTING = 300.0  # seconds that a process may take to start
SCHEMES = ("dask://", "tcp://", "tls://")
TRIES = 2  # of an item alone: its worker may have been killed from outside
REFUSALS = 100  # by workers, before we think that it is all of them
ALL_FAIL = 8  # items that failed with nothing done: then it is not the items
_TICKETS = count()  # never the same twice, so that no outcome is taken for that of another batch


@dataclass(frozen=True)
class Batch:
    """`function(context, items)`, called in a process somewhere; the function is named "module:function"."""

    function: str
    context: Any
    items: tuple[Any, ...]
    seconds: float | None  # that each item may take; the function goes through them by `processes.one_by_one`
    tries: int = 0
    failed_before: bool = False  # in an earlier run: that it does again says nothing about the pool

    def halves(self) -> list[Batch]:
        middle = len(self.items) // 2
        return [replace(self, items=half, tries=0) for half in (self.items[:middle], self.items[middle:])]


@dataclass(frozen=True)
class Failed:
    """One item cannot be done: it crashes, hangs, or takes more memory than there is."""

    why: str


@dataclass(frozen=True)
class Outcome:
    """End of a batch. Lost with its worker: to be retried. Refused: this worker cannot do it, another one may."""

    how: Literal["done", "failed", "refused", "lost"]
    value: Any = None  # what the function returned
    why: str = ""
    where: str = ""  # the worker that refused


class Pool(Protocol):
    """An engine: batches go in under tickets, outcomes come back in any order."""

    dashboard: str | None  # a web page of what it does

    def slots(self) -> int:
        """Number of batches done at once."""
        ...

    def submit(self, ticket: Hashable, function: str, *values: Any, seconds: float | None) -> None: ...

    def next(self) -> tuple[Any, Outcome]:
        """Wait for one outcome, and return its ticket with it."""
        ...

    def avoid(self, where: str, why: str) -> None:
        """Give no more to that worker, or raise BadInput where there is no other."""
        ...


@contextmanager
def open_pool(name: str = "local", workers: int = 0, *, threads: int = 1) -> Iterator[Pool]:
    """Open the pool of that name: local, slurm, or the address of a Dask scheduler, dask://HOST:PORT.

    workers: processes of this machine, or jobs of Slurm; 0 means one a core, and one job.
    threads: that compute in each process of this machine.
    """
    if workers < 0:
        raise BadInput(f"the jobs must be at least 1, or 0 for one per core, got {workers}.")
    if name == "local":
        with LocalPool(workers or len(cores()), threads) as here:
            yield here
        return
    if name == "kubernetes":
        raise BadInput("start Dask's scheduler on Kubernetes, as docs/scale.md says, and give --cluster its address.")
    if name != "slurm" and not name.startswith(SCHEMES):
        raise BadInput(f"no cluster {name!r}; choose local, slurm or dask://HOST:PORT.")
    from .dask_pool import open_dask_pool

    with open_dask_pool(name, workers) as there:
        yield there


def run_batches(pool: Pool, source: Callable[[], Batch | None]) -> Iterator[tuple[Batch, Any]]:
    """Yield each batch with what it returned, in the order in which they finish; or one item with `Failed`.

    Twice as many are under way as can be done at once, so that nobody waits and memory stays bounded.
    """
    again: deque[Batch] = deque()
    under_way: dict[int, Batch] = {}
    refusals = failures = successes = 0
    while True:
        while len(under_way) < 2 * pool.slots():
            batch = again.popleft() if again else source()
            if batch is None:
                break
            ticket = next(_TICKETS)
            pool.submit(ticket, batch.function, batch.context, batch.items, seconds=batch.seconds)
            under_way[ticket] = batch
        if not under_way:
            return
        ticket, outcome = pool.next()
        if ticket not in under_way:  # of an earlier run with this pool, which ended before its batches
            continue
        batch = under_way.pop(ticket)
        if outcome.how == "done":
            successes += 1
            yield batch, outcome.value
        elif outcome.how == "lost":
            again.append(batch)
        elif outcome.how == "refused":
            refusals += 1
            pool.avoid(outcome.where, outcome.why)
            if refusals > REFUSALS:
                raise BadInput(f"{plural(refusals, 'batch')} were refused, the last one since: {outcome.why}")
            again.append(batch)
        elif len(batch.items) > 1:
            again.extendleft(reversed(batch.halves()))
        elif batch.tries + 1 < TRIES:
            again.append(replace(batch, tries=batch.tries + 1))
        else:
            failures += not batch.failed_before
            if failures >= ALL_FAIL and not successes:
                tasks = plural(failures, "task")
                raise BadInput(f"nothing can be done, the first {tasks} all failed: {outcome.why}")
            yield batch, Failed(outcome.why)


def in_processes(
    function: str, tasks: Mapping[str, tuple[Any, ...]], jobs: int, *, grace: float = 0.0
) -> Generator[tuple[str, Any], None, None]:
    """Yield each task's name and result as they finish; whatever one raises is raised here and stops all.

    function: "module:function", called in processes that share the cores; tasks: name -> its arguments.
    grace: seconds that tasks half done have to keep what they can after SIGTERM, when all is stopped.
    """
    workers = Workers(max(1, len(cores()) // jobs))
    with ThreadPoolExecutor(min(jobs, len(tasks))) as threads:
        try:
            names = {threads.submit(workers.call, function, *values): name for name, values in tasks.items()}
            for future in as_completed(names):
                yield names[future], future.result()
        except EndedEarly:
            raise BadInput("a process ended early: try fewer jobs if memory is short.") from None
        finally:  # Ctrl-C does not wait for tasks that are half done
            threads.shutdown(wait=False, cancel_futures=True)
            workers.end(grace)


class Workers:
    """One process for each thread that asks."""

    def __init__(self, threads: int = 1) -> None:
        """threads: that compute in each process."""
        self._threads = threads
        self._mine = threading.local()
        self._all: list[Worker] = []
        self._over = False

    def mine(self, most_memory: int | None = None) -> Worker:
        worker = getattr(self._mine, "worker", None)
        if worker is None:
            worker = self._mine.worker = Worker(most_memory, self._threads)
            self._all.append(worker)
        if self._over:
            worker.end()
        return worker

    def call(self, function: str, *values: Any) -> Any:
        """Call "module:function" in the process of this thread, without limits."""
        return self.mine().call(function, *values)

    def attempt(self, function: str, values: tuple[Any, ...], seconds: float | None, most_memory: int) -> Outcome:
        """Call "module:function" in the process of this thread, within limits, and say how it went."""
        worker = self.mine(most_memory)
        try:
            worker.call("time:time", seconds=STARTING)  # on a busy machine a new process is not there at once
            return Outcome("done", worker.call(function, *values, seconds=seconds))
        except EndedEarly as error:
            return Outcome("failed", why=str(error))
        except (HynetError, OSError, ImportError) as error:  # a full disk, other weights than ours, a missing package
            return Outcome("refused", why=str(error) or type(error).__name__)
        except MemoryError:
            worker.close()  # what it holds may be what is missing
            return Outcome("failed", why=f"there is not enough memory (of {most_memory / 1e9:.1f} GB).")
        except Exception as error:
            return Outcome("failed", why=f"{type(error).__name__}: {error}")

    def close_idle(self) -> None:
        """End those that nobody is using; a later batch starts another."""
        for worker in list(self._all):
            worker.close_if_idle()

    def end(self, grace: float = 0.0) -> None:
        """End all of them for good, whatever they do; SIGTERM comes so many seconds before."""
        self._over = True
        latest = time.monotonic() + grace
        try:
            for process in [worker.ask_to_end() for worker in list(self._all)] if grace else ():
                if process is not None:
                    with suppress(TimeoutExpired):
                        process.wait(max(0.0, latest - time.monotonic()))
        finally:  # also when Ctrl-C comes once more
            for worker in list(self._all):
                worker.end()


class InProcess:
    """This process as a pool: one batch at a time, without limits; what fails raises."""

    def __init__(self) -> None:
        self.dashboard: str | None = None
        self._waiting: deque[tuple[Hashable, str, tuple[Any, ...]]] = deque()

    def slots(self) -> int:
        return 1

    def submit(self, ticket: Hashable, function: str, *values: Any, seconds: float | None) -> None:
        self._waiting.append((ticket, function, values))

    def next(self) -> tuple[Any, Outcome]:
        ticket, function, values = self._waiting.popleft()
        module, _, name = function.partition(":")
        return ticket, Outcome("done", getattr(importlib.import_module(module), name)(*values))

    def avoid(self, where: str, why: str) -> None:
        raise BadInput(why)


class LocalPool:
    """Processes of this machine, one a thread that waits for it."""

    def __init__(self, workers: int, threads: int = 1) -> None:
        self.dashboard: str | None = None
        self._count = workers
        self._workers = Workers(threads)
        self._threads = ThreadPoolExecutor(workers)
        self._done: queue.SimpleQueue[tuple[Any, Outcome]] = queue.SimpleQueue()

    def slots(self) -> int:
        return self._count

    def submit(self, ticket: Hashable, function: str, *values: Any, seconds: float | None) -> None:
        def work() -> None:
            self._done.put((ticket, self._workers.attempt(function, values, seconds, memory() // self._count)))

        self._threads.submit(work)

    def next(self) -> tuple[Any, Outcome]:
        return self._done.get()

    def avoid(self, where: str, why: str) -> None:
        raise BadInput(why)

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *raised: object) -> None:
        """End at once; what is half done is lost."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._workers.end()
