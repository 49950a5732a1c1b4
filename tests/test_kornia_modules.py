"""Our parts in kornia's places, beside `describe` and `Extractor`."""

from __future__ import annotations

import numpy as np
import pytest

import hynet
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.images import patches as patches_module

torch = pytest.importorskip("torch")
feature = pytest.importorskip("kornia.feature")

from hynet.interop.kornia import PatchDescriptor, local_feature  # noqa: E402


@pytest.fixture(scope="module")
def photos() -> np.ndarray:
    return np.stack([synthetic.photo_pair(5, (320, 240))[0], np.full((240, 320), 128, np.uint8)])


@pytest.fixture(scope="module")
def images(photos):
    return torch.from_numpy(photos[:, None] / np.float32(255))


def test_the_module_gives_what_describe_gives(patches):
    module = PatchDescriptor("default").eval()
    with torch.inference_mode():
        rows = module(torch.from_numpy(patches[:, None] / np.float32(255))).numpy()
    assert np.abs(rows - hynet.load("default", engine="torch").describe(patches)).max() < 1e-5


def test_laf_descriptor_takes_it_and_gives_unit_rows_with_gradients(images):
    module = PatchDescriptor("default")
    described = feature.LAFDescriptor(module, patch_size=module.patch_size)
    lafs = feature.laf_from_center_scale_ori(torch.tensor([[[100.0, 80.0], [200.0, 120.0]]]))
    lafs = feature.scale_laf(lafs, 30.0)
    rows = described(images[:1].repeat(1, 3, 1, 1), lafs)
    assert rows.shape == (1, 2, 128)
    assert rows.norm(dim=2).detach().numpy() == pytest.approx(1, abs=1e-5)
    rows[0, 0, 0].backward()
    assert any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in module.parameters())


@pytest.mark.parametrize(("model", "upright"), [("default-float", False), ("rootsift", True)])
def test_local_feature_gives_what_the_extractor_gives(images, photos, model, upright):
    ours = local_feature(model=model, max_keypoints=60, upright=upright)
    assert isinstance(ours, feature.LocalFeature)
    lafs, responses, rows = ours(images)
    extract = hynet.Extractor(model=model, max_keypoints=60, orientation="upright" if upright else "gradient")
    found = extract(photos[0])
    assert len(found) == lafs.shape[1]
    assert feature.get_laf_center(lafs)[0].numpy() == pytest.approx(found.keypoints.xy, abs=1e-5)
    scales = feature.get_laf_scale(lafs)[0, :, 0, 0].numpy()
    assert scales == pytest.approx(found.keypoints.sigma * extract.support / 2, rel=1e-4)
    assert responses[0].numpy() == pytest.approx(found.keypoints.scores)
    # A LAF spans the patch from -1 to 1.
    cut = patches_module.cut(
        photos[0], hynet.Keypoints(lafs[0], responses[0]), extract.descriptor.patch_size, support=2
    )
    assert np.abs(rows[0].numpy() - hynet.load(model).describe(cut)).max() < 1e-5
    apart = np.abs(rows[0].numpy() - found.descriptors).max(1)
    assert np.median(apart) < 1e-5
    assert apart.max() < 1e-3  # where the size, rounded to float32, moved a pixel's last grey level
    assert not lafs[1].any()  # nothing in the grey one: empty slots
    assert not responses[1].any()


def test_kornia_s_matcher_filters_and_matches_with_it(photos):
    first, second, truth = synthetic.photo_pair(5, (320, 240))
    matcher = feature.LocalFeatureMatcher(
        local_feature(model="rootsift", max_keypoints=150), feature.DescriptorMatcher("mnn")
    )
    a, b = (torch.from_numpy(photo[None, None] / np.float32(255)) for photo in (first, second))
    found = matcher({"image0": a, "image1": b})
    moved = np.column_stack([found["keypoints0"].numpy(), np.ones(len(found["keypoints0"]))]) @ truth.T
    apart = np.linalg.norm(moved[:, :2] / moved[:, 2:] - found["keypoints1"].numpy(), axis=1)
    assert (apart < 3).sum() > 40


def test_a_mask_hides_and_what_is_no_image_or_network_is_told(images):
    mask = torch.zeros(2, 1, 240, 320)
    mask[:, :, :, :160] = 1
    lafs, _, _ = local_feature(max_keypoints=60, model="rootsift")(images, mask)
    assert 0 < lafs[..., 0, 2].max() < 160
    with pytest.raises(BadInput, match="images must be"):
        local_feature(model="rootsift")(images[0])
    with pytest.raises(BadInput, match="not a network"):
        PatchDescriptor("rootsift")
