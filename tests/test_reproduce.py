"""`hynet paper tables` from end to end on tiny sets that are laid out as the paper's data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from conftest import write_set
from hynet.cli import main
from hynet.errors import DataNotFound
from hynet.paper import runs
from hynet.paper import tables as reproduction
from hynet.paper.tables import PARTS, Reproduction
from hynet.training.recipes import RECIPES
from test_benchmark_endtoend import write_scene
from test_eth import write_strecha
from test_studies import write_stacks

SMALL = "--steps 1 --pairs-per-batch 4 --no-compiled --jobs 1 --json"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("papers-data")
    write_set(root / "liberty", 12, seed=1)
    write_set(root / "notredame", 12, seed=2)
    write_stacks(root / "hpatches-release", patches=4)
    write_strecha(root / "eth" / "fountain")
    write_scene(root / "imc" / "tower", photos=6)
    return root


@pytest.fixture(scope="module")
def made(data, tmp_path_factory):
    """With a tiny part of its work: two methods stand for all, and the margins are not searched."""
    out = tmp_path_factory.mktemp("reproduction")
    few = {"RIVALS": ("hardnet", "hynet"), "SECOND_ORDER": ("hynet", "hynet-sosr"), "STRONGEST": ("hynet",)}
    with pytest.MonkeyPatch.context() as patch:
        for name, recipes in few.items():
            patch.setattr(reproduction, name, recipes)
        patch.setattr("hynet.paper.plans.MARGINS", {})
        assert main(["paper", "tables", "--data", str(data), "--out", str(out), *SMALL.split()]) == 0
        patch.setattr(runs, "train_one", None)  # whoever trains once more fails
        assert main(["paper", "tables", "--data", str(data), "--out", str(out), *SMALL.split()]) == 0
    return out


@pytest.mark.parametrize(("data", "sentence"), [("nowhere", "no folder"), ("empty", "nothing could be reproduced")])
def test_data_that_is_not_there_leaves_no_folder_behind(tmp_path, capsys, data, sentence):
    (tmp_path / "empty").mkdir()
    assert main(f"paper tables --data {tmp_path}/{data} --out {tmp_path}/out".split()) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_what_the_data_allows_is_reproduced_on_one_page(made):
    text = (made / "index.html").read_text()
    for title, _ in PARTS.values():
        assert title.replace("'", "&#x27;") in text
    assert "is not here" not in text


def test_table_2_has_hynet_on_the_keypoints_of_dog_and_of_keynet(made):
    rows = json.loads((made / "table2" / "eth.json").read_text())["rows"]
    assert {"sift", "hynet-liberty", "keynet+hynet-liberty"} <= rows.keys()
    assert "keynet+sift" not in rows
    assert rows["sift"]["registered"] == 4


def test_table_4_has_both_tasks(made):
    told = json.loads((made / "table4" / "imc-both.json").read_text())
    assert {"stereo", "multiview"} <= set(told["columns"])
    assert "hynet-liberty" in told["rows"]


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
    (tmp_path / "liberty").symlink_to(data / "liberty")
    with pytest.raises(DataNotFound, match="which is not there"):
        PARTS[name][1](Reproduction(tmp_path, tmp_path / "out", steps=1))


def test_a_network_that_diverges_is_told_below_the_tables_of_the_others(data, tmp_path, monkeypatch):
    """HardNet's rate of 10 times 1e30 is too much for any network."""
    monkeypatch.setattr(reproduction, "RIVALS", ("hardnet", "hynet"))
    wild = replace(RECIPES["hardnet"], config=replace(RECIPES["hardnet"].config, learning_rate=1e30))
    monkeypatch.setitem(reproduction.RECIPES, "hardnet", wild)
    asked = Reproduction(data, tmp_path, steps=3, pairs_per_batch=4, compiled=False, jobs=1)
    found = PARTS["table1"][1](asked)
    assert {"hynet-*", "sift"} <= found.rows.keys()
    assert "hardnet-*" not in found.rows
    assert any(note.startswith("hardnet-liberty could not be trained: ") for note in found.notes)
    monkeypatch.setattr(reproduction, "RIVALS", ("hardnet",))
    with pytest.raises(reproduction.NotTrained, match="hardnet-liberty could not be trained"):
        PARTS["table1"][1](asked)


@pytest.mark.parametrize(("option", "least"), [("--steps", 1), ("--pairs-per-batch", 2)])
def test_a_length_that_trains_nothing_is_refused(data, tmp_path, capsys, option, least):
    assert main(f"paper tables --data {data} --out {tmp_path}/out {option} 0".split()) == 2
    assert f"{option} must be {least} or more; got 0." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_without_data_is_refused_in_one_sentence(tmp_path, capsys, there):
    folder = tmp_path / "data"
    if there:
        folder.mkdir()
    assert main(["paper", "tables", "--data", str(folder), "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith("hynet: nothing could be reproduced" if there else "hynet: no folder")
