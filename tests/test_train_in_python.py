"""hynet.train: sets by path or as values, networks and losses as objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import hynet
from hynet.datasets import synthetic, ubc
from hynet.errors import BadInput, BadWeights
from hynet.losses import LossTerms
from hynet.training import batches, card, checkpoints
from hynet.training.configuration import TrainConfig
from hynet.types import PatchSet

SMALL = TrainConfig(epochs=None, steps=3, pairs_per_batch=8, compiled=False, log_every=1)


class Own(nn.Module):
    """Knows nothing of hynet."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 7 * 7, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x / 255)


class OwnWrapper(nn.Module):
    """Its one layer is called as DataParallel calls what it wraps."""

    def __init__(self) -> None:
        super().__init__()
        self.module = Own()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


def own_loss(raw_a: torch.Tensor, raw_p: torch.Tensor, *, weight: float = 1.0) -> LossTerms:
    return hynet.losses.added_up(
        {"apart": weight * (raw_a - raw_p).square().mean()}, *2 * [(raw_a - raw_p).norm(dim=1)], raw_a[:, 0], raw=True
    )


@pytest.fixture(scope="module")
def patches() -> PatchSet:
    return synthetic.patch_set(40, 4, seed=1)


def test_a_recipe_by_name_is_trained_with_other_settings(patches, tmp_path):
    ended = hynet.train("tfeat", patches, tmp_path, steps=2, pairs_per_batch=8, pairs_per_epoch=64, compiled=False)
    assert ended.steps == 2
    about = checkpoints.read(ended.checkpoint)["about"]
    assert (about["recipe"], about["config"]["epochs"], about["config"]["margin"]) == ("tfeat", None, 2.0)
    assert hynet.load(ended.checkpoint).describe(patches.patches[:3]).shape == (3, 128)


def test_a_network_and_a_loss_can_be_named(patches, tmp_path):
    small = {"steps": 1, "pairs_per_batch": 8, "pairs_per_epoch": 64, "compiled": False}
    ended = hynet.train("tfeat", patches, tmp_path, network="hardtfeat", loss="hardnet", **small)
    config = checkpoints.read(ended.checkpoint)["about"]["config"]
    assert (config["network"], config["loss"], config["margin"]) == ("hardtfeat", "hardnet", None)
    for wrong in ({"network": 5}, {"loss": 5}):
        with pytest.raises(BadInput, match="must be a name or something that can be called, got 5"):
            hynet.train("tfeat", patches, tmp_path / "wrong", **wrong, **small)
    with pytest.raises(BadInput, match=r"not the class Own; give Own\(\)"):
        hynet.load(ended.checkpoint, network=Own)


def test_a_network_and_a_loss_can_be_objects_and_load_again(patches, tmp_path):
    ended = hynet.train(SMALL, patches, tmp_path, network=Own, loss=own_loss, loss_options={"weight": 2.0})
    about = checkpoints.read(ended.checkpoint)["about"]["config"]
    assert about["network"].endswith(":Own")
    assert about["loss"].endswith(":own_loss")
    described = hynet.load(ended.checkpoint, network=Own()).describe(patches.patches[:3])
    assert described.shape == (3, 12)
    np.testing.assert_allclose(np.linalg.norm(described, axis=1), 1, atol=1e-5)
    with pytest.raises(BadWeights, match=r"A network of your own .* hynet\.load\(path, network=\.\.\.\)"):
        hynet.load(ended.checkpoint)
    with pytest.raises(BadWeights, match="does not hold the weights of this Linear"):
        hynet.load(ended.checkpoint, network=nn.Linear(2, 2))
    assert hynet.train(SMALL, patches, tmp_path, network=Own, loss=own_loss, loss_options={"weight": 2.0}, resume=True)


def test_a_loss_of_ones_own_takes_none_of_the_recipes_options(patches, tmp_path):
    small = {"steps": 1, "pairs_per_batch": 8, "pairs_per_epoch": 64, "compiled": False}
    ended = hynet.train("tfeat", patches, tmp_path / "run", loss=own_loss, loss_options={"weight": 2.0}, **small)
    about = checkpoints.read(ended.checkpoint)["about"]["config"]
    assert (about["margin"], about["loss_options"]) == (None, {"weight": 2.0})
    with pytest.raises(BadInput, match="has no margin; its options are weight"):
        hynet.train("tfeat", patches, tmp_path / "other", loss=own_loss, margin=1.0, **small)


def test_a_module_is_trained_from_the_weights_it_has(patches, tmp_path):
    own = Own()
    before = own.layers[3].weight.detach().clone()
    hynet.train(replace(SMALL, steps=0, start="orthogonal"), patches, tmp_path, network=own)
    assert torch.equal(own.layers[3].weight, before)


def test_a_network_with_a_layer_called_module_loads_again(patches, tmp_path):
    own = OwnWrapper()
    ended = hynet.train(SMALL, patches, tmp_path, network=own)
    torch.save(own.state_dict(), tmp_path / "plain.pt")
    torch.save(nn.DataParallel(Own()).state_dict(), tmp_path / "own.pt")
    for file in (ended.checkpoint, tmp_path / "plain.pt"):
        loaded = OwnWrapper()
        hynet.load(file, network=loaded)
        assert torch.equal(loaded.module.layers[3].weight, own.module.layers[3].weight)
    assert hynet.load(tmp_path / "own.pt", network=Own()).dim == 12


def test_a_network_of_ones_own_starts_from_weights_of_its_own(patches, tmp_path):
    first = hynet.train(SMALL, patches, tmp_path / "first", network=Own)
    onwards = replace(SMALL, steps=0, start="orthogonal", start_from=str(first.checkpoint))
    second = hynet.train(onwards, patches, tmp_path / "second", network=Own)
    before, after = (checkpoints.read(run.checkpoint)["network"] for run in (first, second))
    assert all(torch.equal(before[key], after[key]) for key in before)
    with pytest.raises(BadWeights, match="default does not hold the weights of this Own: its keys or sizes differ"):
        hynet.train(replace(onwards, start_from="default"), patches, tmp_path / "third", network=Own)


def test_the_card_of_a_network_of_ones_own_says_how_it_is_loaded_and_what_it_gives(patches, tmp_path):
    hynet.train(SMALL, patches, tmp_path, network=Own)
    card.share(tmp_path, tmp_path / "own.safetensors")
    told = (tmp_path / "own.md").read_text()
    assert f'from {__name__} import Own\n\n    descriptor = hynet.load("own.safetensors", network=Own())' in told
    assert "(N, S, S) uint8 -> (N, 12)" in told
    assert hynet.load(tmp_path / "own.safetensors", network=Own()).dim == 12


def test_a_network_that_gives_no_rows_and_a_loss_that_gives_no_terms_are_refused(patches, tmp_path):
    with pytest.raises(BadInput, match=r"Conv2d must give raw descriptors \(N, D\), got \(1, 2, 30, 30\)"):
        hynet.train(SMALL, patches, tmp_path, network=nn.Conv2d(1, 2, 3))
    with pytest.raises(BadInput, match=r"a loss returns hynet\.losses\.LossTerms, this one a Tensor"):
        hynet.train(SMALL, patches, tmp_path, network=Own, loss=lambda a, p: (a - p).square().mean())


def test_a_setting_that_no_run_has_is_refused(patches, tmp_path):
    with pytest.raises(BadInput, match="a run has no setting colour"):
        hynet.train("hynet", patches, tmp_path, colour="red")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"steps": "3"}, "steps must be a whole number; got '3'"),
        ({"steps": True}, "steps must be a whole number; got True"),
        ({"pairs_per_batch": 8.5}, "pairs_per_batch must be a whole number; got 8.5"),
        ({"learning_rate": "high"}, "learning_rate must be a number; got 'high'"),
        ({"learning_rate": None}, "learning_rate must be a number; got None"),
        ({"compiled": "no"}, "compiled must be True or False; got 'no'"),
        ({"schedule": "cosin"}, "no schedule 'cosin'; choose constant, linear, cosine or stepwise"),
        ({"loss_options": {"margin": "1"}}, "margin of the loss hynet must be 0 or more; got 1"),
        ({"loss": lambda a: a}, "must take anchors and positives, .*: too many positional arguments"),
        ({"loss": lambda a, p, third: a}, "must take anchors and positives, .*: missing a required argument: 'third'"),
        ({"loss": nn.MSELoss}, "MSELoss is a class; give an object of it"),
    ],
)
def test_settings_and_losses_of_a_wrong_kind_are_told_before_anything_is_written(patches, tmp_path, settings, told):
    with pytest.raises(BadInput, match=told):
        hynet.train("hynet", patches, tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_the_first_epoch_is_sampled_once(patches, tmp_path, monkeypatch):
    sampled = []
    pairs = batches.pairs
    monkeypatch.setattr(batches, "pairs", lambda *args, **kwargs: sampled.append(1) or pairs(*args, **kwargs))
    known = replace(patches, images=patches.points.copy())
    lines = []
    hynet.train(replace(SMALL, certain=True), known, tmp_path, watch=lines.append)
    assert len(sampled) == 1
    assert lines[0]["negatives"] < SMALL.pairs_per_batch


def written(root: Path, patches: PatchSet) -> Path:
    zeros = np.zeros(len(patches))
    ubc.write(root, patches, xy=np.zeros((len(patches), 2)), angle=zeros, log2_scale=zeros)
    return root


def test_a_folder_is_loaded_as_the_data_set_whose_layout_it_has(patches, tmp_path):
    root = written(tmp_path / "set", patches)
    np.testing.assert_array_equal(hynet.datasets.load(root, size=64).points, patches.points)
    assert hynet.train(SMALL, root, tmp_path / "run").steps == 3
    with pytest.raises(hynet.HynetError, match="has the layout of no data set known here: ubc, hpatches"):
        hynet.datasets.load(tmp_path / "run")
    stacks = tmp_path / "hpatches" / "v_one"
    stacks.mkdir(parents=True)
    (stacks / "ref.png").touch()
    with pytest.raises(BadInput, match="is a folder of hpatches, not a set of patches"):
        hynet.train(SMALL, stacks.parent, tmp_path / "other")
