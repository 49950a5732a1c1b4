from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import shared_file
from hynet import descriptors, load
from hynet.descriptors import DESCRIPTORS
from hynet.errors import BadInput, UnknownName
from hynet.features.descriptors.layers import FRN, TLU
from hynet.features.descriptors.resizing import resized


def as_batch(patches: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(patches)[:, None].float()


def shaken(network: torch.nn.Module) -> torch.nn.Module:
    """Every number of the network at random, running statistics too, so that parity means something."""
    random = torch.Generator().manual_seed(1)
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point() and not name.endswith("eps"):
            noise = torch.randn(tensor.shape, generator=random)
            tensor += noise.abs() * 0.1 if name.endswith("var") else noise * 0.02
    return network.eval()


# --- the whole table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_every_descriptor_gives_unit_vectors(name, patches):
    descriptor = DESCRIPTORS[name]()
    rows = descriptor.describe(patches)
    assert rows.shape == (len(patches), descriptor.dim)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_one_patch_or_none_is_described_like_many(name, patches):
    descriptor = DESCRIPTORS[name]()
    np.testing.assert_allclose(descriptor.describe(patches[:1]), descriptor.describe(patches)[:1], atol=1e-5)
    assert descriptor.describe(patches[:0]).shape == (0, descriptor.dim)


@pytest.mark.parametrize("name", DESCRIPTORS)
@pytest.mark.parametrize("size", [16, 48, 64, 65])
def test_any_patch_size_is_resized_once_at_the_door(name, size, patches):
    import cv2

    descriptor = DESCRIPTORS[name]()
    smooth = np.stack([cv2.GaussianBlur(patch, (0, 0), 2.5) for patch in patches])
    resized = np.stack([cv2.resize(patch, (size, size), interpolation=cv2.INTER_CUBIC) for patch in smooth])
    likeness = (descriptor.describe(resized) * descriptor.describe(smooth)).sum(1)
    assert likeness.min() > 0.9


def test_shrinking_a_patch_does_not_alias():
    checkerboard = np.indices((64, 64)).sum(0) % 2 * 255
    shrunk = resized(checkerboard[None].astype(np.uint8), 32)
    assert np.ptp(shrunk) <= 1


@pytest.mark.parametrize(
    "wrong", [np.zeros((3, 32, 32), np.float32), np.zeros((3, 32, 30), np.uint8), np.zeros((32, 32), np.uint8)]
)
def test_what_is_not_a_stack_of_grey_patches_is_turned_away(wrong):
    with pytest.raises(BadInput, match="patches must be"):
        DESCRIPTORS["rootsift"]().describe(wrong)


# --- HyNet ----------------------------------------------------------------------------------------------------------


def test_hynet_is_the_papers_size():
    assert sum(p.numel() for p in descriptors.HyNet().parameters()) == 1_336_355


def test_hynet_with_batchnorm_is_the_network_of_its_rivals(patches):
    ours, theirs = shaken(descriptors.HyNet(norm="bn")), descriptors.L2Net(unbiased=False).eval()
    assert sum(p.numel() for p in ours.parameters()) == 1_334_560
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    np.testing.assert_allclose(ours.describe(patches), theirs.describe(patches), atol=1e-6)


def test_kornias_hynet_loads_our_weights_and_says_the_same(patches):
    import kornia.feature as kornia

    ours = shaken(descriptors.HyNet())
    theirs = kornia.HyNet(pretrained=False).eval()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    with torch.no_grad():
        np.testing.assert_allclose(ours.describe(patches), theirs(as_batch(patches)).numpy(), atol=1e-5)


@pytest.mark.parametrize("theirs", ["HardNet", "SOSNet"])
def test_kornias_hardnet_and_sosnet_say_the_same_as_ours(theirs, patches, tmp_path):
    import kornia.feature as kornia

    network = shaken(getattr(kornia, theirs)(pretrained=False))
    torch.save(network.state_dict(), tmp_path / "published.pth")
    with torch.no_grad():
        true = torch.nn.functional.normalize(network(as_batch(patches))).numpy()
    np.testing.assert_allclose(load(tmp_path / "published.pth").describe(patches), true, atol=1e-5)


def test_our_l2net_has_hardnets_keys():
    import kornia.feature as kornia

    kornia.HardNet(pretrained=False).load_state_dict(descriptors.L2Net().state_dict(), strict=True)


def test_kornias_tfeat_says_the_same_as_ours(patches):
    import kornia.feature as kornia

    ours = shaken(descriptors.TFeat())
    theirs = kornia.TFeat(pretrained=False).eval()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    with torch.no_grad():
        torch.testing.assert_close(ours(as_batch(patches)), theirs(as_batch(patches)), atol=1e-5, rtol=0)


def test_published_tfeat_says_the_same_in_kornia(patches):
    path = shared_file("weights/tfeat-liberty.params")
    import kornia.feature as kornia

    theirs = kornia.TFeat(pretrained=False).eval()
    theirs.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    with torch.no_grad():
        true = torch.nn.functional.normalize(theirs(as_batch(patches))).numpy()
    np.testing.assert_allclose(load(path).describe(patches), true, atol=1e-5)


@pytest.mark.parametrize("norm", ["frn", "bn", "in", "bn-affine"])
def test_every_norm_gives_raw_descriptors_for_a_batch_of_one(norm, patches):
    network = descriptors.HyNet(norm=norm).eval()
    assert network(as_batch(patches[:1])).shape == (1, 128)


def test_an_unknown_norm_lists_the_known_ones():
    with pytest.raises(UnknownName, match="frn, bn, in or bn-affine"):
        descriptors.HyNet(norm="layer")


@given(scale=st.floats(0.05, 20), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_scaling_an_image_does_not_change_frn(scale, seed):
    x = 100 * torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed)).double() + 1
    torch.testing.assert_close(FRN(3).double()(scale * x), FRN(3).double()(x), atol=1e-5, rtol=0)


def test_frn_and_tlu_are_their_equations():
    x = torch.randn(2, 3, 4, 4)
    frn, tlu = FRN(3), TLU(3)
    with torch.no_grad():
        for parameter in (frn.weight, frn.bias, tlu.tau):
            parameter.uniform_(-1, 1)
        for n in range(2):
            for c in range(3):
                plane = x[n, c]
                normed = plane / torch.sqrt((plane**2).sum() / 16 + 1e-6)
                expected = frn.weight[0, c, 0, 0] * normed + frn.bias[0, c, 0, 0]
                torch.testing.assert_close(frn(x)[n, c], expected)
                torch.testing.assert_close(tlu(x)[n, c], torch.clamp(x[n, c], min=tlu.tau[0, c, 0, 0].item()))


def test_frn_sums_in_full_precision_where_half_would_overflow():
    x = torch.full((1, 1, 4, 4), 6e4, dtype=torch.float16)
    torch.testing.assert_close(FRN(1)(x), torch.ones(1, 1, 4, 4))


@pytest.mark.parametrize("name", ["hynet", "l2net", "tfeat", "hardtfeat", "desdis", "lightnet"])
def test_a_network_turns_away_patches_of_another_size(name):
    with pytest.raises(BadInput, match="32 x 32"):
        DESCRIPTORS[name]().eval()(torch.ones(2, 1, 64, 64))


@pytest.mark.parametrize("name", ["hynet", "l2net", "tfeat"])
def test_half_precision_describes_nearly_the_same(name, patches):
    network = DESCRIPTORS[name]().eval()
    true = network.describe(patches)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = network.describe(patches)
    for rows in (inside, network.bfloat16().describe(patches)):
        assert rows.dtype == np.float32
        assert (rows * true).sum(1).min() > 0.99


def test_describing_leaves_the_network_as_it_was(patches):
    network = descriptors.HyNet().train()
    before = network.layer7[2].running_mean.clone()
    network.describe(patches)
    assert network.training
    torch.testing.assert_close(network.layer7[2].running_mean, before)


def test_l2net_shows_its_first_and_last_normalised_maps(patches):
    network = descriptors.L2Net().eval()
    raw, (first, last) = network.with_maps(as_batch(patches))
    assert (first.shape[1:], last.shape[1:]) == ((32, 32, 32), (128, 8, 8))
    torch.testing.assert_close(raw, network(as_batch(patches)))


# --- SIFT -----------------------------------------------------------------------------------------------------------


def test_sift_of_a_patch_is_opencvs_of_that_patch_alone(patches):
    import cv2

    alone = np.pad(patches[3], 16, mode="edge")
    keypoint = cv2.KeyPoint(31.5, 31.5, 2 * 32 / 12, 0)
    keypoint.octave = 2 << 8
    true = cv2.SIFT.create().compute(alone, [keypoint])[1][0]
    np.testing.assert_allclose(DESCRIPTORS["sift"]().describe(patches)[3], true / np.linalg.norm(true), atol=0.02)


def test_a_flat_patch_has_no_gradients_and_no_nan():
    rows = DESCRIPTORS["rootsift"]().describe(np.full((2, 32, 32), 77, np.uint8))
    assert np.isfinite(rows).all()
