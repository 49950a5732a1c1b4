"""Shapes by a network trained here: it learns what undoes a warp, goes on when stopped, and is used without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import cv2
import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import hynet
from conftest import write_set
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput, BadWeights
from hynet.features.detectors import shape as numpy_shape
from hynet.features.detectors.affine_network import SHIPPED, AffineNetwork
from hynet.features.detectors.dog import DoG
from hynet.features.settings import FeatureSettings
from hynet.features.shards import weights_of
from hynet.types import Keypoints

torch = pytest.importorskip("torch")
from hynet.features.detectors import affnet  # noqa: E402
from hynet.features.export.affine_network import AGREE_INT8  # noqa: E402
from hynet.training import loop, shape, warps  # noqa: E402
from hynet.training.recipes import SHAPE  # noqa: E402

TINY = replace(SHAPE, minutes=None, steps=4, pairs_per_batch=8, log_every=1, checkpoint_minutes=0.0)


@pytest.fixture(scope="module")
def patches():
    return synthetic.patch_set(60, 4, seed=1)


def random(seed: int = 0):
    return torch.Generator().manual_seed(seed)


# --- warps and shapes ------------------------------------------------------------------------------------------------


def test_shapes_with_gradients_are_those_of_the_detectors():
    A = torch.randn(200, 2, 2, generator=random(), dtype=torch.float64).requires_grad_()
    ours = warps.upright(A)
    assert ours.detach().numpy() == pytest.approx(numpy_shape.upright(A.detach().numpy()), rel=1e-9)
    assert torch.autograd.gradcheck(warps.upright, A[:5].detach().requires_grad_())


def test_the_numbers_of_a_network_are_read_as_when_it_is_used(monkeypatch):
    numbers = torch.tanh(torch.randn(50, 3, generator=random()))
    numbers[0] = -1  # an ellipse of no area
    used = AffineNetwork(SHIPPED)
    monkeypatch.setattr(used, "_run", lambda tile: numbers.numpy()[: len(tile)])
    monkeypatch.setattr("hynet.features.detectors.affine_network.TILE", len(numbers))
    round_ones = Keypoints.from_circles(np.full((50, 2), 100), np.ones(50), np.zeros(50), np.ones(50))
    found = used(np.zeros((200, 200), np.uint8), round_ones)
    assert warps.shapes_of(numbers).numpy() == pytest.approx(found.frames[:, :, :2], rel=1e-4, abs=1e-4)


def test_warps_have_area_one_keep_the_vertical_and_stretch_no_more_than_asked():
    upright = warps.random_warps(500, random(), 2.5, 0.0)
    assert torch.linalg.det(upright) == pytest.approx(1, abs=1e-5)
    assert upright[:, 0, 1] == pytest.approx(0, abs=1e-6)
    longest, shortest = torch.linalg.svdvals(upright).T
    assert 2.2 < (longest / shortest).max() <= 2.5 + 1e-4
    turned = warps.random_warps(500, random(), 1.0, 0.1)  # no stretch: rotations
    angles = torch.atan2(turned[:, 1, 0], turned[:, 0, 0])
    assert 0.09 < angles.abs().max() <= 0.1


def test_the_shape_that_undoes_a_warp_gives_the_unwarped_region():
    patch = torch.from_numpy(synthetic.patch_set(4, 2).patches[:, None]).float()
    plain = torch.eye(2).expand(len(patch), 2, 2)
    warp = warps.random_warps(len(patch), random(), 2.0, 0.0)
    back = warps.sampled(patch, warp @ warps.upright(torch.linalg.inv(warp)))
    assert back == pytest.approx(warps.sampled(patch, plain), abs=0.01)
    middle = cv2.resize(patch[0, 0].numpy()[9:-9, 9:-9], (32, 32), interpolation=cv2.INTER_LINEAR)  # 46 of 64 pixels
    assert np.corrcoef(middle.ravel(), warps.sampled(patch, plain)[0].ravel())[0, 1] > 0.99


# --- training --------------------------------------------------------------------------------------------------------


def frames_apart(network, patches) -> float:
    """Between two views of one patch under different warps, in their frames."""
    pixels = torch.from_numpy(patches.patches[::4, None]).float().repeat(2, 1, 1, 1)
    warp = warps.random_warps(len(pixels), random(9), 2.5, 0.0)
    with torch.inference_mode():
        first, second = shape.shaped(network, pixels, warp).chunk(2)
    return float((first - second).square().sum((1, 2)).sqrt().mean())


def test_an_untrained_network_says_round():
    network = shape.start(TINY).network.eval()
    assert network(torch.rand(5, 1, 32, 32, generator=random()) * 255).abs().max() < 0.2


def test_a_run_can_go_on_from_weights():
    weights = SHIPPED.with_suffix(".safetensors")
    started = shape.start(replace(TINY, start_from=str(weights))).network.state_dict()
    assert all(torch.equal(value, started[name]) for name, value in affnet.load(weights).state_dict().items())


def test_steps_bring_the_warped_patches_of_pairs_nearer(patches):
    task = shape.Shape(TINY, {"a": patches})
    batch = next(task.batches(0))
    d_pos = []
    for _ in range(60):
        terms = task.terms(*batch)
        d_pos.append(float(terms.d_pos.mean()))
        loop.step(task.state, terms.total, 0.0005)
    assert d_pos[-1] < 0.85 * d_pos[0]


def test_only_the_network_learns_and_the_descriptor_stays(patches):
    task = shape.Shape(TINY, {"a": patches})
    _, descriptor = task.networks()
    before = {name: value.clone() for name, value in descriptor.state_dict().items()}
    loop.step(task.state, task.terms(*next(task.batches(0))).total, 0.01)
    assert all(torch.equal(value, before[name]) for name, value in descriptor.state_dict().items())
    assert all(weight.grad.abs().sum() > 0 for weight in task.state.network.parameters())


def test_a_run_is_not_overwritten_nor_continued_with_other_warps(tmp_path, patches):
    config = replace(TINY, steps=1)
    hynet.train(config, {"a": patches}, tmp_path)
    with pytest.raises(BadInput, match="already holds a run"):
        hynet.train(config, {"a": patches}, tmp_path)
    with pytest.raises(BadInput, match=r"tilt was 2\.5, now 2\.0"):
        hynet.train(replace(config, tilt=2.0), {"a": patches}, tmp_path, resume=True)


def test_the_command_trains_a_network_that_shape_takes(tmp_path, capsys):
    write_set(tmp_path / "set", 60, seed=1)
    write_set(tmp_path / "other", 20, seed=5)
    asked = f"train shape --data {tmp_path}/set --validate {tmp_path}/other --out {tmp_path}/run --steps 2"
    assert main([*asked.split(), "--pairs-per-batch", "8", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["steps"] == 2
    assert set(told["round"]) == set(told["validation"]) == {f"{tmp_path}/other"}
    photo = synthetic.photo_pair(4, (320, 240))[0]
    assert len(hynet.Extractor(model="rootsift", max_keypoints=50, shape=told["file"])(photo)) > 10
    assert AffineNetwork(told["file"]).support == pytest.approx(24 / 1.4, rel=1e-3)

    # A finished run that is called again is told of the sets that are named then
    for sets in ((), ("--validate", f"{tmp_path}/third")):
        if sets:
            write_set(tmp_path / "third", 20, seed=6)
        again = ["--resume", "--validate-minutes", "100", "--pairs-per-batch", "8", "--json", *sets]
        assert main([*asked.replace(f"--validate {tmp_path}/other ", "").split(), *again]) == 0
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        for measured in ("validation", "before", "round", "unwarped"):
            assert set(told[measured]) == set(sets[1:])
        assert told["checkpoint"] == f"{tmp_path}/run/{'best' if sets else 'last'}.pt"


def test_a_network_looks_at_patches_as_wide_as_those_it_learnt_from(tmp_path):
    photo = synthetic.photo_pair(4, (320, 240))[0]
    keypoints = DoG(50, upright=True)(photo)
    known = AffineNetwork()
    save_file(load_file(SHIPPED.with_suffix(".safetensors")), tmp_path / "published.safetensors")  # which says nothing
    unknown = AffineNetwork(tmp_path / "published.safetensors")
    narrow, wide = (unknown(photo, keypoints, support).frames for support in (known.support, 24.0))
    found = known(photo, keypoints, 24.0).frames
    assert np.abs(found - narrow).mean() < 0.3 * np.abs(narrow - wide).mean()
    ours = AffineNetwork(SHIPPED.with_suffix(".safetensors"))  # in floats
    assert ours.support == pytest.approx(known.support, rel=1e-3)
    assert np.abs(ours(photo, keypoints, 24.0).frames - narrow).mean() < 0.1 * np.abs(narrow - wide).mean()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--steps 1 --minutes 1", "give exactly one of them"),
        ("--steps 1 --tilt 0.5", "tilt must be 1 or more"),
        ("--steps 0", "steps must be more than 0"),
        ("--minutes 0", "minutes must be more than 0"),
        ("--steps 1 --descriptor rootsift --pairs-per-batch 8", "rootsift"),
        ("--steps 1 --validate {set}", "which is trained on"),
        ("--steps 1 --pairs-per-batch 100", "there are 60"),
    ],
)
def test_a_run_that_cannot_be_is_refused_in_a_sentence(options, sentence, tmp_path, capsys):
    write_set(tmp_path / "set", 60, seed=1)
    asked = f"train shape --data {{set}} --out {tmp_path}/run {options}".format(set=tmp_path / "set")
    assert main(asked.split()) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


# --- what ships ------------------------------------------------------------------------------------------------------


def test_the_shipped_file_says_nearly_what_its_weights_say():
    patches = synthetic.patch_set(30, 2, seed=3).patches[:, ::2, ::2]
    in_integers, in_floats = (AffineNetwork(SHIPPED.with_suffix(end)) for end in (".onnx", ".safetensors"))
    assert np.abs(in_integers.numbers(patches) - in_floats.numbers(patches)).mean() < AGREE_INT8


def test_the_shipped_network_undoes_warps_it_has_never_seen():
    unseen = synthetic.patch_set(100, 4, seed=11)
    assert frames_apart(affnet.load(SHIPPED.with_suffix(".safetensors")), unseen) < 0.6 * frames_apart(None, unseen)


def test_affine_shapes_need_no_torch(tmp_path):
    for number, photo in enumerate(synthetic.photo_pair(4, (320, 240))[:2]):
        cv2.imwrite(str(tmp_path / f"{number}.png"), photo)
    code = (
        "import sys; from hynet.cli import main; "
        f"code = main('match {tmp_path}/0.png {tmp_path}/1.png --shape affine-network --json'.split()); "
        "print(code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *told, last = done.stdout.splitlines()
    assert last == "0 False"
    assert json.loads(told[-1])["inliers"] > 20


def test_the_shipped_network_has_a_name_and_features_know_its_weights(tmp_path, monkeypatch):
    photo = synthetic.photo_pair(4, (320, 240))[0]
    by_name, by_path = (
        hynet.Extractor(model="rootsift", max_keypoints=100, shape=one)(photo) for one in ("affine-network", SHIPPED)
    )
    np.testing.assert_array_equal(by_name.keypoints.frames, by_path.keypoints.frames)
    assert weights_of(FeatureSettings(shape="affine-network")) == weights_of(FeatureSettings(shape=str(SHIPPED)))
    assert weights_of(FeatureSettings(shape="affine-network")) != weights_of(FeatureSettings())


def test_info_and_export_know_the_shipped_network(tmp_path, capsys):
    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"]["shape"]["kind"] == "shape"
    assert main(["export", "--model", "shape", "--to", str(tmp_path / "mine.onnx")]) == 0
    patches = synthetic.patch_set(5, 2).patches[:, ::2, ::2]
    in_floats, in_integers = AffineNetwork(tmp_path / "mine.onnx"), AffineNetwork()
    assert np.abs(in_floats.numbers(patches) - in_integers.numbers(patches)).mean() < AGREE_INT8


def test_a_file_that_is_not_weights_is_refused(tmp_path):
    (tmp_path / "text.safetensors").write_text("no weights")
    with pytest.raises(BadWeights, match="not a weights file"):
        AffineNetwork(tmp_path / "text.safetensors")
    with pytest.raises(BadInput, match="choose none, baumberg or affine-network"):
        hynet.Extractor(shape="afine-network")
