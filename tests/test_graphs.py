from __future__ import annotations

import numpy as np
import pytest
import torch

from hynet import descriptors
from hynet.features.descriptors.layers import FRN, TLU
from hynet.features.export.descriptors import AGREE_INT8, export, export_int8


def unruly(seed: int) -> torch.nn.Module:
    """HyNet with norms as training never leaves them: gains of both signs and of none, floors above and below 0."""
    torch.manual_seed(seed)
    network = descriptors.HyNet().eval()
    for module in network.modules():
        if isinstance(module, FRN):
            module.weight.data.normal_()
            module.bias.data.normal_(std=0.5)
            if module.weight.numel() > 1:
                module.weight.data[0, 0] = 0
        elif isinstance(module, TLU):
            module.tau.data.normal_(mean=-0.5, std=0.5)
        elif isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return network


@pytest.fixture(scope="module")
def many() -> np.ndarray:
    from hynet.datasets import synthetic

    return synthetic.patch_set(points=50, patches_per_point=4, seed=3).patches


@pytest.mark.parametrize("seed", [0, 1])
def test_the_graph_is_the_network_whatever_its_norms(seed, tmp_path, many):
    network = unruly(seed)
    assert export(network, tmp_path / "m.onnx") < 1e-5
    said = descriptors_of(tmp_path / "m.onnx", many[:40])
    np.testing.assert_allclose(said, network.describe(many[:40]), atol=1e-5)


def lived_in(network: torch.nn.Module) -> torch.nn.Module:
    """With BatchNorms that have seen something, as training leaves them."""
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.2)
            module.running_var.uniform_(0.1, 1)
            if module.affine:
                module.weight.data.uniform_(0.5, 2)
                module.bias.data.normal_()
    return network.eval()


NETWORKS = {
    "fresh": lambda: descriptors.HyNet().eval(),
    "unruly": lambda: unruly(2),
    "lightnet": lambda: lived_in(descriptors.LightNet()),
    "desdis": lambda: lived_in(descriptors.DesDis(16)),
}


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_integers_keep_the_direction_of_every_descriptor(make, tmp_path, many):
    network = make()
    assert export_int8(network, tmp_path / "m.onnx", many, {"ratio": "0.8"}) > AGREE_INT8
    cosines = (descriptors_of(tmp_path / "m.onnx", many) * network.describe(many)).sum(1)
    assert cosines.min() > 0.98
    assert (tmp_path / "m.onnx").stat().st_size < 1.5e6


@pytest.mark.parametrize("make", [descriptors.HyNet, descriptors.LightNet])
def test_patches_without_any_structure_get_finite_unit_rows(make, tmp_path, many):
    flat = np.stack([np.full((32, 32), level, np.uint8) for level in (0, 1, 128, 255)])
    network = lived_in(make())
    export(network, tmp_path / "f.onnx")
    export_int8(network, tmp_path / "i.onnx", many)
    for name in ("f.onnx", "i.onnx"):
        lengths = np.linalg.norm(descriptors_of(tmp_path / name, flat), axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-4)


def descriptors_of(path, patches: np.ndarray) -> np.ndarray:
    from hynet.features.descriptors.onnx import OnnxEngine

    return OnnxEngine(path).describe(patches)
