"""What all benchmarks share: models by name, the cache, sanity rows, the report and its pictures."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest

from hynet.benchmarks import BENCHMARKS
from hynet.cli import main
from hynet.errors import BadInput
from hynet.evaluation import results
from hynet.evaluation.contestants import SANITY, Contestant, Random, describe, fingerprint, open_contestants
from hynet.evaluation.results import Bars, Comparison, Curves, Evaluation
from hynet.features.descriptors.loading import load
from hynet.runtime import cache
from hynet.runtime.files import atomic_write
from hynet.types import Table


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    return path


def evaluation(**more):
    lines = {"a/x.pth": {"x": [1, 2], "y": [3, 4]}, "b": {"x": [1, 2], "y": [2, 3]}}
    marks = {"matching": {"a/x.pth": {"easy": 60.0}, "b": {"easy": 30.0}}}
    return Evaluation(
        "made",
        "nowhere",
        ["score", "count"],
        {"a/x.pth": {"score": 51.234, "count": 7.0}, "b": {"score": 20.0, "count": None}},
        {"a/x.pth": {"score": (50.0, 52.5)}},
        title="A title",
        paper=Table("Table 9", ["score"], {"HyNet": {"score": 53.97}}),
        formats={"count": ".0f"},
        comparisons=[Comparison("score", "a/x.pth", "b", 31.234, (30.0, 32.0))],
        pictures={
            "lines": Curves("Lines", "x", "y", lines),
            "bars": Bars("Bars", {"matching": {"a/x.pth": 51.2, "b": 20.0}}, marks),
        },
        notes=["Made up."],
        **more,
    )


def test_the_table_has_the_paper_above_and_intervals_beside():
    text = results.markdown(evaluation())
    lines = text.splitlines()
    assert lines.index(next(line for line in lines if "HyNet (paper)" in line)) < lines.index(
        next(line for line in lines if "| x.pth" in line)
    )
    assert "51.23 [50.00, 52.50] | 7 " in text
    assert "| b " in text
    assert "+31.23 [+30.00, +32.00]" in text
    assert "- Made up." in text


def test_files_hold_everything_and_machines_read_them(tmp_path):
    written = results.write(evaluation(details={"more": [1, 2]}), tmp_path, "hynet evaluate made")
    assert [path.name for path in written] == ["made.json", "made.md", "made-lines.svg", "made-bars.svg"]
    told = json.loads((tmp_path / "made.json").read_text())
    assert told["rows"]["b"]["count"] is None
    assert told["intervals"]["a/x.pth"]["score"] == [50.0, 52.5]
    assert told["paper"]["rows"] == {"HyNet": {"score": 53.97}}
    assert (told["pictures"]["lines"]["kind"], told["pictures"]["bars"]["kind"]) == ("curves", "bars")
    assert told["details"] == {"more": [1, 2]}
    assert {"hynet", "python", "numpy"} <= set(told["versions"])
    assert told["date"].endswith("+00:00")
    lines, bars = (path.read_text() for path in written[2:])
    for text in (lines, bars):
        ElementTree.fromstring(text)  # a picture that other programs read: well formed
        assert not re.search(r"href|url\(|@import", text)
    assert lines.count("<polyline") == 2
    assert bars.count('class="bar"') == 2
    assert all(name in lines for name in ("x.pth", "Lines"))
    assert "easy" in bars
    assert "![made-lines](made-lines.svg)" in (tmp_path / "made.md").read_text()


def test_two_files_of_one_name_are_told_apart():
    assert results.shown(["x/best.pt", "y/best.pt", "z/last.pt", "sift"]) == {
        "x/best.pt": "x/best.pt",
        "y/best.pt": "y/best.pt",
        "z/last.pt": "last.pt",
        "sift": "sift",
    }


def test_a_model_by_its_path_is_shown_by_its_name_whatever_stands_around_it():
    """In `evaluate eth` the rows of single scenes and of both readings stand in one table."""
    path = os.sep.join(["", "models", "net.pth"])
    rows = [
        "sift",
        path,
        f"{path}, mutual only",
        f"castle: {path}",
        f"castle: {path}, mutual only",
        f"dog+{path}",
        f"{path}+{path}",
    ]
    assert list(results.shown(rows).values()) == [
        "sift",
        "net.pth",
        "net.pth, mutual only",
        "castle: net.pth",
        "castle: net.pth, mutual only",
        "dog+net.pth",
        "net.pth+net.pth",
    ]


def test_sanity_descriptors_are_unit_rows_and_know_nothing(patches):
    random, constant = (SANITY[name]().describe(patches) for name in ("random", "constant"))
    for rows in (random, constant):
        assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(len(rows)), abs=1e-5)
    assert (constant == constant[0]).all()
    assert (random == SANITY["random"]().describe(patches[::-1])[::-1]).all()  # a patch keeps its lot
    changed = patches.copy()
    changed[:, 0, 0] ^= 1  # one grey level of one pixel
    similarity = random @ SANITY["random"]().describe(changed).T
    assert abs(similarity).max() < 0.5
    assert abs(similarity.mean()) < 0.02


def test_models_are_entered_once_and_wrong_ones_told_at_once(patches):
    assert [each.name for each in open_contestants(["sift"])] == ["sift", "random", "constant"]
    assert [each.name for each in open_contestants(["random"])] == ["random", "constant"]
    with pytest.raises(BadInput, match="no model 'sifft'"):
        open_contestants(["sifft"])


def test_a_fingerprint_follows_the_weights_and_the_code(tmp_path):
    weights = tmp_path / "w.onnx"
    weights.write_bytes(b"one")
    sift, rootsift = load("sift"), load("rootsift")
    before = fingerprint(str(weights), sift)
    assert before == fingerprint(str(weights), sift)
    others = [fingerprint("sift", sift), fingerprint("rootsift", rootsift), fingerprint(str(weights), Random())]
    weights.write_bytes(b"two")
    assert len({before, fingerprint(str(weights), sift), *others}) == 5


def test_arrays_are_made_once_and_come_back(home):
    made = []

    def make():
        made.append(1)
        return np.arange(6.0).reshape(2, 3)

    for _ in range(2):
        assert (cache.array({"a": 1}, make) == np.arange(6.0).reshape(2, 3)).all()
    assert len(made) == 1
    cache.array({"a": 2}, make)
    assert len(made) == 2
    columns = cache.arrays({"b": 1}, lambda: {"xy": np.ones((3, 2)), "scores": np.zeros(3)})
    assert columns["xy"].shape == (3, 2)
    assert cache.arrays({"b": 1}, dict).keys() == columns.keys()
    assert {path.parent for path in home.rglob("*.np?")} == {cache.folder()}
    for path in cache.folder().glob("*.np?"):
        path.write_bytes(b"")  # what a full disk leaves is made again
    assert (cache.array({"a": 1}, make) == np.arange(6.0).reshape(2, 3)).all()
    assert cache.arrays({"b": 1}, lambda: {"xy": np.ones(2)})["xy"].sum() == 2
    (path,) = cache.folder().glob("*.npz")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255  # the archive opens, its member is broken
    path.write_bytes(content)
    assert cache.arrays({"b": 1}, lambda: {"xy": np.ones(3)})["xy"].sum() == 3


def test_processes_that_share_a_cache_that_is_full_get_what_they_asked_for(monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 1500)  # room for one

    def use(worker):
        for k in range(8):
            number = (k + worker) % 3
            column = np.full(100, number)
            assert (cache.array({"k": number}, column.copy) == number).all()
            assert (cache.arrays({"k": number}, partial(dict, a=column))["a"] == number).all()

    with ThreadPoolExecutor(4) as pool:  # to the cache they are processes: temporary files have names of their own
        list(pool.map(use, range(4)))


def test_what_another_process_is_writing_into_the_cache_is_left_alone(monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 0)
    with atomic_write(cache.folder() / "theirs.npy") as temporary:
        np.save(temporary, np.zeros(100))
        cache.array({"ours": 1}, lambda: np.ones(3))
    assert np.load(cache.folder() / "theirs.npy").shape == (100,)
    abandoned = cache.folder() / ".killed-x.npy"
    abandoned.touch()
    os.utime(abandoned, (0, 0))
    cache.array({"ours": 2}, lambda: np.ones(3))
    assert not abandoned.exists()


def test_the_cache_is_bounded_and_what_was_used_last_stays(monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 2500)
    for k in range(4):
        cache.array({"k": k}, lambda: np.zeros(100))  # some 900 bytes
        for age, path in enumerate(sorted(cache.folder().iterdir(), key=lambda path: path.stat().st_mtime_ns)):
            os.utime(path, ns=(10**9 * age, 10**9 * age))
    made = []
    for k in (3, 2, 0):
        cache.array({"k": k}, lambda k=k: made.append(k) or np.zeros(100))
    assert made == [0]


def test_describing_goes_on_where_it_was_killed():
    class Dies:
        patch_size, dim = 4, 1

        def __init__(self, after):
            self.left = after

        def describe(self, patches):
            self.left -= len(patches)
            if self.left < 0:
                raise KeyboardInterrupt
            return patches.reshape(len(patches), -1)[:, :1].astype(np.float32)

    patches = np.arange(10, dtype=np.uint8)[:, None, None] * np.ones((1, 4, 4), np.uint8)
    with pytest.raises(KeyboardInterrupt):
        describe(Contestant("dies", Dies(7), "f"), patches.__getitem__, 10, {}, block=3)
    found = describe(Contestant("dies", Dies(4), "f"), patches.__getitem__, 10, {}, block=3)  # 4 are left to do
    assert found[:, 0].tolist() == list(range(10))


def test_every_benchmark_has_help_that_shows_its_own_options(capsys):
    for name in BENCHMARKS:
        with pytest.raises(SystemExit) as stop:
            main(["evaluate", name, "--help"])
        assert stop.value.code == 0
        shown = capsys.readouterr().out
        assert "--model" in shown
        assert "--data" in shown
    assert main(["evaluate", "hpatches", "--data", "x", "--nonsense"]) == 2


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["hpaches"],
        ["ubc", "--model", "sift"],
        ["ubc", "--model", "sift", "--data", "no/such/folder"],
        ["hpatches", "--data", "no/such/folder"],
        ["hpatches", "--data", "no/such/folder", "--split", "q"],
        ["hpatches", "--data", "no/such/folder", "--seed", "-1"],
        ["hpatches", "--data", "no/such/folder", "--model", "nobody"],
        ["ubc", "--model", "sift", "--data", ".", "--out", "/proc/nowhere"],
    ],
)
def test_bad_arguments_get_one_sentence(args, capsys):
    assert main(["evaluate", *args]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("hynet: ")
    assert told.err.count("\n") == 1
    assert not told.out
