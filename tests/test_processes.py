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

from hynet import geometry
from hynet.errors import BadInput
from hynet.runtime.processes import EndedEarly, Helper


@pytest.fixture
def somebody_draws():
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


def test_equal_matches_give_equal_inliers_whatever_other_threads_draw(somebody_draws):
    matches = matches_with_few_inliers()
    found = [geometry.fundamental(*matches, 1.0) for _ in range(10)]
    assert len({(F.tobytes(), inliers.tobytes()) for F, inliers in found}) == 1


def test_a_helper_answers_and_raises_as_the_function_does():
    with Helper() as helper:
        assert helper.call("operator:add", 1, 2) == 3
        with pytest.raises(BadInput, match="no thing 'x'; choose a"):
            helper.call("hynet.errors:choose", {"a": 1}, "x", "thing")
        assert helper.call("operator:add", "a", "b") == "ab"  # and is still there


@pytest.mark.parametrize("module", ["colorsys", "no_such_module"])
def test_a_helper_has_imported_what_it_was_told_to_before_the_first_call_and_lives_without_it(module):
    with Helper(imports=module) as helper:
        assert helper.call("builtins:eval", "'colorsys' in __import__('sys').modules") is (module == "colorsys")


def test_a_helper_that_crashes_is_told_and_replaced():
    with Helper() as helper:
        with pytest.raises(EndedEarly, match="SIGSEGV"):
            helper.call("ctypes:string_at", 0)
        assert helper.call("operator:add", 1, 2) == 3


def test_a_helper_that_was_ended_starts_no_other_process():
    helper = Helper()
    helper.end()
    with pytest.raises(EndedEarly, match="stopped"):
        helper.call("operator:add", 1, 2)
    assert helper._process is None


def test_a_helper_keeps_its_limits_of_time_and_memory():
    with Helper(memory=1_000_000_000) as helper:
        with pytest.raises(EndedEarly, match=r"took more than 0\.5 seconds"):
            helper.call("time:sleep", 60, seconds=0.5)
        with pytest.raises(MemoryError):
            helper.call("builtins:bytearray", 2_000_000_000)


def test_a_helper_at_work_ends_with_its_parent():
    program = "from hynet.runtime.processes import Helper; h = Helper(); print(h.call('os:getpid'), flush=True); "
    parent = subprocess.Popen(
        [sys.executable, "-c", program + "h.call('time:sleep', 60)"], stdout=subprocess.PIPE, text=True
    )
    helper = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    while _runs(helper):
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
    with Helper() as helper:
        assert helper.call("operator:add", 1, 2) == 3
