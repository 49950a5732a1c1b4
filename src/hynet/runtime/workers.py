"""Many tasks in several processes, each with its share of the cores."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from typing import Any, TypeVar

import cv2

from ..errors import BadInput
from .machine import cores, few_threads, keep_memory_mapped

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_processes(
    tasks: Mapping[str, Task], prepare: Callable[[], Callable[[Task], Result]], jobs: int, *, grace: float = 0.0
) -> Generator[tuple[str, Result], None, None]:
    """Each task's name and result, as they are done.

    prepare: is called once in each process, to load what takes long, and returns what does the tasks.
    grace: seconds that tasks half done have to keep what they can after SIGTERM, when all is stopped.
    """
    jobs = min(jobs, len(tasks))
    context = get_context("spawn")  # a fork would inherit half of what the other threads were doing
    try:
        shares = context.SimpleQueue()
    except OSError as error:  # /dev/shm is missing or read-only, or there are too few descriptors
        raise BadInput(
            f"cannot start several processes ({error.strerror}); use one, by `--jobs 1` or `taskset -c 0 hynet ...`."
        ) from None
    for share in _shares(jobs):
        shares.put(share)
    with _few_threads(jobs), ProcessPoolExecutor(jobs, context, _start_worker, (prepare, shares)) as pool:
        with _main_left_alone():  # processes start when work is submitted
            names = {pool.submit(_work, task): name for name, task in tasks.items()}
        try:
            for future in as_completed(names):
                yield names[future], future.result()
        except BrokenProcessPool:
            raise BadInput("a process ended early: try fewer jobs if memory is short.") from None
        except BaseException:  # Ctrl-C does not wait for tasks that are half done
            _end(list(pool._processes.values()), grace)
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _end(processes: Sequence[BaseProcess], grace: float) -> None:
    latest = time.monotonic() + grace
    try:
        for process in processes if grace else ():
            process.terminate()
        for process in processes:
            process.join(max(0.0, latest - time.monotonic()))
    finally:  # also when Ctrl-C comes once more
        for process in processes:
            process.kill()


@contextmanager
def _main_left_alone() -> Iterator[None]:
    """A spawned process would run the caller's script once more, which ours have no need of."""
    main = sys.modules["__main__"]
    hidden = {name: value for name, value in vars(main).items() if name in ("__file__", "__spec__")}
    main.__file__ = main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)


def _shares(jobs: int) -> list[list[int]]:
    """The cores dealt out to so many processes; with more processes than cores, some share one."""
    return [cores()[k::jobs] or [cores()[k % len(cores())]] for k in range(jobs)]


@contextmanager
def _few_threads(jobs: int) -> Iterator[None]:
    """For the processes that start in the block."""
    wanted = few_threads(max(1, len(cores()) // jobs))
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})


# --- In a worker ---

_do: Callable[[Any], Any] | None = None  # prepared once, used for all its tasks


def _start_worker(prepare: Callable[[], Callable[[Any], Any]], shares: SimpleQueue[list[int]]) -> None:
    global _do
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    mine = shares.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, mine)  # engines start as many threads as there are cores they may use
    cv2.setNumThreads(len(mine))
    keep_memory_mapped()  # a photo's scales take 200 MB, which would be fetched anew for each
    _do = prepare()


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers, and they would wait for tasks for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(task: Any) -> Any:
    assert _do is not None
    return _do(task)
