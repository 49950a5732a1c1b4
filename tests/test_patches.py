"""Cutting patches, against the same sampling written out in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.images.patches import cut
from hynet.types import Array, Keypoints

SIZE, SUPPORT = 16, 24.0


@pytest.fixture(scope="module")
def photo() -> Array:
    return synthetic.texture((200, 150), seed=3)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_grey_values_are_right_to_half_a_level_whatever_the_frame(photo: Array, seed: int):
    rng = np.random.default_rng(seed)
    A = rng.normal(0, 1, (5, 2, 2)) * 2 ** rng.uniform(-3, 4, (5, 1, 1))  # stretched, sheared and mirrored too
    xy = rng.uniform((-20, -20), (220, 170), (5, 2))
    frames = Keypoints(np.concatenate([A, xy[:, :, None]], 2), np.ones(5))
    expected = np.stack([reference(photo, frame) for frame in frames.frames.astype(np.float64)])
    assert np.abs(cut(photo, frames, SIZE, SUPPORT) - expected).max() <= 0.5 + 1e-2


def test_a_frame_of_whole_pixels_cuts_the_photo_itself(photo: Array):
    upright = Keypoints.from_circles([[57.5, 41.5]], [SIZE / SUPPORT], [0], [1])
    assert np.array_equal(cut(photo, upright, SIZE, SUPPORT)[0], photo[34:50, 50:66])


def test_a_turned_frame_turns_the_patch(photo: Array):
    xy, sigma = [[57.5, 41.5]] * 2, [SIZE / SUPPORT] * 2
    upright, turned = cut(photo, Keypoints.from_circles(xy, sigma, [0, np.pi / 2], [1, 1]), SIZE, SUPPORT)
    assert np.abs(np.rot90(upright) - turned.astype(int)).max() <= 1  # its x axis points down in the photo


def test_beyond_the_photo_its_border_goes_on(photo: Array):
    outside = Keypoints.from_circles([[-100, -100]], [1.0], [0], [1])
    assert (cut(photo, outside, SIZE, SUPPORT) == photo[0, 0]).all()


def test_large_regions_are_smoothed_before_they_are_sampled():
    stripes = np.zeros((256, 256), np.uint8)
    stripes[:, ::2] = 255
    wide = Keypoints.from_circles([[127.5, 127.5]], [160 / SUPPORT], [0], [1])
    assert np.abs(cut(stripes, wide, SIZE, SUPPORT).astype(int) - 127).max() <= 2


def test_patches_do_not_depend_on_how_many_are_cut_at_once(photo: Array):
    rng = np.random.default_rng(0)
    many = Keypoints.from_circles(
        rng.uniform(0, 150, (700, 2)), 2 ** rng.uniform(0, 4, 700), rng.uniform(-3, 3, 700), np.ones(700)
    )
    together = cut(photo, many, 64)
    assert all(np.array_equal(together[k], cut(photo, many[k : k + 1], 64)[0]) for k in range(0, 700, 97))


def test_no_keypoints_are_no_patches(photo: Array):
    assert cut(photo, Keypoints(np.zeros((0, 2, 3)), np.zeros(0))).shape == (0, 32, 32)


def test_what_cannot_be_cut_is_said(photo: Array):
    good = Keypoints.from_circles([[5, 5]], [1], [0], [1])
    with pytest.raises(BadInput, match="uint8"):
        cut(photo.astype(np.float32), good)
    with pytest.raises(BadInput, match="NaN"):
        cut(photo, Keypoints.from_circles([[np.nan, 5]], [1], [0], [1]))


def reference(photo: Array, frame: Array) -> Array:
    """One patch in double precision: halve while that brings pixels nearer to the patch's own, then bilinear."""
    step = frame[:, :2] * SUPPORT / SIZE
    level = max(0, round(np.log2(np.linalg.norm(step, 2))))
    pixels = photo.astype(np.float64)
    for _ in range(min(level, int(np.log2(min(photo.shape))))):
        pixels = halved(halved(pixels).T).T
        step, frame = step / 2, frame / 2
    patch = np.empty((SIZE, SIZE))
    for row in range(SIZE):
        for column in range(SIZE):
            x, y = frame[:, 2] + step @ (column - (SIZE - 1) / 2, row - (SIZE - 1) / 2)
            patch[row, column] = bilinear(pixels, x, y)
    return patch


def halved(pixels: Array) -> Array:
    """Every other row of the binomial smoothing 1 4 6 4 1."""
    padded = np.pad(pixels, ((2, 2), (0, 0)), mode="edge")
    smooth = sum(weight * padded[k : k + len(pixels)] for k, weight in enumerate((1, 4, 6, 4, 1)))
    return np.asarray(smooth)[::2] / 16


def bilinear(pixels: Array, x: float, y: float) -> float:
    def at(row: int, column: int) -> float:
        return pixels[np.clip(row, 0, pixels.shape[0] - 1), np.clip(column, 0, pixels.shape[1] - 1)]

    x0, y0 = int(np.floor(x)), int(np.floor(y))
    top = at(y0, x0) * (x0 + 1 - x) + at(y0, x0 + 1) * (x - x0)
    bottom = at(y0 + 1, x0) * (x0 + 1 - x) + at(y0 + 1, x0 + 1) * (x - x0)
    return top * (y0 + 1 - y) + bottom * (y - y0)
