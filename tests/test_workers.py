"""Tasks in several processes: what they keep when all is stopped."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from hynet.runtime.workers import _end, in_processes
from hynet.training.stopping import stop_signals


def worker(folder: Path):
    return partial(work, folder)


def busy(folder: Path):
    return partial(train, folder)


def train(folder: Path, seconds: float) -> None:
    """Steps of so many seconds, whose end is kept, as trainings do."""
    with stop_signals() as stopped:
        (folder / f"began-{seconds:g}").touch()
        while not stopped:
            time.sleep(0.01)
        time.sleep(seconds)
        (folder / f"kept-{seconds:g}").touch()


def work(folder: Path, name: str) -> str:
    """The task called `long` lasts until it is asked to end, and then keeps something."""

    def keep(number, frame) -> None:
        (folder / "kept").touch()
        sys.exit()

    if name == "long":
        signal.signal(signal.SIGTERM, keep)
        (folder / "began").touch()
        time.sleep(60)
    while not (folder / "began").exists():
        time.sleep(0.01)
    return name


@pytest.mark.parametrize(("grace", "kept"), [(20.0, True), (0.0, False)])
def test_tasks_half_done_keep_what_they_can_where_there_is_grace(tmp_path, grace, kept):
    tasks = {"short": "short", "long": "long"}
    began = time.monotonic()
    done = in_processes(tasks, partial(worker, tmp_path), 2, grace=grace)
    assert next(done)[0] == "short"
    done.close()
    assert (tmp_path / "kept").exists() == kept
    assert time.monotonic() - began < 50


def test_every_process_of_several_ends_its_step(tmp_path):
    """The first that ends makes the pool signal the others once more."""
    tasks = {"quick": 0.2, "slow": 2.0}
    done = in_processes(tasks, partial(busy, tmp_path), 2, grace=20.0)
    waiting = threading.Thread(target=lambda: next(done, None), daemon=True)
    waiting.start()
    while len(list(tmp_path.glob("began-*"))) < 2:
        time.sleep(0.01)
    ended = [process for process in multiprocessing.active_children() if process.is_alive()]
    _end(ended, 20.0)
    assert {path.name for path in tmp_path.glob("kept-*")} == {"kept-0.2", "kept-2"}
