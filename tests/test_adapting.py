"""A model fine-tuned on one's own photos is kept only if it is better."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conftest import write_set
from hynet.cli import main
from hynet.errors import BadInput
from hynet.patchsets.kept_apart import in_two, link
from hynet.training import adapting
from hynet.training.adapting import adapt
from hynet.training.recipes import ADAPT


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sets")
    return write_set(folder / "learn", 600, 0), write_set(folder / "kept", 600, 1)


def untrained(folder: Path) -> Path:
    from hynet.features.descriptors.hynet import HyNet

    torch.manual_seed(0)
    torch.save(HyNet().state_dict(), folder / "untrained.pth")
    return folder / "untrained.pth"


def test_a_model_that_knows_nothing_becomes_better(sets, tmp_path, monkeypatch):
    monkeypatch.setattr(adapting, "ADAPT", replace(ADAPT, pairs_per_batch=32))
    found = adapt(*sets, tmp_path / "run", minutes=0.04, model=str(untrained(tmp_path)), compiled=False)
    before, after, (low, high) = (found.details[name] for name in ("before", "after", "difference"))
    assert found.details["better"]
    assert after < before
    assert low <= after - before <= high


def test_a_model_that_has_not_changed_is_as_good_as_before_to_the_last_digit(sets, tmp_path):
    """`default` is used in 8-bit integers, but what it becomes is in floats: like is compared with like."""
    found = adapt(*sets, tmp_path / "run", minutes=0, model="default", compiled=False)
    assert found.steps == 0
    assert found.details["after"] == found.details["before"] > 0
    assert found.details["difference"] == [0, 0]
    assert not found.details["better"]


def test_too_few_pairs_to_measure_on_are_told(sets, tmp_path):
    few = write_set(tmp_path / "few", 20, 2)
    with pytest.raises(BadInput, match="matching pairs"):
        adapt(sets[0], few, tmp_path / "run", minutes=0.01)


def test_the_last_quarter_of_the_photos_is_kept_apart(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(32):
        (photos / f"{number:02d}.png").write_bytes(bytes([number]))
    for work in (tmp_path / "work", photos / "work", photos / "work"):  # among the photos, and once more
        for name, part in zip(("learn", "kept-apart"), in_two(photos, work), strict=True):
            link(part, work / name)
        folders = work / "learn", work / "kept-apart"
        seen = [[each.read_bytes()[0] for each in sorted(folder.iterdir())] for folder in folders]
        assert seen == [[*range(24)], [*range(24, 32)]]


def test_too_few_photos_are_told(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(11):
        (photos / f"{number:02d}.png").write_bytes(b"")
    with pytest.raises(BadInput, match="at least 12"):
        in_two(photos, tmp_path / "work")


def test_photos_that_are_not_there_leave_nothing_behind(tmp_path, capsys):
    assert main(f"adapt {tmp_path}/nowhere --minutes 1 --out {tmp_path}/mine.safetensors".split()) == 2
    assert "no folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("model", "sentence"), [("light", "light is a LightNet"), ("nobody", "nobody")])
def test_a_model_that_cannot_be_adapted_is_told_before_the_patches_are_cut(tmp_path, capsys, model, sentence):
    args = f"adapt {tmp_path} --minutes 1 --model {model} --out {tmp_path}/out/mine.safetensors"
    assert main(args.split()) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
