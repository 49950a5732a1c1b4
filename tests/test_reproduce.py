"""`hynet reproduce` from end to end on tiny sets that are laid out as the paper's data."""

from __future__ import annotations

import json

import pytest

from conftest import write_set
from hynet.benchmarks.harness.evaluation import Evaluation
from hynet.benchmarks.studies import reproduction, runs
from hynet.benchmarks.studies.reproduction import PARTS, Reproduction
from hynet.cli import main
from hynet.errors import DataNotFound
from hynet.training.recipes import RECIPES
from test_studies import write_stacks

SMALL = "--steps 1 --pairs-per-batch 4 --no-compiled --jobs 1 --json"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("papers-data")
    write_set(root / "liberty", 12, seed=1)
    write_set(root / "notredame", 12, seed=2)
    write_stacks(root / "hpatches-release", patches=4)
    return root


@pytest.fixture(scope="module")
def made(data, tmp_path_factory):
    """With a tiny part of its work: two methods stand for all, and the margins are not searched."""
    out = tmp_path_factory.mktemp("reproduction")
    few = {"RIVALS": ("hardnet", "hynet"), "SECOND_ORDER": ("hynet", "hynet-sosr"), "STRONGEST": ("hynet",)}
    with pytest.MonkeyPatch.context() as patch:
        for name, recipes in few.items():
            patch.setattr(reproduction, name, recipes)
        patch.setattr("hynet.benchmarks.studies.plans.MARGINS", {})
        assert main(["reproduce", "--data", str(data), "--out", str(out), *SMALL.split()]) == 0
        patch.setattr(runs, "_train", None)  # whoever trains once more fails
        assert main(["reproduce", "--data", str(data), "--out", str(out), *SMALL.split()]) == 0
    return out


@pytest.mark.parametrize(("data", "sentence"), [("nowhere", "no folder"), ("empty", "nothing could be reproduced")])
def test_data_that_is_not_there_leaves_no_folder_behind(tmp_path, capsys, data, sentence):
    (tmp_path / "empty").mkdir()
    assert main(f"reproduce --data {tmp_path}/{data} --out {tmp_path}/out".split()) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_what_the_data_allows_is_reproduced_on_one_page(made):
    text = (made / "index.html").read_text()
    for name in ("table1", "fig4", "table3", "table5", "figA"):
        assert PARTS[name][0].replace("'", "&#x27;") in text
    assert "Table 2: ETH&#x27;s structure from motion is not here: it needs the scenes" in text
    assert "Table 4: the Image Matching Challenge is not here" in text


def test_table_1_tests_each_network_on_the_set_it_has_not_seen(made):
    told = json.loads((made / "table1" / "ubc.json").read_text())
    tested = {(cell["method"], cell["test"]) for cell in told["details"]["cells"]}
    assert ("hynet-liberty", "notredame") in tested
    assert ("hynet-notredame", "liberty") in tested
    assert ("hynet-liberty", "liberty") not in tested
    assert {"LIB>ND", "ND>LIB"} <= told["rows"]["hynet-*"].keys()
    assert told["paper"] is None  # these sets are not the paper's, though they are called so


def test_without_a_length_a_recipe_lasts_as_long_as_its_authors_trained_it(data, tmp_path):
    asked = Reproduction(data, tmp_path, pairs_per_batch=4)
    config = reproduction._lasting(asked, RECIPES["hynet"].config, data / "liberty")
    assert config.steps == 200 * (12 * 4 // 8)  # epochs times the batches that 48 patches fill
    assert reproduction._lasting(asked, RECIPES["hardnet"].config, data / "liberty").steps == 10 * 1_250_000


@pytest.mark.parametrize("name", ["table2", "table4"])
def test_nothing_is_trained_for_a_table_whose_scenes_are_missing(data, tmp_path, monkeypatch, name):
    monkeypatch.setattr(runs, "train_all", None)  # whoever trains fails
    with pytest.raises(DataNotFound, match="which is not there"):
        PARTS[name][1](Reproduction(data, tmp_path, steps=1))


def test_a_network_that_diverged_costs_only_the_parts_that_need_it(data, tmp_path, monkeypatch):
    def diverged(asked):
        raise reproduction.NotTrained("tfeat-liberty could not be trained: the loss is nan.")

    parts = {"table1": ("Table 1", diverged), "table5": ("Table 5", lambda asked: Evaluation("ubc", "", [], {}, {}))}
    monkeypatch.setattr(reproduction, "PARTS", parts)
    done = []
    missing = reproduction.reproduce(Reproduction(data, tmp_path), lambda name, evaluation: done.append(name))
    assert done == ["table5"]
    assert missing == {"table1": "Table 1 is not here: tfeat-liberty could not be trained: the loss is nan."}


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_without_data_is_refused_in_one_sentence(tmp_path, capsys, there):
    folder = tmp_path / "data"
    if there:
        folder.mkdir()
    assert main(["reproduce", "--data", str(folder), "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith("hynet: nothing could be reproduced" if there else "hynet: no folder")
