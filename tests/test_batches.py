"""Batches on processes of this machine: what fails is found, and the rest is done."""

from __future__ import annotations

import time
from functools import partial

import pytest

from hynet.errors import BadInput, MissingExtra
from hynet.runtime import batches
from hynet.runtime.batches import Batch, Failed
from hynet.runtime.cluster import open_cluster

SECONDS = 20.0


@pytest.fixture(scope="module")
def cluster():
    with open_cluster("local", workers=2) as here:
        yield here


def results(cluster, items, size=4, seconds=SECONDS):
    """Item -> its square, or why there is none."""
    todo = iter(
        [Batch("poison:squares", None, tuple(items[k : k + size]), seconds) for k in range(0, len(items), size)]
    )
    found = {}
    for batch, value in batches.done(cluster, partial(next, todo, None)):
        found |= (
            {batch.items[0]: value.why} if isinstance(value, Failed) else dict(zip(batch.items, value, strict=True))
        )
    return found


def test_items_that_crash_or_eat_memory_are_found_and_the_rest_is_done(cluster):
    found = results(cluster, [1, 2, "crash", 3, 4, 5, "eat", 6])
    assert "SIGKILL" in found.pop("crash")
    assert "not enough memory" in found.pop("eat")
    assert found == {k: k * k for k in range(1, 7)}


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
    monkeypatch.setattr(batches, "ALL_FAIL", 2)
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
    with pytest.raises((BadInput, MissingExtra), match=sentence), open_cluster(name):
        pass
