"""Tasks in several processes: what they keep when all is stopped."""

from __future__ import annotations

import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from hynet.system.workers import in_processes


def worker(folder: Path):
    return partial(work, folder)


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
