"""FPR@95 on PhotoTour sets made small, known answers, and which cell of the paper's table a model fills."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hynet import datasets
from hynet.benchmarks import BENCHMARKS
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.datasets import ubc as sets
from hynet.errors import BadInput, DataNotFound
from hynet.evaluation import papers, ubc
from hynet.evaluation.contestants import Contestant
from hynet.metrics import fpr95
from hynet.types import PatchPairs


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def make(root, seed):
    """60 points, two patches each; 60 matching pairs and 60 others."""
    patches = synthetic.patch_set(points=60, patches_per_point=2, seed=seed)
    order = np.argsort(patches.points, kind="stable").reshape(60, 2)
    first = np.concatenate([order[:, 0], order[:, 0]])
    second = np.concatenate([order[:, 1], np.roll(order[:, 1], 1)])
    pairs = PatchPairs(first, second, np.arange(120) < 60)
    count = len(patches)
    sets.write(root, patches, xy=np.zeros((count, 2)), angle=np.zeros(count), log2_scale=np.zeros(count), pairs=[pairs])
    return root


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    root = tmp_path_factory.mktemp("scenes")
    for seed, name in enumerate(("liberty", "notredame", "yosemite")):
        make(root / name, seed)
    return root


class Mean:
    """A poor descriptor, but one that can be followed by hand: the grey of four quarters."""

    patch_size, dim = 32, 4

    def describe(self, patches):
        return patches.reshape(len(patches), 2, 16, 2, 16).mean((2, 4)).reshape(-1, 4).astype(np.float32)


def test_one_set_is_scored_as_by_hand_and_sanity_rows_know_nothing(scenes):
    evaluation = BENCHMARKS["ubc"]([Contestant("mean", Mean())], scenes / "liberty")
    pairs = sets.test_pairs(scenes / "liberty", 120)
    vectors = Mean().describe(np.asarray(sets.load(scenes / "liberty", 32).patches))
    distances = np.linalg.norm(vectors[pairs.first] - vectors[pairs.second], axis=1)
    assert evaluation.rows["mean"]["fpr95"] == pytest.approx(100 * fpr95(distances, pairs.is_match))
    assert evaluation.rows["constant"]["fpr95"] == 100
    assert evaluation.rows["random"]["fpr95"] > 80
    for method, row in evaluation.rows.items():
        low, high = evaluation.intervals[method]["fpr95"]
        assert low <= row["fpr95"] <= high


def test_the_command_writes_what_it_prints(scenes, capsys, tmp_path):
    args = ["evaluate", "ubc", "--model", "sift,rootsift", "--data", str(scenes / "yosemite")]
    assert main([*args, "--out", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"benchmark", "data", "columns", "rows", "intervals"}
    assert list(told["rows"]) == ["sift", "rootsift", "random", "constant"]
    assert told["columns"][0] == "fpr95"
    written = json.loads((tmp_path / "ubc.json").read_text())
    assert {key: written[key] for key in told} == told
    assert written["command"].startswith("hynet evaluate ubc --model sift,rootsift --data ")
    assert written["versions"]["numpy"] == np.__version__
    text = (tmp_path / "ubc.md").read_text()
    assert "HyNet (paper)" not in text  # other data
    assert "HyNet 0.84" in text
    assert "sift - rootsift" in text
    assert "![ubc-roc-yosemite](ubc-roc-yosemite.svg)" in text
    assert (tmp_path / "ubc-roc-yosemite.svg").read_text().startswith("<svg")


def test_models_fill_the_columns_that_their_training_allows(scenes):
    names = ["nets/HyNet_LIB.pth", "nets/HyNet_ND.pth", "mine"]
    evaluation = BENCHMARKS["ubc"]([Contestant(name, Mean()) for name in names], scenes)
    rows = evaluation.rows
    combinations = {"ND>LIB", "YOS>LIB", "LIB>ND", "YOS>ND", "LIB>YOS", "ND>YOS"}
    assert set(rows["nets/HyNet_LIB.pth"]) & combinations == {"LIB>ND", "LIB>YOS"}
    assert set(rows["nets/HyNet_ND.pth"]) & combinations == {"ND>LIB", "ND>YOS"}
    assert set(rows["mine"]) & combinations == combinations
    assert list(rows) == [*names, "random", "constant", "nets/HyNet_*.pth"]  # as given, then what they make together
    family = rows["nets/HyNet_*.pth"]
    assert set(family) & combinations == {"LIB>ND", "LIB>YOS", "ND>LIB", "ND>YOS"}
    assert family["fpr95"] == pytest.approx(np.mean([family[c] for c in set(family) & combinations]))
    assert evaluation.paper is None


def test_the_paper_stands_beside_the_published_sets_only(scenes, monkeypatch):
    monkeypatch.setattr(papers, "UBC_PATCHES", {"liberty": 120, "notredame": 120, "yosemite": 120})
    monkeypatch.setattr(datasets, "PAIRS", 120)
    evaluation = BENCHMARKS["ubc"]([Contestant("mine", Mean())], scenes)
    assert evaluation.paper is not None
    assert evaluation.paper.rows["HyNet"]["ND>LIB"] == 0.89
    monkeypatch.setattr(papers, "UBC_PATCHES", {"liberty": 120, "notredame": 120, "yosemite": 121})
    assert BENCHMARKS["ubc"]([Contestant("mine", Mean())], scenes).paper is None


def test_models_are_compared_on_the_same_pairs(scenes):
    evaluation = BENCHMARKS["ubc"]([Contestant("mean", Mean()), "sift", "rootsift", "daisy"], scenes)
    rows = evaluation.rows
    assert [(one.method, one.rival) for one in evaluation.comparisons] == [
        ("mean", "rootsift"),
        ("sift", "rootsift"),
        ("daisy", "rootsift"),
    ]
    for one in evaluation.comparisons:
        assert one.difference == pytest.approx(rows[one.method]["fpr95"] - rows["rootsift"]["fpr95"])
        low, high = one.interval
        assert low <= one.difference <= high
    with pytest.raises(BadInput, match="compared with 'daisy'"):
        BENCHMARKS["ubc"](["sift"], scenes / "liberty", against="daisy")


def test_a_model_compared_with_its_double_differs_by_nothing(scenes):
    twins = [Contestant("one", Mean()), Contestant("other", Mean())]
    (same,) = BENCHMARKS["ubc"](twins, scenes / "liberty", against="one").comparisons
    assert (same.difference, same.interval) == (0, (0, 0))


def test_a_model_that_is_tested_on_its_training_set_is_told(scenes):
    evaluation = BENCHMARKS["ubc"]([Contestant("net-liberty.pth", Mean())], scenes / "liberty")
    assert any(note.endswith("tested on: net-liberty.pth.") for note in evaluation.notes)
    assert set(evaluation.rows["net-liberty.pth"]) == {"fpr95", "fpr95_hynet", "fpr95_hardnet"}


def test_sets_of_other_names_get_a_column_each(tmp_path):
    for seed, name in enumerate(("here", "there")):
        make(tmp_path / name, seed)
    evaluation = BENCHMARKS["ubc"]([Contestant("mean", Mean())], tmp_path)
    row = evaluation.rows["mean"]
    assert row["fpr95"] == pytest.approx((row["here"] + row["there"]) / 2)
    assert any("not comparable" in note for note in evaluation.notes)


@pytest.mark.parametrize(
    ("name", "scene"),
    [
        ("hynet-liberty.pth", ("liberty",)),
        ("/w/HyNet_YOS.pth", ("yosemite",)),
        ("HN_nd.pt", ("notredame",)),
        ("both-lib-nd.pt", ("liberty", "notredame")),
        ("default", ()),
        ("end.pth", ()),
    ],
)
def test_the_training_scene_is_read_from_the_name(name, scene):
    assert ubc.trained_on(name) == scene


def test_a_checkpoint_of_a_run_is_known_by_what_the_run_says_of_its_data(scenes, tmp_path):
    names = []
    for scene in ("liberty", "yosemite"):
        (tmp_path / f"run-{scene}").mkdir()
        (tmp_path / f"run-{scene}/run.json").write_text(json.dumps({"data": {f"sets/{scene}": {}}}))
        names.append(str(tmp_path / f"run-{scene}/best.pt"))
        Path(names[-1]).touch()
    rows = BENCHMARKS["ubc"]([Contestant(name, Mean()) for name in names], scenes).rows
    assert {"LIB>ND", "LIB>YOS", "YOS>LIB", "YOS>ND"} < set(rows[str(tmp_path / "run-*/best.pt")])
    assert "LIB>YOS" not in rows[names[1]]


def test_what_is_no_file_is_not_taken_for_the_run_in_whose_folder_we_stand(tmp_path, monkeypatch):
    (tmp_path / "run.json").write_text(json.dumps({"data": {"sets/liberty": {}}}))
    monkeypatch.chdir(tmp_path)
    assert ubc.trained_on("sift") == ()


def test_sets_are_drawn_again_independently_of_each_other(tmp_path):
    for name in ("here", "there"):
        make(tmp_path / name, 0)  # the same pairs twice: their mean is known better than either
    intervals = BENCHMARKS["ubc"]([Contestant("mean", Mean())], tmp_path).intervals["mean"]
    widths = {column: high - low for column, (low, high) in intervals.items()}
    assert 0 < widths["fpr95"] < 0.85 * widths["here"]


def test_a_model_trained_on_every_set_there_is_still_gets_a_row(tmp_path):
    for seed, name in enumerate(("liberty", "yosemite")):
        make(tmp_path / name, seed)
    evaluation = BENCHMARKS["ubc"]([Contestant("both-lib-yos.pth", Mean())], tmp_path)
    assert set(evaluation.rows["both-lib-yos.pth"]) == {"fpr95", "fpr95_hynet", "fpr95_hardnet"}
    assert any(note.endswith("tested on: both-lib-yos.pth.") for note in evaluation.notes)


def test_one_model_alone_is_tested_on_the_sets_that_it_has_not_seen(scenes):
    rows = BENCHMARKS["ubc"]([Contestant("net-liberty.pth", Mean())], scenes).rows
    assert "LIB>ND" in rows["net-liberty.pth"]


def test_missing_sets_and_pairs_are_told(tmp_path, scenes):
    with pytest.raises(DataNotFound, match="no PhotoTour set"):
        BENCHMARKS["ubc"](["sift"], tmp_path)
    with pytest.raises(DataNotFound, match="pair files there: 120"):
        BENCHMARKS["ubc"](["sift"], scenes / "liberty", pair_list=100)
    with pytest.raises(BadInput, match="named twice"):
        BENCHMARKS["ubc"](["sift", "sift"], scenes / "liberty")
