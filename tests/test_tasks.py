"""Every task trains, stops and goes on with the same bits, and goes on to a greater length when it has ended."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import pytest
import torch

import hynet
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.training import checkpoints, configuration, keynet, logbook
from hynet.training.configuration import KeynetConfig, RunConfig, TrainConfig
from hynet.training.recipes import ADAPT, JOINT, SHAPE
from hynet.training.tasks import TASKS
from research import training_settings

PAIRS = {"pairs_per_batch": 8}
BRIEF = {"epochs": None, "minutes": None, "steps": 4, "log_every": 1, "schedule": "constant", "warmup": 0.0}
SMALL = TrainConfig(**BRIEF, **PAIRS, compiled=False, average=0.9)
CONFIGS: dict[str, RunConfig] = {
    "descriptor": SMALL,
    "distillation": replace(SMALL, network="lightnet", loss="distilled", teacher="default", distill_fraction=0.5),
    "adapt": replace(ADAPT, **BRIEF, **PAIRS, start_from="default", compiled=False),
    "shape": replace(SHAPE, **BRIEF, **PAIRS),
    "joint": replace(JOINT, **BRIEF, **PAIRS, descriptor="light", compiled=False),
    "keynet": KeynetConfig(**BRIEF),
}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Training data of each task by name: pairs of patches, or photos for Key.Net."""
    monkeypatch.setattr(keynet, "CROP", 96)
    monkeypatch.setattr(keynet, "PAIRS", 1)
    photos = [tmp_path / f"{k}.png" for k in range(2)]
    for k, path in enumerate(photos):
        cv2.imwrite(str(path), synthetic.texture((300, 200), k))
    pairs = {"a": synthetic.patch_set(40, 4, seed=1)}
    return {name: {"photos": photos} if name == "keynet" else pairs for name in TASKS}


def assert_same_weights(first: Path, second: Path) -> None:
    one, other = (checkpoints.read(run / "last.pt") for run in (first, second))
    for part in ("network", "trained"):
        assert (one[part] is None) == (other[part] is None)
        assert all(torch.equal(value, other[part][name]) for name, value in (one[part] or {}).items())


def stop_at_two(line: Mapping[str, Any]) -> None:
    if line["step"] == 2 and "loss" in line:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_trains_is_stopped_and_goes_on_with_the_same_bits(name, data, tmp_path):
    config = CONFIGS[name]
    assert config.task == name
    whole = hynet.train(config, data[name], tmp_path / "whole")
    cut = tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt) as caught:
        hynet.train(config, data[name], cut, watch=stop_at_two)
    assert caught.value.__notes__ == [f"2 steps are kept in {cut}"]
    with pytest.raises(BadInput, match="already holds a run"):
        hynet.train(config, data[name], cut)
    assert hynet.train(config, data[name], cut, resume=True).steps == whole.steps == 4
    assert_same_weights(tmp_path / "whole", cut)
    logs = [[(line["step"], line["loss"]) for line in logbook.read(run)] for run in (tmp_path / "whole", cut)]
    assert logs[0] == logs[1]
    assert [step for step, _ in logs[0]] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", TASKS)
def test_a_finished_run_of_every_task_goes_on_to_a_greater_length(name, data, tmp_path):
    config = CONFIGS[name]
    if name == "distillation":  # whose teacher leaves at a share of the run
        config = replace(config, distill_fraction=1.0)
    longer = replace(config, steps=6)
    hynet.train(config, data[name], tmp_path / "longer")
    hynet.train(longer, data[name], tmp_path / "longer", resume=True)
    hynet.train(longer, data[name], tmp_path / "at once")
    assert_same_weights(tmp_path / "longer", tmp_path / "at once")


@pytest.mark.parametrize("name", TASKS)
def test_other_settings_of_a_task_are_refused_when_it_goes_on(name, data, tmp_path):
    config = replace(CONFIGS[name], steps=1)
    hynet.train(config, data[name], tmp_path / "run")
    changes = {"steps": 2, "validate_minutes": 7.0, "checkpoint_minutes": 7.0, "log_every": 3}
    hynet.train(replace(config, **changes), data[name], tmp_path / "run", resume=True)
    with pytest.raises(BadInput, match=r"seed was 0, now 1.*may change epochs, steps, minutes"):
        hynet.train(replace(config, seed=1), data[name], tmp_path / "run", resume=True)


def test_the_document_has_all_settings_and_those_that_may_change():
    document = (Path(__file__).parents[1] / "docs/training.md").read_text(encoding="utf-8")
    assert training_settings.table() in document
    [line] = [line for line in document.splitlines() if line.startswith("| may change |")]
    assert line.split("`")[1].split() == list(configuration.FREE_TO_CHANGE)
