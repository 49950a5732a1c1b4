"""Errors of cameras do not depend on the world that a reconstruction happened to choose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hynet.sfm.camera_errors import camera_errors, centres, nearest_rotation


def rotation(rng: np.random.Generator) -> np.ndarray:
    return nearest_rotation(rng.normal(size=(3, 3)))


def cameras(turns: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.concatenate([turns, -turns @ places[:, :, None]], 2)


def in_another_world(poses: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    turn, shift, scale = rotation(rng), rng.normal(size=3), rng.uniform(0.1, 10)
    return cameras(poses[:, :, :3] @ turn.T, scale * centres(poses) @ turn.T + shift)


@given(seed=st.integers(0, 10_000), count=st.integers(2, 8), on_a_line=st.booleans())
def test_another_world_is_no_error(seed: int, count: int, on_a_line: bool):
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(1, 3)) * rng.normal(size=(count, 1)) if on_a_line else rng.normal(size=(count, 3))
    truth = cameras(np.stack([rotation(rng) for _ in range(count)]), places)
    degrees, apart = camera_errors(in_another_world(truth, rng), truth)
    assert degrees == pytest.approx(np.zeros(count), abs=1e-5)
    assert apart == pytest.approx(np.zeros(count), abs=1e-6)


def test_a_camera_that_is_turned_and_moved_shows_by_how_much():
    rng = np.random.default_rng(0)
    truth = cameras(np.stack([rotation(rng) for _ in range(50)]), 10 * rng.normal(size=(50, 3)))
    ours = truth.copy()
    c, s = np.cos(np.radians(5)), np.sin(np.radians(5))
    turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ truth[7, :, :3]
    moved = centres(truth)[7] + [0, 0, 1]
    ours[7] = cameras(turned[None], moved[None])[0]
    degrees, apart = camera_errors(in_another_world(ours, rng), truth)
    assert degrees[7] == pytest.approx(5, rel=0.05)
    assert apart[7] == pytest.approx(1, rel=0.05)
    assert np.delete(degrees, 7).max() < 0.2
    assert np.delete(apart, 7).max() < 0.1


def test_cameras_in_one_place_have_no_scale_but_an_error():
    truth = cameras(np.stack([np.eye(3)] * 3), np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]))
    ours = cameras(np.stack([np.eye(3)] * 3), np.zeros((3, 3)))
    assert camera_errors(ours, truth)[1] == pytest.approx([1, 0, 1])
