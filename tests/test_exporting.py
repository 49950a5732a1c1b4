from __future__ import annotations

import json

import numpy as np
import pytest

from hynet import descriptors, load
from hynet.cli import main
from hynet.datasets import synthetic, ubc
from hynet.errors import BadInput, BadWeights, UnknownName
from hynet.features.export import Disagreement
from hynet.features.export.descriptors import AGREE, export, export_int8
from hynet.types import PatchSet


@pytest.fixture(scope="module")
def some() -> np.ndarray:
    return synthetic.patch_set(points=100, patches_per_point=2, seed=5).patches


def test_a_torch_program_says_the_same(tmp_path):
    assert export(descriptors.TFeat().eval(), tmp_path / "m.pt2") < AGREE
    assert (tmp_path / "m.pt2").exists()


def test_a_network_without_a_graph_of_its_own_is_written_by_torch(tmp_path, some):
    network = descriptors.TFeat().eval()
    assert export(network, tmp_path / "m.onnx", {"support": "18.5"}) < AGREE
    written = load(tmp_path / "m.onnx")
    assert written.support == 18.5
    np.testing.assert_allclose(written.describe(some[:20]), network.describe(some[:20]), atol=AGREE)


@pytest.mark.slow
@pytest.mark.parametrize("make", [descriptors.L2Net, descriptors.HardTFeat, lambda: descriptors.HyNet(norm="bn")])
def test_so_are_all_the_others(make, tmp_path):
    assert export(make().eval(), tmp_path / "m.onnx") < AGREE


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_does_not_agree_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("hynet.features.export.descriptors.AGREE", -1.0)  # nothing agrees as well as that
    with pytest.raises(Disagreement, match="not written"):
        export(descriptors.HyNet(), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_gives_nan_is_not_exported(tmp_path, some):
    network = descriptors.HyNet()
    network.layer3[0].weight.data[:] = np.nan
    with pytest.raises(BadWeights, match="NaN or infinity"):
        export(network, tmp_path / "m.onnx")
    with pytest.raises(BadWeights, match="NaN or infinity"):
        export_int8(network, tmp_path / "m.onnx", some)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("affnet", "pt2"),
        ("affnet", "openvino"),
        ("keynet", "openvino"),
        pytest.param("keynet", "pt2", marks=pytest.mark.slow),
    ],
)
def test_shape_network_and_detector_say_the_same_in_every_format(kind, ending, tmp_path, capsys):
    if ending == "openvino":
        pytest.importorskip("openvino")
    from safetensors.torch import save_file

    from hynet.features.detectors.affnet import AffNet

    model = "keynet"
    if kind == "affnet":
        model = str(tmp_path / "affnet.safetensors")
        save_file(AffNet().state_dict(), model)
    assert main(["export", "--model", model, "--to", str(tmp_path / f"m.{ending}"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["difference"] < AGREE


def test_openvino_runs_what_was_written_for_it(tmp_path, some):
    openvino = pytest.importorskip("openvino")
    network = descriptors.TFeat().eval()
    assert export(network, tmp_path / "m.openvino", {"support": "18.5", "ratio": "0.9"}) < AGREE
    assert sorted(path.name for path in (tmp_path / "m.openvino").iterdir()) == ["model.bin", "model.xml"]
    written = load(tmp_path / "m.openvino")
    assert (written.support, written.ratio, written.dim, written.patch_size) == (18.5, 0.9, 128, 32)
    for count in (0, 1, 20):  # any batch
        np.testing.assert_allclose(written.describe(some[:count]), network.describe(some[:count]), atol=AGREE)
    assert (
        openvino.Core().read_model(tmp_path / "m.openvino" / "model.xml").inputs[0].element_type.get_type_name() == "u8"
    )
    (tmp_path / "m.openvino" / "model.xml").write_text("no")
    with pytest.raises(BadWeights, match="OpenVINO's format"):
        load(tmp_path / "m.openvino")
    (tmp_path / "taken.openvino").mkdir()
    (tmp_path / "taken.openvino" / "mine.txt").write_text("keep")
    with pytest.raises(BadInput, match="something else"):
        export(network, tmp_path / "taken.openvino")
    assert (tmp_path / "taken.openvino" / "mine.txt").read_text() == "keep"


def test_an_unknown_format_lists_the_known_ones(tmp_path):
    with pytest.raises(UnknownName, match=r"\.onnx, \.pt2 or \.openvino"):
        export(descriptors.TFeat(), tmp_path / "m.tflite")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("--model default --ratio nan", "the ratio must be above 0"),
        ("--model default --support -3", "the support must be more than 0"),
        ("--model rootsift", "no network 'rootsift'; choose default"),
    ],
)
def test_what_cannot_be_exported_gets_one_sentence(asked, told, tmp_path, capsys):
    assert main(f"export {asked} --to {tmp_path}/m.onnx".split()) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_integers_need_a_network_that_has_them_enough_patches_and_onnx(tmp_path, some):
    with pytest.raises(BadInput, match="only HyNet with FRN, LightNet, DesDis and AffNet"):
        export_int8(descriptors.TFeat(), tmp_path / "m.onnx", some)
    with pytest.raises(BadInput, match="50 patches or more, got 7"):
        export_int8(descriptors.HyNet(), tmp_path / "m.onnx", some[:7])
    with pytest.raises(BadInput, match=r"\.onnx, not as 'm\.pt2'"):
        export_int8(descriptors.HyNet(), tmp_path / "m.pt2", some)


def test_the_command_writes_the_same_integers_every_time(tmp_path, some, capsys):
    from safetensors.torch import save_file

    save_file(descriptors.HyNet().state_dict(), tmp_path / "m.safetensors")
    number, origin = np.arange(len(some)), np.zeros(len(some))
    places = {"xy": np.zeros((len(some), 2)), "angle": origin, "log2_scale": origin}
    ubc.write(tmp_path / "set", PatchSet(some, number // 2, number), **places)
    for name in ("first", "second"):
        given = ["--model", str(tmp_path / "m.safetensors"), "--to", str(tmp_path / f"{name}.onnx"), "--ratio", "0.9"]
        assert main(["export", *given, "--int8", str(tmp_path / "set")]) == 0
        assert "to a cosine of 0.99" in capsys.readouterr().out
    assert (tmp_path / "first.onnx").read_bytes() == (tmp_path / "second.onnx").read_bytes()
    assert load(tmp_path / "first.onnx").ratio == 0.9


def test_a_set_that_is_not_there_is_said_in_one_sentence(tmp_path, capsys):
    from safetensors.torch import save_file

    save_file(descriptors.HyNet().state_dict(), tmp_path / "m.safetensors")
    given = ["--model", str(tmp_path / "m.safetensors"), "--to", str(tmp_path / "m.onnx")]
    assert main(["export", *given, "--int8", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
