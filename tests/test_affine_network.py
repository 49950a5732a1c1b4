"""AffNet in ONNX says what kornia's AffNet says with the same weights."""

from __future__ import annotations

import json
from copy import copy

import numpy as np
import pytest
import torch

from conftest import write_set
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput, BadWeights
from hynet.features.detectors.affine_network import SHIPPED, AffineNetwork
from hynet.features.detectors.affnet import from_state, recognised
from hynet.features.detectors.dog import DoG
from hynet.features.export.affine_network import AGREE_INT8, export, export_int8
from hynet.features.settings import FeatureSettings
from hynet.features.shards import weights_of

kornia = pytest.importorskip("kornia.feature")


@pytest.fixture(scope="module")
def theirs() -> torch.nn.Module:
    """Kornia's, with weights under the published names and statistics as training leaves them."""
    torch.manual_seed(0)
    network = kornia.LAFAffNetShapeEstimator(pretrained=False).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.3)
            module.running_var.uniform_(0.5, 2)
    return network


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory) -> AffineNetwork:
    path = tmp_path_factory.mktemp("affnet") / "affnet.onnx"
    state = theirs.state_dict()
    assert recognised(state)
    assert export(from_state(state), path) < 1e-5
    return AffineNetwork(path)


def test_shapes_are_those_of_kornia(theirs, ours):
    photo = synthetic.photo_pair(4, (400, 300))[0]
    keypoints = DoG(200, upright=True)(photo)
    keypoints = keypoints[keypoints.sigma > 1.5]  # below, kornia and we differ in how they magnify pixels
    frames = torch.from_numpy(keypoints.frames.copy())[None]
    frames[..., :2] *= 12  # their frames reach to the edge of the patch, which is 24 sigmas wide
    with torch.inference_mode():
        expected = theirs(frames, torch.from_numpy(photo)[None, None] / 255)[0].numpy()
    expected[..., :2] /= 12
    found = ours(photo, keypoints)
    assert np.abs(found.frames - keypoints.frames).max() > 0.1  # they are not all round
    apart = np.abs(found.frames - expected).max((1, 2)) / keypoints.sigma
    assert np.median(apart) < 0.01
    assert np.quantile(apart, 0.95) < 0.05
    assert found.sigma == pytest.approx(keypoints.sigma, rel=1e-4)
    assert (found.frames[:, 0, 1] == 0).all()  # what is vertical in the photo is vertical in the patch


def test_a_flat_patch_has_a_shape_and_no_keypoints_are_no_problem(ours):
    assert np.isfinite(ours.numbers(np.full((2, 32, 32), 90, np.uint8))).all()
    photo = np.zeros((50, 50), np.uint8)
    assert len(ours(photo, DoG(upright=True)(photo))) == 0


def test_eight_bit_integers_say_nearly_the_same(theirs, ours, tmp_path, capsys):
    patches = synthetic.patch_set(points=120, seed=2).patches[:, ::2, ::2]
    difference = export_int8(from_state(theirs.state_dict()), tmp_path / "small.onnx", patches, {"support": "20"})
    small = AffineNetwork(tmp_path / "small.onnx")
    fresh = synthetic.patch_set(points=40, seed=3).patches[:, ::2, ::2]
    apart = np.abs(small.numbers(fresh) - ours.numbers(fresh))
    assert difference > 0  # they are integers
    assert apart.mean() < 2 * AGREE_INT8
    assert small.support == 20
    assert small.numbers(fresh[:0]).shape == (0, 3)
    with pytest.raises(BadInput, match="50 patches or more"):
        export_int8(from_state(theirs.state_dict()), tmp_path / "few.onnx", patches[:9])
    assert main(["export", "--model", "keynet", "--to", str(tmp_path / "k.onnx"), "--int8", str(tmp_path)]) == 2
    assert "Key.Net is not written in 8-bit integers" in capsys.readouterr().err


def test_the_command_writes_shapes_in_integers(tmp_path, capsys):
    write_set(tmp_path / "set", 60, seed=1)
    asked = ["export", "--model", "shape", "--to", str(tmp_path / "s.onnx"), "--int8", str(tmp_path / "set"), "--json"]
    assert main(asked) == 0
    assert 0 < json.loads(capsys.readouterr().out)["difference"] < AGREE_INT8
    assert (tmp_path / "s.onnx").stat().st_size < 0.4 * SHIPPED.with_suffix(".safetensors").stat().st_size


def test_the_published_file_itself_can_be_used(theirs, ours, tmp_path):
    torch.save({"epoch": 1, "state_dict": theirs.state_dict()}, tmp_path / "affnet.pth")
    patches = synthetic.patch_set(points=5, seed=1).patches[:, ::2, ::2]
    by_torch = AffineNetwork(tmp_path / "affnet.pth")
    assert by_torch.numbers(patches) == pytest.approx(ours.numbers(patches), abs=1e-5)


def test_another_network_is_refused(tmp_path):
    from hynet.features.models import FOLDER

    with pytest.raises(BadWeights, match="affine shapes"):
        AffineNetwork(FOLDER / "keynet.onnx")
    torch.save({"state_dict": {"features.19.weight": torch.zeros(3, 3)}}, tmp_path / "other.pth")
    with pytest.raises(BadWeights, match="AffNet"):
        AffineNetwork(tmp_path / "other.pth")


def test_a_network_that_asks_for_no_area_is_not_believed(ours):
    flattened = copy(ours)
    flattened._run = lambda patches: np.full((len(patches), 3), -1, np.float32)
    photo = synthetic.photo_pair(4, (400, 300))[0]
    keypoints = DoG(20, upright=True)(photo)
    assert flattened(photo, keypoints).sigma == pytest.approx(keypoints.sigma, rel=1e-3)


def test_features_know_the_content_of_the_weights_that_shaped_them(tmp_path):
    settings = FeatureSettings(shape=str(tmp_path / "affnet.onnx"))
    seen = {weights_of(FeatureSettings())}
    for content in (b"one", b"two"):
        (tmp_path / "affnet.onnx").write_bytes(content)
        seen.add(weights_of(settings))
    assert len(seen) == 3
