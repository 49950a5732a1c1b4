"""Key.Net here says what kornia's says, keypoints are where the pixels are, and training goes where the loss points."""

from __future__ import annotations

import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest

import hynet
from conftest import shared_file
from hynet.datasets import synthetic
from hynet.detectors import open_detector
from hynet.errors import BadInput, BadWeights
from hynet.features.detectors import keynet
from hynet.features.detectors.keynet import KeyNet, score_map
from hynet.features.models import shipped
from hynet.images.patches import SUPPORT_SIGMAS
from hynet.types import Keypoints

torch = pytest.importorskip("torch")
from hynet.features.detectors.keynet_network import KeyNetwork, load  # noqa: E402
from hynet.features.export.keynet import export  # noqa: E402
from hynet.training import keynet as keynet_training  # noqa: E402


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    return synthetic.photo_pair(3, (480, 360))[0]


# --- the network -----------------------------------------------------------------------------------------------------


def kornias(state):
    feature = pytest.importorskip("kornia.feature")
    theirs = feature.KeyNet(pretrained=False)
    theirs.load_state_dict(state)
    return theirs.eval()


def random_network(seed: int = 0) -> KeyNetwork:
    """With statistics that matter: fresh ones would hide a batch normalisation that is left out."""
    torch.manual_seed(seed)
    network = KeyNetwork()
    for name, values in network.state_dict().items():
        if name.endswith(("running_mean", "running_var", "1.weight", "1.bias", "last_conv.0.bias")):
            values.uniform_(0.5, 1.5)
        elif name.endswith("conv0.0.weight"):
            values *= 50  # derivatives are small numbers
    return network.eval()


def assert_same_scores(ours, theirs, image: np.ndarray) -> None:
    grey = torch.from_numpy(image)[None, None].float() / 255
    with torch.inference_mode():
        said, expected = ours(grey), theirs(grey)
    assert expected.max() > 0
    assert (said - expected).abs().max() < 1e-4 * expected.max()


def test_the_scores_are_kornias(photo):
    network = random_network()
    assert_same_scores(network, kornias(network.state_dict()), photo[:101, :87])


def test_published_weights_give_kornias_scores(photo):
    path = shared_file("weights/keynet.pth")
    state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    assert_same_scores(load(path), kornias(state), photo)


def test_weights_of_another_network_are_refused(tmp_path):
    state = KeyNetwork().state_dict()
    state.pop("last_conv.0.bias")
    torch.save(state, tmp_path / "less.pth")
    (tmp_path / "text.pth").write_text("no weights")
    (tmp_path / "text.onnx").write_text("no graph")
    for name in ("less.pth", "text.pth", "text.onnx", "missing.pth", "missing.onnx"):
        with pytest.raises(BadWeights, match=name):
            KeyNet(weights=tmp_path / name)


def test_onnx_and_torch_find_the_same_keypoints(tmp_path, photo):
    network = random_network()
    torch.save(network.state_dict(), tmp_path / "keynet.pth")
    assert export(network, tmp_path / "keynet.onnx", {"name": "made by chance"}) < 1e-4
    by_torch, by_onnx = (
        KeyNet(200, weights=tmp_path / name, upright=True)(photo) for name in ("keynet.pth", "keynet.onnx")
    )
    assert len(by_onnx) == 200
    assert found_again(by_torch, by_onnx, by_torch.xy) > 0.98  # scores that tie to six digits may change places


def test_a_key_net_of_ones_own_is_a_detector_by_its_path(tmp_path, photo):
    network = random_network()
    torch.save(network.state_dict(), tmp_path / "keynet.pth")
    export(network, tmp_path / "keynet.onnx", {"name": "made by chance"})
    for name in ("keynet.pth", "keynet.onnx"):
        by_path = hynet.Extractor(
            detector=str(tmp_path / name), model="rootsift", max_keypoints=100, orientation="upright"
        ).detect(photo)
        itself = KeyNet(100, weights=tmp_path / name, upright=True)(photo)
        np.testing.assert_array_equal(by_path.frames, itself.frames)


def test_a_file_that_is_not_a_detector_gets_one_sentence(tmp_path):
    (tmp_path / "text.onnx").write_text("no graph")
    for path in (tmp_path / "text.onnx", shipped("descriptor")["default"]):
        with pytest.raises(BadWeights, match=f"no detector recognises {path}; it should be a file for keynet"):
            open_detector(path)
    with pytest.raises(BadInput, match="no detector 'dig'; choose dog or keynet, or give the path"):
        open_detector("dig")


# --- keypoints -------------------------------------------------------------------------------------------------------


def found_again(first: Keypoints, second: Keypoints, xy: np.ndarray, pixels: float = 0.5) -> float:
    """The share of the first that, moved to `xy`, have a twin of the same sigma that near."""
    away = np.linalg.norm(xy[:, None] - second.xy[None], axis=2)
    same = np.abs(np.log(first.sigma[:, None] / second.sigma[None])) < 0.1
    return float(((away < pixels) & same).any(1).mean())


def test_a_photo_half_as_large_has_its_keypoints_at_half_the_place(photo):
    small = cv2.resize(photo, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    first, second = KeyNet(2000, upright=True)(photo), KeyNet(2000, upright=True)(small)
    # The levels are half octaves: what the photo shows from the fourth level on, its half shows two levels before.
    first = first[first.sigma > 1.9 * keynet.SIGMA]
    moved = (first.xy + 0.5) / 2 - 0.5
    away = np.linalg.norm(moved[:, None] - second.xy[None], axis=2)
    away[np.abs(np.log(first.sigma[:, None] / 2 / second.sigma[None])) > 0.1] = np.inf
    near = away.min(1) < 1.5
    assert near.mean() > 0.7
    offsets = (moved - second.xy[away.argmin(1)])[near]
    assert np.abs(np.median(offsets, axis=0)).max() < 0.1  # half a pixel wrong anywhere would be 0.25


def test_patches_are_as_wide_as_key_nets():
    assert pytest.approx(44) == keynet.SIGMA * SUPPORT_SIGMAS


def test_tiles_say_what_one_piece_says(photo, monkeypatch):
    score = keynet.network(keynet.SHIPPED)
    grey = photo.astype(np.float32) / 255
    whole = score_map(score, grey)
    monkeypatch.setattr(keynet, "TILE", 3 * keynet.GRID)
    assert np.abs(score_map(score, grey) - whole).max() < 1e-4 * whole.max()


def test_a_level_holds_twice_as_many_as_the_next(photo):
    found = KeyNet(63, upright=True)(photo)
    assert (np.diff(found.scores) <= 0).all()
    levels = np.rint(2 * np.log2(found.sigma / keynet.SIGMA)).astype(int) + keynet.LEVELS_UP
    assert np.bincount(levels).tolist() == [32, 16, 8, 4, 2, 1]


def test_what_a_level_cannot_use_goes_to_the_next(photo):
    dot = np.full((240, 320), 90, np.uint8)
    cv2.circle(dot, (160, 120), 9, 200, -1)
    assert 1 < len(KeyNet(63)(dot)) <= 63
    for few in (1, 5):
        assert len(KeyNet(few, upright=True, spread=True)(photo)) == few


def test_a_threshold_leaves_the_better_ones(photo):
    every = KeyNet(upright=True)(photo)
    middle = float(np.median(every.scores))
    found = KeyNet(upright=True, score_threshold=middle)(photo)
    assert 0 < len(found) < len(every)
    assert found.scores.min() > middle


def test_a_mask_hides_its_zeros(photo):
    mask = np.zeros(photo.shape, np.uint8)
    mask[:, :240] = 255
    found = KeyNet(100)(photo, mask)
    assert len(found) == 100  # the hidden half takes no part of the budget
    assert (found.xy[:, 0] < 240.5).all()


@pytest.mark.parametrize(
    "image", [np.zeros((1, 1)), np.zeros((200, 300)), np.full((3, 500), 255), np.full((150, 150), 77)]
)
@pytest.mark.parametrize("spread", [False, True])
def test_an_empty_or_tiny_photo_has_no_keypoints(image, spread):
    assert len(KeyNet(spread=spread)(image.astype(np.uint8))) == 0


def test_finding_keypoints_needs_no_torch():
    code = (
        "import sys, numpy as np; from hynet.features.detectors.keynet import KeyNet; "
        "KeyNet()(np.eye(100, dtype=np.uint8) * 255); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- training --------------------------------------------------------------------------------------------------------


def peaks(places: list[tuple[int, int]]) -> torch.Tensor:
    scores = torch.zeros(1, 1, 120, 120)
    for k, (x, y) in enumerate(places):
        scores[0, 0, y, x] = 50 + 20 * k
    return scores


def moved_by(x: float, y: float) -> torch.Tensor:
    return torch.tensor([[[1, 0, x], [0, 1, y], [0, 0, 1.0]]])


def test_corners_that_agree_cost_nothing_and_others_their_squared_distance():
    places = [(43, 51), (61, 69), (52, 77)]
    here, there = peaks(places), peaks([(x + 5, y - 3) for x, y in places])
    assert keynet_training.index_proposal(here, there, moved_by(5, -3)) == pytest.approx(0, abs=1e-3)
    lone = peaks([(42, 50)])  # in the middle of its window at every size
    assert keynet_training.index_proposal(lone, peaks([(43, 52)]), moved_by(0, 0)) == pytest.approx(1 + 4, rel=0.05)


def test_the_second_view_is_the_first_moved_as_it_says():
    photo = synthetic.texture((500, 400), 1)
    for seed in range(5):
        first, second, second_from_first = keynet_training.pair(photo, np.random.default_rng(seed))
        grey = torch.from_numpy(second.astype(np.float32))[None, None]
        seen, valid = keynet_training.warped(grey, torch.from_numpy(second_from_first.astype(np.float32))[None])
        inside = valid[0, 0].numpy() > 0
        assert inside.sum() > 3000
        assert np.corrcoef(first[inside], seen[0, 0].numpy()[inside])[0, 1] > 0.85


def test_training_makes_corners_agree(monkeypatch):
    monkeypatch.setattr(keynet_training, "CROP", 96)
    torch.manual_seed(0)
    network = KeyNetwork()
    views = [keynet_training.pair(synthetic.texture((300, 200), k), np.random.default_rng(k)) for k in range(2)]
    first, second, moved = (
        torch.from_numpy(np.stack(column).astype(np.float32)) for column in zip(*views, strict=True)
    )
    batch = first[:, None] / 255, second[:, None] / 255, moved
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    losses = []
    for _ in range(25):
        loss = keynet_training.pair_loss(network, *batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.mean(losses[-3:]) < 0.5 * losses[0]


def test_a_run_that_cannot_be_is_refused(tmp_path):
    cv2.imwrite(str(tmp_path / "night.png"), np.zeros((200, 200), np.uint8))
    with pytest.raises(BadInput, match="exactly one of them"):
        hynet.train("keynet", tmp_path, tmp_path / "run", steps=1, minutes=1)
    with pytest.raises(BadInput, match="is not validated while it trains"):
        hynet.train("keynet", tmp_path, tmp_path / "run", steps=1, validate=tmp_path, validate_on_training=True)
    with pytest.raises(BadInput, match="next to nothing"):
        hynet.train("keynet", tmp_path, tmp_path / "run", steps=1)


def test_a_network_that_was_trained_again_is_opened_again(tmp_path):
    file = tmp_path / "k.onnx"
    shutil.copy(keynet.SHIPPED, file)
    before = keynet.network(file)
    assert keynet.network(file) is before
    shutil.copy(keynet.SHIPPED, tmp_path / "new.onnx")
    (tmp_path / "new.onnx").replace(file)
    assert keynet.network(file) is not before
