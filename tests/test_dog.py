"""The detector finds rendered blobs where they are, and the same corners after the photo is moved."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from hynet.datasets import synthetic
from hynet.detectors import DETECTORS
from hynet.errors import BadInput
from hynet.features.detectors.dog import DoG, _to_extremum
from hynet.features.detectors.selection import best
from hynet.types import Keypoints


def blob(x: float, y: float, sigma: float) -> np.ndarray:
    rows, columns = np.indices((200, 220))
    return np.rint(30 + 200 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * sigma**2))).astype(np.uint8)


@pytest.mark.parametrize("sigma", [1.5, 2.2, 3.5, 6.0, 10.0])
@pytest.mark.parametrize("xy", [(100.0, 90.0), (97.3, 101.8), (110.6, 80.45)])
def test_a_blob_is_found_at_its_centre_and_scale(xy, sigma):
    found = DoG(upright=True)(blob(*xy, sigma))
    nearest = np.linalg.norm(found.xy - xy, axis=1).argmin()
    assert found.xy[nearest] == pytest.approx(xy, abs=max(0.1, sigma / 64))  # grey levels are rounded
    assert found.sigma[nearest] * 2 ** (1 / 6) == pytest.approx(sigma, rel=0.05)


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    return synthetic.photo_pair(3, (320, 240))[0]


def share_found_again(first: Keypoints, second: Keypoints, xy: np.ndarray, turn: float = 0.0) -> float:
    """The share of the first that, moved to `xy`, have a twin: half a pixel, a tenth in scale, a few degrees."""
    away = np.linalg.norm(xy[:, None] - second.xy[None], axis=2)
    scale = np.abs(np.log(first.sigma[:, None] / second.sigma[None]))
    angle = np.abs((first.angle[:, None] + turn - second.angle[None] + np.pi) % (2 * np.pi) - np.pi)
    return float(((away < 0.5) & (scale < 0.1) & (angle < 0.1)).any(1).mean())


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_finds_the_same_corners_when_the_photo_is_shifted(name, photo):
    detect = DETECTORS[name](max_keypoints=300, upright=True)
    whole, part = detect(photo), detect(np.ascontiguousarray(photo[16:, 32:]))
    inside = whole[(whole.xy > [62, 46]).all(1) & (whole.xy < [290, 210]).all(1)]
    assert share_found_again(inside, part, inside.xy - [32, 16]) > 0.8


def test_a_quarter_turn_of_the_photo_turns_the_frames(photo):
    # y points down, so turning x towards y is clockwise: (x, y) goes to (H - 1 - y, x).
    turned = np.ascontiguousarray(np.rot90(photo, -1))
    first, second = DoG()(photo), DoG()(turned)
    xy = np.column_stack([photo.shape[0] - 1 - first.xy[:, 1], first.xy[:, 0]])
    assert share_found_again(first, second, xy, turn=np.pi / 2) > 0.9


def test_the_angle_points_to_where_it_gets_brighter():
    ramp = np.arange(120)[:, None]  # brighter downwards
    tilted = np.clip(blob(60, 60, 4)[:120, :120] * 0.4 + ramp, 0, 255).astype(np.uint8)
    found = DoG()(tilted)
    nearest = np.linalg.norm(found.xy - 60, axis=1).argmin()
    assert found.angle[nearest] == pytest.approx(np.pi / 2, abs=0.2)


def test_keypoints_come_best_first_and_no_more_than_asked(photo):
    every, few = (DoG(count, spread=False)(photo) for count in (10_000, 50))
    assert len(few) == 50 < len(every)
    assert (np.diff(every.scores * np.sqrt(every.sigma)) <= 1e-6).all()
    assert np.array_equal(few.frames, every.frames[:50])
    floor = every.scores[len(every) // 2]
    assert len(DoG(score_threshold=float(floor))(photo)) < len(every)


def test_the_places_are_those_of_opencv(photo):
    """The foreign truth: OpenCV's SIFT, whose keypoints of several orientations are one place."""
    found = cv2.SIFT.create(contrastThreshold=0.02, enable_precise_upscale=True).detect(photo)
    theirs = np.unique([(*point.pt, point.size / 2, point.response) for point in found], axis=0)
    ours = DoG(10_000, upright=True, score_threshold=0.02 / 3)(photo)
    ours = np.column_stack([ours.xy, ours.sigma, ours.scores])
    apart = np.abs(theirs[:, None] - ours[None])
    alike = (apart < [0.01, 0.01, 0.01, 1e-4]).all(2)
    assert len(theirs) > 300
    assert alike.any(1).mean() > 0.99
    assert alike.any(0).mean() > 0.99


def test_a_dim_photo_gives_as_many_keypoints_as_asked_for(photo):
    dim = (photo // 12).astype(np.uint8)
    assert len(DoG(500, score_threshold=0.02 / 3)(dim)) < 400  # what the usual threshold leaves
    assert len(DoG(500)(dim)) == 500


def test_upright_gives_one_keypoint_a_place(photo):
    found = DoG(upright=True)(photo)
    assert (found.angle == 0).all()
    assert len(np.unique(found.frames, axis=0)) == len(found)
    assert len(found) < len(DoG()(photo))


def test_a_mask_hides_its_zeros(photo):
    mask = np.zeros(photo.shape, bool)
    mask[:, :160] = True
    found = DoG()(photo, mask)
    assert len(found) > 10
    assert (found.xy[:, 0] < 160.5).all()
    with pytest.raises(BadInput, match="mask"):
        DoG()(photo, mask[:10])


@pytest.mark.parametrize(("crowd", "reached"), [(90, True), (500, False)])
def test_spreading_reaches_the_empty_corner_unless_that_is_hardly_there(crowd, reached):
    rng = np.random.default_rng(0)
    xy, lonely = rng.uniform(0, 100, (crowd, 2)), np.array([[390.0, 290.0]])
    scores = np.r_[rng.uniform(1, 2, crowd), 0.1]
    every = Keypoints.from_circles(np.concatenate([xy, lonely]), np.ones(crowd + 1), np.zeros(crowd + 1), scores)
    assert not (best(every, 50).xy == lonely).all(1).any()
    assert (best(every, 50, spread_over=(300, 400)).xy == lonely).all(1).any() == reached


@pytest.mark.parametrize("image", [np.zeros((1, 1)), np.zeros((100, 100)), np.full((3, 500), 255), np.eye(2) * 255])
@pytest.mark.parametrize("spread", [False, True])
def test_an_empty_or_tiny_photo_has_no_keypoints(image, spread):
    assert len(DoG(spread=spread)(image.astype(np.uint8))) == 0


def test_a_detector_that_keeps_nothing_is_refused():
    with pytest.raises(BadInput, match="at least 1"):
        DoG(max_keypoints=0)


def test_the_way_to_an_extremum_is_what_a_solver_says():
    random = np.random.default_rng(0)
    bend, slope = random.normal(size=(20, 3, 3)), random.normal(size=(20, 3))
    bend = bend + bend.swapaxes(1, 2)
    bend[-1] = 0.0  # flat: there is no way
    found = _to_extremum(slope.T, bend.transpose(1, 2, 0)).T
    np.testing.assert_allclose(found[:-1], -np.linalg.solve(bend[:-1], slope[:-1, :, None])[:, :, 0], rtol=1e-8)
    assert np.isinf(found[-1]).all()


def test_no_keypoint_is_found_twice():
    found = DoG(max_keypoints=5000, upright=True)(synthetic.texture((240, 320), seed=3))
    assert len(np.unique(found.frames.reshape(len(found), -1), axis=0)) == len(found) > 100
