"""Keypoints turn with the photo, and towards the light."""

from __future__ import annotations

import numpy as np
import pytest

from hynet.datasets import synthetic
from hynet.features.detectors.orientation import oriented
from hynet.types import Keypoints


def upright(xy: np.ndarray, sigma: float) -> Keypoints:
    return Keypoints.from_circles(xy, np.full(len(xy), sigma), np.zeros(len(xy)), np.arange(len(xy), 0, -1))


def test_a_quarter_turn_of_the_photo_turns_every_angle():
    photo = synthetic.photo_pair(3, (360, 360))[0]
    # y points down, so turning x towards y is clockwise: (x, y) goes to (H - 1 - y, x).
    xy = np.random.default_rng(0).integers(30, 330, (200, 2)).astype(np.float64)
    moved = np.column_stack([photo.shape[0] - 1 - xy[:, 1], xy[:, 0]])
    first = oriented(photo, upright(xy, 3.0))
    second = oriented(np.ascontiguousarray(np.rot90(photo, -1)), upright(moved, 3.0))
    of_one_place = first.scores[:, None] == second.scores  # scores tell which is which
    change = second.angle[None] - first.angle[:, None]
    wrong = np.abs((change - np.pi / 2 + np.pi) % (2 * np.pi) - np.pi)
    assert np.quantile(np.where(of_one_place, wrong, np.inf).min(1), 0.95) < 0.05  # grey levels are rounded


@pytest.mark.parametrize("angle", [0.0, 0.5, 2.0, -1.3, 3.0])
def test_the_angle_points_to_where_it_gets_brighter(angle):
    rows, columns = np.indices((60, 60))
    ramp = np.rint(128 + 3 * ((columns - 30) * np.cos(angle) + (rows - 30) * np.sin(angle))).clip(0, 255)
    found = oriented(ramp.astype(np.uint8), upright(np.array([[30.0, 30.0]]), 2.0))
    assert np.exp(1j * found.angle) == pytest.approx(np.exp(1j * angle), abs=0.02)
    assert found.sigma == pytest.approx(2.0)


def test_a_place_with_two_directions_becomes_two_keypoints():
    towards_the_middle = 200 - 6 * np.abs(np.arange(60) - 30)
    ridge = np.tile(towards_the_middle, (60, 1)).astype(np.uint8)
    found = oriented(ridge, upright(np.array([[30.0, 30.0]]), 2.0))
    assert sorted(np.cos(found.angle).round(1)) == [-1, 1]


def test_a_flat_place_stays_one_keypoint():
    assert len(oriented(np.full((50, 50), 90, np.uint8), upright(np.array([[25.0, 25.0], [20.0, 20.0]]), 2.0))) == 2
