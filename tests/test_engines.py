from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hynet import descriptors, load
from hynet.errors import BadInput, BadWeights
from hynet.features.descriptors.onnx import OnnxEngine
from hynet.features.export.descriptors import AGREE, export
from hynet.features.export.onnx_graph import FLOAT, UINT8, Graph


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A network with random weights, and the .onnx file made of it."""
    network = descriptors.HyNet().eval()
    path = tmp_path_factory.mktemp("engine") / "m.onnx"
    assert export(network, path, {"support": "18.5", "trained on": "nothing"}) < AGREE
    return network, path


def test_onnx_runtime_says_the_same_as_torch_for_any_number_and_size(exported, patches):
    network, path = exported
    engine = load(path)
    for some in (patches, patches[:1], np.tile(patches, (4, 1, 1)), np.repeat(np.repeat(patches, 2, 1), 2, 2)):
        np.testing.assert_allclose(engine.describe(some), network.describe(some), atol=1e-4)
    assert engine.describe(patches[:0]).shape == (0, 128)


def test_a_model_carries_what_belongs_to_its_weights(exported):
    engine = OnnxEngine(exported[1])
    assert (engine.support, engine.about["trained on"]) == (18.5, "nothing")
    assert engine.ratio is None


def test_using_a_model_never_imports_torch(exported):
    code = (
        f"import sys, hynet, numpy; hynet.load({str(exported[1])!r}).describe(numpy.zeros((2, 64, 64), 'uint8'));"
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_the_number_of_threads_changes_nothing(exported, patches):
    many = np.tile(patches, (3, 1, 1))[:-3]
    rows = [OnnxEngine(exported[1], threads).describe(many) for threads in (1, 3)]
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("content", [b"", b"not a model"])
def test_a_file_that_is_no_model_gets_one_sentence(content, tmp_path):
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(BadWeights, match="is not a network in ONNX"):
        load(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("columns", "about", "sentence"),
    [
        (100, {}, "running the network failed"),  # 32 x 32 pixels do not fill rows of 100
        (64, {}, r"gives \(16, 64\) for 1 patches"),
        (1024, {"support": "wide"}, "says that its support is 'wide'"),
        (1024, {"ratio": "nan"}, "says that its ratio is 'nan'"),
        (1024, {"tile": "many"}, "says that its tile is 'many'"),
    ],
)
def test_a_network_that_opens_but_cannot_be_used_gets_one_sentence(tmp_path, columns, about, sentence):
    graph = Graph("patches")
    rows = graph.add("Reshape", graph.add("Cast", "patches", to=FLOAT), np.array([-1, columns]))
    made = graph.model((UINT8, ["n", 32, 32]), rows, (FLOAT, ["m", columns]), about)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(BadWeights, match=sentence):
        load(tmp_path / "m.onnx").describe(np.zeros((1, 32, 32), np.uint8))


def test_a_network_that_is_no_descriptor_gets_one_sentence():
    from hynet.features.detectors.keynet import SHIPPED

    with pytest.raises(BadWeights, match="is another network than a descriptor"):
        load(SHIPPED)


@pytest.mark.parametrize("model", ["default", "light"])
def test_a_model_ships_and_tells_matching_patches_from_others(model):
    from hynet.datasets import synthetic
    from hynet.metrics import fpr95

    patch_set = synthetic.patch_set(points=300, patches_per_point=2, seed=7)
    first = np.arange(0, 600, 2)
    second = np.concatenate([first + 1, np.roll(first, 1)])
    is_match = np.arange(600) < 300
    first = np.concatenate([first, first])
    errors = {}
    for name in (model, "rootsift"):
        rows = load(name).describe(patch_set.patches)
        errors[name] = fpr95(np.linalg.norm(rows[first] - rows[second], axis=1), is_match)
    assert errors[model] < errors["rootsift"]


def test_torch_says_the_same_as_the_default_engine_and_knows_the_same(patches):
    by_onnx, by_torch = load("default-float"), load("default", engine="torch", device="cpu")
    np.testing.assert_allclose(by_torch.describe(patches), by_onnx.describe(patches), atol=1e-5)
    assert (by_torch.support, by_torch.ratio) == (by_onnx.support, by_onnx.ratio)


def test_the_default_model_is_in_integers_and_agrees_with_its_reference_in_floats(patches):
    cosines = (load("default").describe(patches) * load("default-float").describe(patches)).sum(1)
    assert cosines.min() > 0.98
    assert cosines.mean() > 0.999


def test_the_former_name_of_the_default_model_stays(patches):
    from hynet.features.calibrated import places

    np.testing.assert_array_equal(load("default-int8").describe(patches[:3]), load("default").describe(patches[:3]))
    assert places("default-int8") == places("default")


def test_the_reference_in_floats_has_the_weights_of_the_default_for_torch(patches):
    rows = [load(name, engine="torch", device="cpu").describe(patches[:3]) for name in ("default", "default-float")]
    np.testing.assert_array_equal(*rows)


def test_light_in_integers_agrees_with_its_weights_and_torch_goes_on_from_them(patches):
    by_onnx, by_torch = load("light"), load("light", engine="torch", device="cpu")
    assert (by_onnx.describe(patches) * by_torch.describe(patches)).sum(1).mean() > 0.999
    assert (by_torch.support, by_torch.ratio) == (by_onnx.support, by_onnx.ratio)
    assert isinstance(by_torch, descriptors.LightNet)


def test_an_engine_that_cannot_be_had_is_said_in_one_sentence(exported, tmp_path):
    import torch

    with pytest.raises(BadInput, match="choose onnx, compressed, openvino or torch"):
        load("default", engine="tensorrt")
    with pytest.raises(BadInput, match="no weights for torch beside"):
        load(exported[1], engine="torch")
    with pytest.raises(BadInput, match="cannot use the device 'gpu'"):
        load("default", engine="torch", device="gpu")
    torch.save(exported[0].state_dict(), tmp_path / "m.pth")
    with pytest.raises(BadInput, match=r"hynet export --model .*m\.pth"):
        load(tmp_path / "m.pth", engine="onnx")


@pytest.mark.slow
def test_the_bench_compares_engines_that_agree(capsys):
    import json

    from hynet.cli import main

    assert main(["bench", "describe", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["ratio"] is None for row in rows] == [False] * 5 + [True]
    assert rows[0]["name"] == "kornia's HyNet"
