"""Batches and tasks in processes of this machine: what fails is found, the rest is done; what is kept on stopping."""

from __future__ import annotations

import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from hynet.errors import BadInput, MissingExtra
from hynet.runtime import pool as pools
from hynet.runtime.pool import Batch, Failed, in_processes, open_pool, run_batches
from hynet.training.stopping import stop_signals

SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster():
    with open_pool("local", workers=2) as here:
        yield here


def results(cluster, items, size=4, seconds=SECONDS):
    """Item -> its square, or why there is none."""
    todo = iter(
        [Batch("poison:squares", None, tuple(items[k : k + size]), seconds) for k in range(0, len(items), size)]
    )
    found = {}
    for batch, value in run_batches(cluster, partial(next, todo, None)):
        found |= (
            {batch.items[0]: value.why} if isinstance(value, Failed) else dict(zip(batch.items, value, strict=True))
        )
    return found


def test_items_that_crash_or_eat_memory_are_found_and_the_rest_is_done(cluster):
    found = results(cluster, [1, 2, "crash", 3, 4, 5, "eat", 6])
    assert "SIGKILL" in found.pop("crash")
    assert "not enough memory" in found.pop("eat")
    assert found == {k: k * k for k in range(1, 7)}


def test_a_pool_whose_run_was_left_early_gives_the_next_run_its_own_results(cluster):
    first = iter([Batch("poison:squares", None, (k,), SECONDS) for k in (10, 11, 12, 13)])
    next(run_batches(cluster, partial(next, first, None)))  # the others are still under way
    assert results(cluster, [1, 2, 3, 4], size=1) == {1: 1, 2: 4, 3: 9, 4: 16}


def test_an_item_that_hangs_is_ended_by_the_watchdog(cluster):
    found = results(cluster, [1, "hang"], size=1, seconds=2.0)
    assert found == {1: 1, "hang": "poison:squares took more than 2 seconds."}


def test_each_item_has_the_watchdogs_time_for_itself_whatever_the_size_of_its_batch(cluster):
    assert results(cluster, ["slow", 1, "slower", 2], size=4, seconds=1.9) == {"slow": 0, 1: 1, "slower": 0, 2: 4}
    began = time.monotonic()
    found = results(cluster, [*range(7), "hang"], size=8, seconds=1.0)
    assert found["hang"] == "poison:squares took more than 1 seconds."
    assert time.monotonic() - began < 12  # five times an item's, not the 16 of batches of 8, 4, 2, 1 and 1


def test_what_the_machine_refuses_stops_the_run_and_blames_no_item(cluster):
    with pytest.raises(BadInput, match=r"cannot write anywhere; make room\."):
        results(cluster, [1, "full", 2])


def test_where_everything_fails_it_is_not_the_items(cluster, monkeypatch):
    monkeypatch.setattr(pools, "ALL_FAIL", 2)
    with pytest.raises(BadInput, match="the first 2 tasks all failed: TypeError"):
        results(cluster, [None, None, None], size=1)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere", "no cluster 'nowhere'; choose local, slurm or dask://HOST:PORT"),
        ("dask://here", "has no port"),
        ("kubernetes", "docs/scale.md"),
        ("slurm", "dask-jobqueue|extra|cluster"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_in_one_sentence(name, sentence):
    with pytest.raises((BadInput, MissingExtra), match=sentence), open_pool(name):
        pass


def work(folder: Path, name: str) -> str:
    """Return the name; the task called `long` lasts until it is asked to end, and then keeps something."""

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
def test_tasks_half_done_keep_what_they_can_only_within_their_grace(tmp_path, grace, kept):
    began = time.monotonic()
    tasks = {"short": (tmp_path, "short"), "long": (tmp_path, "long")}
    done = in_processes("test_pool:work", tasks, 2, grace=grace)
    assert next(done) == ("short", "short")
    done.close()
    assert (tmp_path / "kept").exists() == kept
    assert time.monotonic() - began < 50


def train(folder: Path, seconds: float) -> None:
    """Take steps of so many seconds and keep the last one, as trainings do."""
    with stop_signals() as stopped:
        (folder / f"began-{seconds:g}").touch()
        while not stopped:
            time.sleep(0.01)
        time.sleep(seconds)
        (folder / f"kept-{seconds:g}").touch()


def test_every_training_ends_its_step_when_all_are_stopped(tmp_path):
    def wait_and_stop() -> None:
        while len(list(tmp_path.glob("began-*"))) < 2:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=wait_and_stop, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(in_processes("test_pool:train", {"quick": (tmp_path, 0.2), "slow": (tmp_path, 2.0)}, 2, grace=20.0))
    assert {path.name for path in tmp_path.glob("kept-*")} == {"kept-0.2", "kept-2"}


def test_what_a_task_raises_is_raised_and_a_crash_is_explained(tmp_path):
    with pytest.raises(BadInput, match="no thing 'x'; choose a"):
        list(in_processes("hynet.errors:choose", {"a": ({"a": 1}, "x", "thing")}, 1))
    with pytest.raises(BadInput, match="try fewer jobs if memory is short"):
        list(in_processes("ctypes:string_at", {"a": (0,)}, 1))
