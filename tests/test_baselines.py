"""Baselines of OpenCV and kornia on our patches."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from hynet import load
from hynet.descriptors import DESCRIPTORS
from hynet.errors import BadWeights

OPENCV = ["vgg", "boostdesc", "beblid", "teblid", "daisy"]


def alone(extractor, patch):
    """What OpenCV says of one patch whose window it is, border replicated."""
    size = len(patch)
    middle = size + size / 2
    padded = np.pad(patch, size, mode="edge")
    return extractor.compute(padded, [cv2.KeyPoint(middle, middle, size, 0)])[1][0]


def test_distances_of_bits_are_hammings(patches):
    bits = np.stack([alone(cv2.xfeatures2d.BEBLID.create(1.0), patch) for patch in patches])
    hamming = np.unpackbits(bits[:, None] ^ bits[None], axis=2).sum(2)
    rows = DESCRIPTORS["beblid"]().describe(patches)
    squared = ((rows[:, None] - rows[None]) ** 2).sum(2)
    np.testing.assert_allclose(squared, 4 * hamming / 512, atol=1e-5)


def test_vgg_of_a_patch_is_opencvs_of_that_patch_alone(patches):
    large = np.stack([cv2.resize(patch, (64, 64), interpolation=cv2.INTER_CUBIC) for patch in patches[:3]])
    true = alone(cv2.xfeatures2d.VGG.create(scale_factor=1.0), large[2])
    np.testing.assert_allclose(DESCRIPTORS["vgg"]().describe(large)[2], true / np.linalg.norm(true), atol=1e-4)


@pytest.mark.parametrize("name", OPENCV)
def test_a_patch_is_described_alike_whoever_its_neighbours_are(name, patches):
    descriptor = DESCRIPTORS[name]()
    bright = np.full_like(patches[:10], 255)
    bright[4] = patches[4]
    np.testing.assert_allclose(descriptor.describe(bright)[4], descriptor.describe(patches[:10])[4], atol=1e-4)


@pytest.mark.parametrize("name", [*OPENCV, "mkd"])
def test_a_flat_patch_gives_numbers(name):
    assert np.isfinite(DESCRIPTORS[name]().describe(np.full((2, 32, 32), 77, np.uint8))).all()


@pytest.mark.parametrize("name", OPENCV)
def test_baselines_of_opencv_are_ready_by_name(name, patches):
    np.testing.assert_array_equal(load(name).describe(patches), DESCRIPTORS[name]().describe(patches))


def test_mkd_is_whitened_by_its_published_file(tmp_path, patches):
    from kornia.feature.mkd import Whitening

    random = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(238, 238, generator=random))[0]
    one = {"mean": torch.randn(238, generator=random) / 50, "eigvecs": basis, "eigvals": torch.linspace(1, 0.01, 238)}
    model = {"pca": one, "lw": one}
    torch.save({"liberty": model, "notredame": model, "yosemite": model}, tmp_path / "mkd.pth")
    whitened = load(tmp_path / "mkd.pth")
    with torch.no_grad():
        raw = torch.tensor(DESCRIPTORS["mkd"]().describe(patches))
        true = Whitening("pcawt", model, in_dims=238, output_dims=128)(raw).numpy()
    assert whitened.dim == 128
    np.testing.assert_allclose(whitened.describe(patches), true, atol=1e-5)


def test_a_file_of_other_tables_is_turned_away(tmp_path):
    torch.save({"oslo": {"mean": torch.zeros(3)}}, tmp_path / "other.pth")
    with pytest.raises(BadWeights):
        load(tmp_path / "other.pth")
