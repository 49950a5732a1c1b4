"""Shapes and a descriptor trained together: both learn, a run goes on when stopped, and both parts are used."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import hynet
from conftest import write_set
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.features.detectors.affine_network import SHIPPED, AffineNetwork

torch = pytest.importorskip("torch")
from hynet.training import loop, shape, warps  # noqa: E402
from hynet.training.recipes import JOINT  # noqa: E402

TINY = replace(
    JOINT,
    descriptor="light",
    dropout=0.0,
    minutes=None,
    steps=4,
    pairs_per_batch=8,
    log_every=1,
    checkpoint_minutes=0.0,
)


@pytest.fixture(scope="module")
def patches():
    return synthetic.patch_set(60, 4, seed=1)


def test_both_networks_learn_to_find_patches_again(patches):
    task = shape.Joint(TINY, {"a": patches})
    batch = next(task.batches(0))
    before = {name: value.clone() for name, value in task.state.network.named_parameters()}
    totals = []
    for _ in range(20):
        terms = task.terms(*batch)
        totals.append(float(terms.total.detach()))
        loop.step(task.state, terms.total, 0.0005)
    assert np.mean(totals[-3:]) < 0.8 * np.mean(totals[:3])
    moved = {name for name, value in task.state.network.named_parameters() if not torch.equal(value, before[name])}
    assert moved == before.keys()


def test_every_second_pair_is_described_as_it_is(patches, monkeypatch):
    seen = []

    def sampled(patches, frames, region=0.0):
        if region:
            seen.append((frames, region))
        return warps.sampled(patches, frames, *([region] if region else []))

    monkeypatch.setattr(shape, "sampled", sampled)
    task = shape.Joint(TINY, {"a": patches})
    task.terms(*next(task.batches(0)))
    [(frames, region)] = seen
    assert region == 1  # all of a patch, as `hynet match` describes it
    for side in frames.detach().chunk(2):  # anchors, positives
        round_ones = (side == torch.eye(2)).all(dim=2).all(dim=1)
        assert round_ones.tolist() == [True, False] * 4


def test_the_command_writes_a_descriptor_and_shapes_to_match_with(tmp_path, capsys):
    write_set(tmp_path / "set", 60, seed=1)
    write_set(tmp_path / "other", 20, seed=5)
    asked = f"train joint --data {tmp_path}/set --validate {tmp_path}/other --out {tmp_path}/run --steps 2"
    assert main([*asked.split(), "--descriptor", "light", "--pairs-per-batch", "8", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["steps"] == 2
    for measured in ("validation", "before", "round", "unwarped"):
        assert set(told[measured]) == {f"{tmp_path}/other"}

    photo = synthetic.photo_pair(4, (320, 240))[0]
    features = hynet.Extractor(model=told["descriptor"], max_keypoints=50, shape=told["shape"])(photo)
    assert len(features) > 10
    assert np.linalg.norm(features.descriptors, axis=1) == pytest.approx(1, abs=1e-3)
    assert AffineNetwork(told["shape"]).support == pytest.approx(24 / 1.4, rel=1e-3)

    # One that is given in the place of the other is refused
    pair = ["match", "--out", f"{tmp_path}/m.png"]
    assert main([*pair, "--model", told["shape"]]) == 2
    assert "is a network for affine shapes" in capsys.readouterr().err
    assert main([*pair, "--shape", told["descriptor"]]) == 2
    assert "does not hold AffNet" in capsys.readouterr().err

    # Both files are of one checkpoint, which can be used by itself and gone on from
    best, trained = f"{tmp_path}/run/best.pt", hynet.load(told["descriptor"]).state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in hynet.load(best).state_dict().items())
    views = synthetic.patch_set(10, 2, seed=3).patches[:, ::2, ::2]
    exported = AffineNetwork(told["shape"]).numbers(views)
    np.testing.assert_allclose(exported, AffineNetwork(best).numbers(views), atol=1e-4)
    assert np.abs(exported - AffineNetwork().numbers(views)).max() > 1e-3  # not those it started from
    further = asked.replace("/run", "/further").split()
    of_the_run = ["--descriptor", told["descriptor"], "--shape", told["shape"].replace(".onnx", ".safetensors")]
    assert main([*further, *of_the_run, "--pairs-per-batch", "8"]) == 0


def test_the_descriptor_of_a_run_is_shared_with_a_card_that_says_what_it_goes_with(tmp_path, patches):
    hynet.train(TINY, {"a": patches}, tmp_path / "run", recipe_name="joint")
    assert main(f"export --model {tmp_path}/run --to {tmp_path}/shared.safetensors --card".split()) == 0
    shared = hynet.load(tmp_path / "shared.safetensors").state_dict()
    assert all(
        torch.equal(value, shared[name]) for name, value in hynet.load(tmp_path / "run/last.pt").state_dict().items()
    )
    card = (tmp_path / "shared.md").read_text()
    assert "Weights of a `LightNet` descriptor" in card
    assert "hynet match a.jpg b.jpg --model shared.safetensors --shape shape.onnx" in card
    assert "| norm |" not in card


def test_a_run_that_cannot_be_is_refused_in_a_sentence(tmp_path, capsys):
    write_set(tmp_path / "set", 60, seed=1)
    (tmp_path / "text.safetensors").write_text("no weights")
    (tmp_path / "copied.onnx").write_bytes(SHIPPED.read_bytes())
    asked = f"train joint --data {tmp_path}/set --out {tmp_path}/run --steps 1 --pairs-per-batch 8"
    for options, sentence in {
        f"--shape {tmp_path}/text.safetensors": "not a weights file",
        "--shape baumberg": "learns nothing",
        f"--shape {tmp_path}/missing.safetensors": f"cannot read {tmp_path}/missing.safetensors",
        f"--shape {tmp_path}/copied.onnx": "give .pt, .pth, .params or .safetensors",
        "--descriptor rootsift": "no weights for torch ship under the name rootsift",
    }.items():
        assert main([*asked.split(), *options.split()]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
