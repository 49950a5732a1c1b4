"""Peers that find and describe at once: recognised by their weights, right about pixels, within their budget."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from conftest import shared_file
from hynet import match
from hynet.datasets import synthetic
from hynet.errors import BadWeights
from hynet.features.extractors import find_extractor, r2d2
from hynet.geometry import two_views


@pytest.fixture
def photo():
    return synthetic.texture((128, 96), seed=1)


def published(tmp_path, network, wrap=lambda state: state):
    torch.save(wrap(network.state_dict()), tmp_path / "weights.pth")
    return str(tmp_path / "weights.pth")


def test_opencvs_sift_is_opencvs(photo):
    found = find_extractor("opencv-sift", max_keypoints=50)(photo)
    keypoints, histograms = cv2.SIFT.create().detectAndCompute(photo, None)
    strongest = max(range(len(keypoints)), key=lambda k: keypoints[k].response)
    assert len(found) == min(50, len(keypoints))
    np.testing.assert_allclose(found.keypoints.xy[0], keypoints[strongest].pt, atol=1e-4)
    row = histograms[strongest]
    np.testing.assert_allclose(found.descriptors[0], row / np.linalg.norm(row), atol=1e-6)


@pytest.mark.parametrize("name", ["opencv-sift", "opencv-rootsift"])
def test_an_empty_wall_has_no_features(name):
    assert len(find_extractor(name)(np.full((60, 80), 128, np.uint8))) == 0


@pytest.mark.parametrize("name", ["default", "rootsift", "no such file", "r2d2"])
def test_other_names_are_left_to_hynet_load(name):
    assert find_extractor(name) is None


def test_weights_of_a_patch_descriptor_are_left_to_hynet_load(tmp_path):
    from hynet.descriptors import DESCRIPTORS

    assert find_extractor(published(tmp_path, DESCRIPTORS["tfeat"]())) is None


# --- R2D2 -----------------------------------------------------------------------------------------------------------


def test_r2d2s_network_looks_evenly_around_each_pixel():
    torch.manual_seed(0)
    network = r2d2.R2D2Network().eval()
    black, dot = torch.zeros(1, 3, 72, 72), torch.zeros(1, 3, 72, 72)
    dot[..., 36, 30] = 1
    with torch.no_grad():
        apart = (network.ops(dot) - network.ops(black)).abs().sum((0, 1)) > 0
    rows, columns = apart.nonzero(as_tuple=True)
    reach = 1 + 1 + 1 + 2 + 2 + 4 + (4 + 8 + 16) // 2
    assert (rows.min(), rows.max()) == (36 - reach, 36 + reach)
    assert (columns.min(), columns.max()) == (30 - reach, 30 + reach)


def bright_blobs() -> r2d2.R2D2Network:
    """A network of R2D2's layout for which what is bright is repeatable, and everything reliable."""
    network = r2d2.R2D2Network().eval()
    with torch.no_grad():
        for layer in network.ops:
            if isinstance(layer, torch.nn.Conv2d):
                layer.weight.zero_()
                layer.bias.zero_()
                side = layer.weight.shape[2]
                layer.weight[0, 0] = 0.25 if side == 2 else 0
                if side == 3:
                    layer.weight[0, 0, 1, 1] = 1
        for head, bias in ((network.sal, [0.0]), (network.clf, [0.0, 5.0])):
            head.weight.zero_()
            head.bias.copy_(torch.tensor(bias))
        network.sal.weight[0, 0] = 5
    return network


def test_r2d2_finds_the_middle_of_a_blob_at_every_scale(tmp_path, monkeypatch):
    monkeypatch.setattr(r2d2, "LARGEST", 110)
    monkeypatch.setattr(r2d2, "SMALLEST", 60)
    y, x = np.mgrid[:160, :200]
    blob = (255 * np.exp(-((x - 90) ** 2 + (y - 70) ** 2) / (2 * 40**2))).astype(np.uint8)
    path = published(tmp_path, bright_blobs(), lambda state: {"net": "R2D2", "state_dict": state})
    found = find_extractor(path, max_keypoints=5)(blob)
    assert 2 <= len(found) <= 5
    step = 200 / 60
    assert np.abs(found.keypoints.xy - [90, 70]).max() < step
    np.testing.assert_allclose(np.linalg.norm(found.descriptors, axis=1), 1, atol=1e-5)


def test_r2d2_looks_at_scales_a_fourth_of_an_octave_apart(monkeypatch):
    monkeypatch.setattr(r2d2, "LARGEST", 100)
    monkeypatch.setattr(r2d2, "SMALLEST", 50)
    widths = [level.shape[3] for level, _ in r2d2._levels(np.zeros((60, 200, 3), np.uint8))]
    assert widths == [100, 84, 71, 59, 50]


def test_a_photo_that_is_too_small_is_looked_at_once(monkeypatch):
    monkeypatch.setattr(r2d2, "SMALLEST", 256)
    assert len(list(r2d2._levels(np.zeros((30, 40, 3), np.uint8)))) == 1


def test_incomplete_r2d2_weights_are_turned_away(tmp_path):
    def without_a_layer(state):
        return {key: value for key, value in state.items() if not key.startswith("ops.22")}

    with pytest.raises(BadWeights, match="R2D2"):
        find_extractor(published(tmp_path, r2d2.R2D2Network(), without_a_layer))


@pytest.mark.slow
def test_published_r2d2_matches_what_the_homography_says():
    first, second, H = synthetic.photo_pair(seed=0, size=(320, 240))
    extract = find_extractor(str(shared_file("weights/r2d2_WASF_N16.pt")), max_keypoints=500)
    a, b = extract(first), extract(second)
    matches = match(a, b)
    errors = two_views.transfer_error(H, *(f.keypoints.xy[r] for f, r in zip((a, b), matches.indices.T, strict=True)))
    assert (errors < 3).mean() > 0.7


# --- ALIKED ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["aliked-t16", "aliked-n16"])
def test_aliked_is_recognised_by_its_weights(kind, tmp_path, photo):
    import kornia.feature as kornia

    torch.manual_seed(0)
    network = kornia.ALIKED(kind)
    path = published(tmp_path, network, lambda state: {k: v for k, v in state.items() if not k.startswith("dkd")})
    found = find_extractor(path, max_keypoints=40)(photo)
    assert 0 < len(found) <= 40
    assert found.image_size == (128, 96)
    np.testing.assert_allclose(np.linalg.norm(found.descriptors, axis=1), 1, atol=1e-4)


def test_weights_that_only_look_like_alikeds_are_turned_away(tmp_path):
    torch.save({"desc_head.agg_weights": torch.zeros(16, 128, 128)}, tmp_path / "weights.pth")
    with pytest.raises(BadWeights, match="ALIKED"):
        find_extractor(str(tmp_path / "weights.pth"))
