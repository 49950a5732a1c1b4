"""Every bench runs, compares like with like, and names its peer first. How fast anything is, is not tested."""

from __future__ import annotations

import importlib
import json
import math
import time
from typing import Any

import pytest

from bench import BENCHES, Measurement
from bench.__main__ import main
from hynet.runtime.machine import cores

# bench -> sizes at which it takes about a second
SMALL: dict[str, dict[str, Any]] = {
    "start": {"peer": "numpy", "options": ("--max-keypoints", "50"), "longest_side": 240, "rounds": 1},
    "describe": {"count": 8, "rounds": 1},
    "photo": {"count": 1, "max_keypoints": 60, "longest_side": 240, "rounds": 1},
    "cut": {"count": 20, "rounds": 1},
    "shape": {"count": 20, "rounds": 1},
    "match": {"count": 200, "rounds": 1},
    "reconstruct": {"count": 4, "max_keypoints": 400, "longest_side": 320, "models": ["default"]},
    "train": {"count": 8, "rounds": 1, "compiled": False},
    "data": {"count": 2000, "pairs_per_batch": 16, "rounds": 1},
    "evaluate": {"sizes": (30, 25, 20), "pair_count": 200, "query_count": 6, "rounds": 1},
    "loss": {"count": 64, "rounds": 1},
}


def measure(bench: str) -> list[Measurement]:
    return importlib.import_module(f"bench.{bench}").measure(**SMALL[bench])


@pytest.mark.parametrize("bench", BENCHES)
def test_every_bench_runs_and_names_its_peer_first(bench):
    for extra in {
        "describe": ["torch", "kornia"],
        "cut": ["torch", "kornia"],
        "reconstruct": ["pycolmap"],
    }.get(bench, []):
        pytest.importorskip(extra)
    rows = measure(bench)
    assert rows[0].ratio(rows[0]) == 1.0
    assert any(row.ratio(rows[0]) is not None for row in rows[1:])
    assert len({row.name for row in rows}) == len(rows)
    assert all(math.isfinite(row.value) and row.value >= 0 for row in rows)
    found = {row.name: row.value for row in rows}
    if bench == "match":
        assert found["matches in common"] == 100
    if bench == "evaluate":
        assert found["largest difference of any score"] < 1e-9
    if bench == "reconstruct":
        assert found["hynet, default: registered"] == found["pycolmap's SIFT: registered"] == SMALL[bench]["count"]


def test_what_mapping_tells_on_its_way_does_not_begin_the_matches_again():
    pytest.importorskip("pycolmap")
    from bench.reconstruct import StageClock

    clock = StageClock()
    clock.watch(1, 2, "matching")
    time.sleep(0.1)
    clock.watch(0, 4, "mapping")
    for photo in range(4):
        clock.watch(photo, 4, "mapping")
    time.sleep(0.1)
    clock.stop("mapping")
    assert min(clock.seconds["matches"], clock.seconds["mapping"]) >= 0.09


def test_a_bench_that_compares_different_things_refuses(monkeypatch):
    losses = pytest.importorskip("hynet.losses")
    honest = losses.hynet
    monkeypatch.setattr(losses, "hynet", lambda a, p: honest(a, p, margin=0.5))
    with pytest.raises(AssertionError, match="disagree"):
        measure("loss")


def test_the_command_prints_ratios_against_the_first_row(monkeypatch, capsys):
    rows = [Measurement("peer", 8.0, "ms"), Measurement("ours", 2.0, "ms"), Measurement("share", 50.0, "%")]
    monkeypatch.setattr("bench.loss.measure", lambda: rows)
    monkeypatch.setattr("sys.argv", ["bench", "loss", "--json"])
    main()
    told = json.loads(capsys.readouterr().out)
    assert told["bench"] == "loss"
    assert f"{len(cores())} cores" in told["machine"]
    assert [row["ratio"] for row in told["rows"]] == [1.0, 4.0, None]
