"""Pictures show what they should, where it should be."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from hynet.errors import BadInput
from hynet.images import drawing
from hynet.types import Keypoints, Matches

CAPTION = [("2 matches", drawing.INK)]


def at(*xy: tuple[float, float]) -> Keypoints:
    n = len(xy)
    return Keypoints.from_circles(np.array(xy).reshape(-1, 2), np.full(n, 5.0), np.zeros(n), np.ones(n))


def near(picture: np.ndarray, x: int, y: int, colour: tuple[int, int, int]) -> bool:
    return bool(np.abs(picture[y, x].astype(int) - colour).max() < 40)


def greenish(picture: np.ndarray, x: int, y: int) -> bool:
    red, green, _ = (int(level) for level in picture[y, x])
    return green > 150 and green > red + 20


def test_matches_join_their_points_in_the_colour_of_agreement():
    photos = np.full((200, 300), 90, np.uint8), np.full((150, 250), 90, np.uint8)
    found = Matches(np.array([[0, 0], [1, 1]]), np.zeros(2, np.float32))
    picture = drawing.matches(
        photos, (at((50, 100), (60, 30)), at((200, 100), (20, 140))), found, np.array([True, False]), CAPTION
    )
    left = 300 + drawing.GAP
    assert picture.shape == (200 + drawing.BAND, left + 250, 3)
    assert greenish(picture, 50, 100)
    assert greenish(picture, left + 200, 100)
    assert near(picture, 60, 30, drawing.RED)
    assert near(picture, left + 20, 140, drawing.RED)
    on_the_line, off_the_line = picture[100, 180].astype(int), picture[60, 200].astype(int)
    assert on_the_line[1] > off_the_line[1] + 30


def test_large_photos_are_shown_smaller_with_their_points_in_place():
    photo = np.full((2000, 3000), 90, np.uint8)
    found = Matches(np.array([[0, 0]]), np.zeros(1, np.float32))
    picture = drawing.matches((photo, photo), (at((1500, 1000)),) * 2, found, np.array([True]), CAPTION)
    assert picture.shape[1] == 2 * drawing.SIDE + drawing.GAP
    assert greenish(picture, 450, 300)


def test_a_keypoint_is_a_circle_of_three_sigma_with_a_radius():
    picture = drawing.keypoints([np.zeros((200, 300), np.uint8)], [at((100, 80))], CAPTION)
    for x, y, marked in [(115, 80, True), (100, 95, True), (107, 80, True), (93, 80, False), (130, 80, False)]:
        assert near(picture, x, y, (0, 0, 0)) != marked


def test_patches_lie_side_by_side_in_frames_of_agreement():
    first, second = np.full((2, 32, 32), 200, np.uint8), np.full((2, 32, 32), 100, np.uint8)
    picture = drawing.patches(first, second, np.array([True, False]), CAPTION)
    assert near(picture, 9, 40, drawing.GREEN)
    assert near(picture, 40, 40, (200, 200, 200))
    assert near(picture, 110, 40, (100, 100, 100))
    assert near(picture, 151, 40, drawing.RED)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4000), (50, 50)])
def test_nothing_to_draw_is_still_a_picture_wide_enough_for_its_caption(shape):
    photo = np.zeros(shape, np.uint8)
    nothing = Matches(np.zeros((0, 2), np.int64), np.zeros(0, np.float32))
    none = np.zeros(0, bool)
    for picture in (
        drawing.matches((photo, photo), (at(), at()), nothing, none, CAPTION),
        drawing.keypoints([photo], [at()], CAPTION),
        drawing.patches(np.zeros((0, 32, 32), np.uint8), np.zeros((0, 32, 32), np.uint8), none, CAPTION),
    ):
        assert picture.dtype == np.uint8
        assert picture.shape[1] > 100
        assert (picture[-drawing.BAND :] > 200).any()


def test_a_picture_is_saved_by_the_ending_of_its_name(tmp_path):
    picture = drawing.keypoints([np.zeros((50, 50), np.uint8)], [at()], CAPTION)
    drawing.save(picture, tmp_path / "new" / "a.png")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "new" / "a.png")), picture)
    with pytest.raises(BadInput, match="png"):
        drawing.save(picture, tmp_path / "a.txt")
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot write"):
        drawing.save(picture, tmp_path / "file" / "a.png")
