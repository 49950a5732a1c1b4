"""The bill of materials in a card: every scene that was trained on, or a sentence about what is missing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import hynet
from conftest import write_set
from hynet.cli import main
from hynet.training.configuration import TrainConfig
from hynet.training.materials import read_sources

STEPS = TrainConfig(network="tfeat", epochs=None, steps=1, pairs_per_batch=8, compiled=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run on two sets: one with two scenes, of which one gave no patches, and one of others, which tells none."""
    root = tmp_path_factory.mktemp("materials")
    write_set(root / "made", 12, 0)
    scene = {"first_patch": 0, "patches": 48, "photos": 9, "registered": 7}
    empty = {"name": "empty", "first_patch": 48, "patches": 0, "photos": 5, "registered": 0}
    (root / "made" / "scene.json").write_text(json.dumps({"scenes": [{"name": "castle", **scene}, empty]}))
    write_set(root / "liberty", 12, 1)
    hynet.train(STEPS, [root / "made", root / "liberty"], root / "run")
    return root / "run"


def share(run: Path, file: Path, sources: str) -> int:
    table = file.with_name("sources.csv")
    table.write_text(sources)
    return main(f"export --model {run} --to {file} --card --sources {table}".split())


def test_shared_weights_have_the_same_bytes_each_time_and_can_be_read_by_all(run, tmp_path):
    for name in ("one.safetensors", "other.safetensors"):
        assert main(["export", "--model", str(run), "--to", str(tmp_path / name), "--card"]) == 0
    one, other = (tmp_path / name for name in ("one.safetensors", "other.safetensors"))
    assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes()[8:].startswith(b'{"__metadata__":{"format":"pt","recipe":"custom"}')
    assert one.stat().st_mode == one.with_suffix(".md").stat().st_mode  # like any other file's
    with safe_open(one, "pt") as file:
        assert file.metadata() == {"format": "pt", "recipe": "custom"}
    trained = hynet.load(run / "last.pt").state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in hynet.load(one).state_dict().items())


def test_the_card_lists_every_scene_with_its_photos_source_and_licence(run, tmp_path):
    rows = ['castle,"me |\nyou",CC0,yes', "liberty,PhotoTour,none,no", "other,they,MIT,yes"]
    table = "\n".join(["scene,source,licence,commercial", *rows])
    assert share(run, tmp_path / "model.safetensors", table) == 0
    card = (tmp_path / "model.md").read_text()
    assert "## Bill of materials\n\n2 scenes, 96 patches from 7 photos;" in card
    assert "| scene | photos | patches | source | licence | commercial |\n" in card
    assert "| castle | 7 | 48 | me \\| you | CC0 | yes |\n| liberty |  | 48 | PhotoTour | none | no |\n" in card
    assert "other" not in card
    assert "It learnt from" not in card


def test_the_weights_that_a_run_started_from_belong_to_the_bill(run, tmp_path):
    before = hynet.train(replace(STEPS, steps=0), [run.parent / "liberty"], tmp_path / "before").checkpoint
    onwards = replace(STEPS, start_from=str(before))
    hynet.train(onwards, [run.parent / "liberty"], tmp_path / "after")
    assert (
        share(tmp_path / "after", tmp_path / "model.safetensors", "scene,source,licence\nliberty,PhotoTour,none\n") == 0
    )
    assert f"It learnt from `{before}` as well" in (tmp_path / "model.md").read_text()


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("scene,source,licence\ncastle,me,CC0\n", "has no row of liberty"),
        ("scene,source,licence\ncastle,me,CC0\nliberty,PhotoTour\n", "leaves source or licence of liberty empty"),
        ("scene,source\ncastle,me\nliberty,PhotoTour\n", "has no column licence"),
        ("", "has no column scene and no source and no licence"),
    ],
)
def test_a_bill_that_is_not_whole_is_refused_and_nothing_is_written(run, tmp_path, capsys, table, sentence):
    assert share(run, tmp_path / "model.safetensors", table) == 2
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["sources.csv"]


def test_a_set_that_is_gone_is_told(tmp_path, capsys):
    root = write_set(tmp_path / "set", 12, 0)
    hynet.train(STEPS, [root], tmp_path / "run")
    root.rename(tmp_path / "elsewhere")
    assert share(tmp_path / "run", tmp_path / "model.safetensors", "scene,source,licence\nset,me,CC0\n") == 2
    assert "which the model was trained on" in capsys.readouterr().err


def test_our_own_table_of_sources_says_of_every_scene_whether_it_may_be_used_commercially():
    sources = read_sources(Path(__file__).parents[1] / "research" / "sources.csv")
    assert len(sources.rows) == 101
    assert all(
        row["source"] and row["licence"] and row["commercial use"] in ("yes", "no") for row in sources.rows.values()
    )
    restricted = [
        name for name, row in sources.rows.items() if re.search("NC|non-commercial|none|research", row["licence"])
    ]
    assert len(restricted) > 50
    assert all(sources.rows[name]["commercial use"] == "no" for name in restricted)
