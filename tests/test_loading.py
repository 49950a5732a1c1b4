from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import shared_file
from hynet import descriptors, load
from hynet.errors import BadInput, BadWeights
from hynet.features.descriptors.weights import network


@pytest.mark.parametrize("norm", ["frn", "bn", "in", "bn-affine"])
@pytest.mark.parametrize("wrap", ["bare", "checkpoint", "hardnet", "parallel", "joint", "joint, from a package"])
def test_weights_are_recognised_by_their_keys_however_wrapped(norm, wrap, tmp_path, patches):
    trained = descriptors.HyNet(norm=norm).eval()
    state, shapes = trained.state_dict(), {"joint_shape.features.0.weight": torch.ones(16, 1, 3, 3)}
    wrapped = {
        "bare": state,
        "checkpoint": {"network": state, "step": 7},
        "hardnet": {"epoch": 3, "state_dict": state},
        "parallel": {f"_orig_mod.module.{key}": value for key, value in state.items()},
        "joint": {f"joint_descriptor.{key}": value for key, value in state.items()} | shapes,
        "joint, from a package": {f"joint_descriptor.adapted_module.{key}": value for key, value in state.items()},
    }[wrap]
    torch.save(wrapped, tmp_path / "some.pth")
    np.testing.assert_array_equal(load(tmp_path / "some.pth").describe(patches), trained.describe(patches))


def test_safetensors_load_too(tmp_path, patches):
    from safetensors.torch import save_file

    trained = descriptors.HyNet()
    save_file(trained.state_dict(), tmp_path / "m.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "m.safetensors").describe(patches), trained.describe(patches))


def test_hardtfeat_ignores_the_extra_buffers(tmp_path, patches):
    trained = descriptors.HardTFeat()
    torch.save({"state_dict": trained.state_dict() | {"SIFT.gx.0.weight": torch.ones(1, 1, 1, 3)}}, tmp_path / "h.pth")
    np.testing.assert_array_equal(load(tmp_path / "h.pth").describe(patches), trained.describe(patches))


@pytest.mark.parametrize(("width", "parameters"), [(32, 502_176), (16, 191_248)])
def test_desdis_is_recognised_in_both_widths_by_the_keys_of_its_published_weights(width, parameters, tmp_path, patches):
    trained = descriptors.DesDis(width)
    assert sum(weights.numel() for weights in trained.parameters()) == parameters
    assert {key: tuple(value.shape) for key, value in trained.named_parameters()} == {
        "layer1.1.weight": (width, 1, 3, 3),
        "layer2.0.weight": (2 * width, width, 3, 3),
        "layer3.0.weight": (4 * width, 2 * width, 3, 3),
        "layer3.3.weight": (4 * width, 4 * width, 3, 3),
        "desc.1.weight": (128, 4 * width, 4, 4),
        "desc.1.bias": (128,),
    }
    torch.save(trained.state_dict(), tmp_path / "some.pth")
    np.testing.assert_array_equal(load(tmp_path / "some.pth").describe(patches), trained.describe(patches))


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("tfeat-liberty.params", "TFeat"),
        ("hardtfeat.pth", "HardTFeat"),
        ("DesDis-32.pth", "DesDis"),
        ("DesDis-16.pth", "DesDis"),
    ],
)
def test_published_weights_load_from_their_path(file, kind):
    assert type(network(shared_file(f"weights/{file}"))).__name__ == kind


class Evil:
    """What a hostile pickle would run."""

    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.parametrize(
    "content", [b"", b"not weights at all", b"PK\x03\x04 a broken zip", "folder", "pickle", "foreign", "numbers", "cut"]
)
def test_a_file_that_is_no_weights_gets_one_clear_sentence(content, tmp_path, capsys):
    path = tmp_path / "bad.pth"
    if content == "folder":
        path.mkdir()
    elif content == "pickle":
        torch.save({"network": Evil()}, path)
    elif content == "foreign":
        torch.save({"encoder.weight": torch.ones(3)}, path)
    elif content == "numbers":
        torch.save({3: torch.ones(3)}, path)
    elif content == "cut":
        state = descriptors.HyNet().state_dict()
        torch.save({key: value for key, value in state.items() if "layer5" not in key}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(BadWeights) as error:
        load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""


def test_a_broken_safetensors_file_gets_one_clear_sentence(tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(b"0" * 100)
    with pytest.raises(BadWeights, match="not a weights file"):
        load(tmp_path / "bad.safetensors")


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(BadInput, match="rootsift"):
        load("rootsfit")


def test_a_folder_of_the_same_name_does_not_hide_a_descriptor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rootsift").mkdir()
    assert load("rootsift").dim == 128
    with pytest.raises(BadInput, match="no model ''"):
        load("")


def test_a_network_without_weights_says_what_it_needs():
    with pytest.raises(BadInput, match="needs weights"):
        load("hynet")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
@pytest.mark.parametrize("name", ["default", "rootsift"])
def test_a_device_that_is_not_there_is_refused_and_nothing_runs_elsewhere(name):
    with pytest.raises(BadInput, match="device 'cuda'"):
        load(name, device="cuda")
    assert load(name, device="cpu").dim == 128


def test_onnx_runtime_does_not_pretend_to_use_another_device():
    with pytest.raises(BadInput, match="ONNX Runtime runs on the CPU here, not on 'cuda'"):
        load("default", engine="onnx", device="cuda")


def test_an_unknown_engine_lists_those_there_are():
    with pytest.raises(BadInput, match="no engine 'tensorflow'; choose onnx, compressed, openvino or torch"):
        load("default", engine="tensorflow")


def test_an_engine_from_outside_opens_its_files(tmp_path, monkeypatch):
    from hynet.descriptors import ENGINES, EnginePart

    monkeypatch.setitem(ENGINES, "copying", EnginePart(f"{__name__}:Copying", package="copying"))
    (tmp_path / "m.copy").write_bytes(b"")
    assert isinstance(load(tmp_path / "m.copy"), Copying)
    assert isinstance(load(tmp_path / "m.copy", engine="copying"), Copying)


class Copying:
    """An engine as a package would bring it."""

    suffixes = (".copy",)

    def __init__(self, path, device=None):
        self.path = path


class Recognising(torch.nn.Module):
    """A network as a package would bring it: a plain module, with options, that recognises its weights."""

    def __init__(self, dim):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32 * 32, dim))

    def forward(self, x):
        return self.layers(x)

    @classmethod
    def recognise(cls, weights):
        made = cls(len(weights["layers.1.bias"]))
        made.load_state_dict(weights)
        return made


class Failing(torch.nn.Module):
    @classmethod
    def recognise(cls, weights):
        raise KeyError("conv.weight")


def test_a_plain_module_from_outside_recognises_its_weights_though_another_package_fails(
    tmp_path, monkeypatch, patches
):
    from hynet.descriptors import DESCRIPTORS, DescriptorPart

    for kind in (Failing, Recognising):
        monkeypatch.setitem(
            DESCRIPTORS, kind.__name__, DescriptorPart(f"{__name__}:{kind.__name__}", package="outside")
        )
    torch.save(Recognising(7).state_dict(), tmp_path / "seven.pt")
    found = load(tmp_path / "seven.pt", device="cpu")
    assert (found.dim, found.describe(patches).shape[1]) == (7, 7)
    torch.save({"strange": torch.zeros(1)}, tmp_path / "strange.pt")
    with pytest.raises(
        BadWeights, match=r"holds weights of none of .*test_loading:Failing of the package outside fails"
    ):
        load(tmp_path / "strange.pt")
