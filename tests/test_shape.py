"""Affine shape: an ellipse is found again, and surfaces seen from the side match better for it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from hynet.datasets import synthetic
from hynet.features.detectors import shape as affine
from hynet.features.detectors.orientation import oriented
from hynet.features.extractors.patchwise import Extractor
from hynet.geometry.two_views import transfer_error
from hynet.matching.nearest import match
from hynet.types import Keypoints

XY = [120.3, 99.6]


def blob(shape: np.ndarray) -> tuple[np.ndarray, Keypoints]:
    """A Gaussian whose one-sigma ellipse is the shape (2, 2), and the round keypoint of its area."""
    rows, columns = np.indices((200, 240))
    away = np.stack([columns - XY[0], rows - XY[1]], -1)
    square = np.einsum("...i,ij,...j", away, np.linalg.inv(shape @ shape.T), away)
    sigma = np.sqrt(abs(np.linalg.det(shape)))
    return np.rint(30 + 200 * np.exp(-square / 2)).astype(np.uint8), Keypoints.from_circles([XY], [sigma], [0], [1])


@pytest.mark.parametrize("shape", [np.diag([4.0, 4.0]), np.array([[6.0, 0], [3, 2.5]]), np.array([[3.0, 0], [-2, 5]])])
def test_the_shape_of_a_blob_is_found_with_the_vertical_upright(shape):
    image, keypoints = blob(shape)
    found = affine.baumberg(image, keypoints)
    assert found.frames[0, :, :2] == pytest.approx(shape, abs=0.1 * np.linalg.norm(shape))
    assert found.frames[0, 0, 1] == 0  # what is vertical in the photo is vertical in the patch
    assert found.xy == pytest.approx(keypoints.xy)
    assert found.sigma == pytest.approx(keypoints.sigma, rel=1e-4)


def test_the_shape_turns_to_where_it_gets_brighter():
    image, keypoints = blob(np.diag([4.0, 4.0]))
    ramp = np.clip(0.3 * image + 0.7 * np.arange(200)[:, None], 0, 255).astype(np.uint8)  # brighter downwards
    found = oriented(ramp, affine.baumberg(ramp, keypoints))
    direction = found.frames[0, :, 0] / np.linalg.norm(found.frames[0, :, 0])
    assert direction == pytest.approx([0, 1], abs=0.2)


def test_an_edge_and_a_flat_place_stay_round():
    edge = np.zeros((100, 100), np.uint8)
    edge[:, 50:] = 200
    keypoints = Keypoints.from_circles([[50.0, 50.0]], [3.0], [1.0], [1.0])
    for image in (edge, np.full((100, 100), 90, np.uint8)):
        found = affine.baumberg(image, keypoints)
        assert found.frames[0, :, :2] == pytest.approx(3 * np.eye(2))


def test_no_keypoints_are_no_problem():
    none = Keypoints(np.zeros((0, 2, 3)), np.zeros(0))
    assert len(affine.baumberg(np.zeros((50, 50), np.uint8), none)) == 0


def test_a_surface_seen_from_the_side_has_more_right_matches():
    photo = synthetic.photo_pair(5, (640, 480))[0]
    second_from_first = np.diag([0.4, 1.0, 1.0])
    side = cv2.warpAffine(cv2.GaussianBlur(photo, (0, 0), sigmaX=1.2, sigmaY=0.01), second_from_first[:2], (256, 480))

    def right(shapes: bool) -> int:
        extract = Extractor(model="rootsift", max_keypoints=600, shape="baumberg" if shapes else "none")
        first, second = extract(photo), extract(side)
        rows, columns = match(first, second).indices.T
        error = transfer_error(second_from_first, first.keypoints.xy[rows], second.keypoints.xy[columns])
        return int((error < 3).sum())

    assert right(True) > 1.5 * right(False)
