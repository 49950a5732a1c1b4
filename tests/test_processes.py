"""Processes of our own: nothing that runs beside them changes their answers, and they end when we do."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from hynet.errors import BadInput
from hynet.geometry import estimators
from hynet.runtime.processes import EndedEarly, Worker, tell


@pytest.fixture
def random_numbers_drawn_elsewhere():
    """A thread that calls libc's rand() without pause and without Python's lock, as a telemetry thread once did."""
    libc = ctypes.CDLL(None)
    rand = ctypes.cast(libc.rand, ctypes.c_void_p)
    stop = threading.Event()

    def draw() -> None:
        while not stop.is_set():  # lfind compares until it finds: here by rand, which is 0 once in 2^31 times
            libc.lfind(None, None, ctypes.byref(ctypes.c_size_t(1_000_000)), ctypes.c_size_t(0), rand)

    thread = threading.Thread(target=draw)
    thread.start()
    yield
    stop.set()
    thread.join()


def matches_with_few_inliers() -> tuple[np.ndarray, np.ndarray]:
    """(K, 2) twice: noise, with a plane in it."""
    random = np.random.default_rng(0)
    first, second = random.uniform(0, 1000, (2, 300, 2))
    second[:60] = first[:60] * 1.1 + [20, 30] + random.normal(0, 0.7, (60, 2))
    return first, second


def test_equal_matches_give_equal_inliers_whatever_other_threads_draw(random_numbers_drawn_elsewhere):
    matches = matches_with_few_inliers()
    found = [estimators.fundamental(*matches, 1.0) for _ in range(10)]
    assert len({(F.tobytes(), inliers.tobytes()) for F, inliers in found}) == 1


def test_a_worker_answers_and_raises_as_the_function_does():
    with Worker() as worker:
        assert worker.call("operator:add", 1, 2) == 3
        with pytest.raises(BadInput, match="no thing 'x'; choose a"):
            worker.call("hynet.errors:choose", {"a": 1}, "x", "thing")
        assert worker.call("operator:add", "a", "b") == "ab"  # and is still there


@pytest.mark.parametrize("module", ["colorsys", "no_such_module"])
def test_a_worker_imports_its_module_before_the_first_call_and_lives_without_it(module):
    with Worker(imports=module) as worker:
        assert worker.call("builtins:eval", "'colorsys' in __import__('sys').modules") is (module == "colorsys")


def test_a_worker_that_crashes_is_reported_and_replaced():
    with Worker() as worker:
        with pytest.raises(EndedEarly, match="SIGSEGV"):
            worker.call("ctypes:string_at", 0)
        assert worker.call("operator:add", 1, 2) == 3


def report(steps: int) -> str:
    for k in range(steps):
        tell(k)
    return "done"


def test_a_worker_reports_while_it_works_and_whoever_listens_may_stop_it():
    heard = []
    with Worker() as worker:
        assert worker.call("test_processes:report", 3, news=heard.append) == "done"
        with pytest.raises(ZeroDivisionError):
            worker.call("test_processes:report", 3, news=lambda k: 1 / k)
        assert worker.call("operator:add", 1, 2) == 3
    assert heard == [0, 1, 2]


def test_a_worker_says_that_its_result_cannot_be_sent():
    with Worker() as worker, pytest.raises(Exception, match=r"lambda|pickle"):
        worker.call("builtins:eval", "lambda: 0")


def test_a_worker_that_was_ended_starts_no_other_process():
    worker = Worker()
    worker.end()
    with pytest.raises(EndedEarly, match="stopped"):
        worker.call("operator:add", 1, 2)
    assert worker._process is None


def test_a_worker_keeps_its_limits_of_time_and_memory():
    with Worker(memory=1_000_000_000) as worker:
        with pytest.raises(EndedEarly, match=r"took more than 0\.5 seconds"):
            worker.call("time:sleep", 60, seconds=0.5)
        with pytest.raises(MemoryError):
            worker.call("builtins:bytearray", 2_000_000_000)


def test_a_worker_at_work_ends_with_its_parent():
    program = "from hynet.runtime.processes import Worker; h = Worker(); print(h.call('os:getpid'), flush=True); "
    parent = subprocess.Popen(
        [sys.executable, "-c", program + "h.call('time:sleep', 60)"], stdout=subprocess.PIPE, text=True
    )
    worker = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    while _runs(worker):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _runs(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_path_among_the_places_of_imports_does_no_harm(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, Path("..")])
    with Worker() as worker:
        assert worker.call("operator:add", 1, 2) == 3
