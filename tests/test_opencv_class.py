"""Our features with the methods of cv2's own."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

import hynet
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.interop.opencv import HyNet


@pytest.fixture(scope="module")
def pair():
    return synthetic.photo_pair(5, (320, 240))


@pytest.fixture(scope="module")
def ours():
    return HyNet(model="rootsift", max_keypoints=200)


def test_it_has_what_cv2_s_features_have(ours, pair):
    theirs = cv2.SIFT.create(200)
    for name in ("detect", "compute", "detectAndCompute", "descriptorSize", "descriptorType", "defaultNorm", "empty"):
        assert callable(getattr(ours, name))
        assert callable(getattr(theirs, name))
    for each in (ours, theirs):
        keypoints, descriptors = each.detectAndCompute(pair[0], None)
        assert isinstance(keypoints, tuple)
        assert all(isinstance(point, cv2.KeyPoint) for point in keypoints)
        assert descriptors.shape == (len(keypoints), each.descriptorSize())
        assert (descriptors.dtype == np.float32) == (each.descriptorType() == cv2.CV_32F)
        assert each.detectAndCompute(np.full((64, 64), 128, np.uint8), None) == ((), None)


def test_it_says_what_the_extractor_says(ours, pair):
    keypoints, descriptors = ours.detectAndCompute(pair[0], None)
    found = hynet.Extractor(model="rootsift", max_keypoints=200)(pair[0])
    assert cv2.KeyPoint.convert(keypoints) == pytest.approx(found.keypoints.xy)
    assert np.linalg.norm(descriptors - found.descriptors, axis=1).max() < 1e-2  # angles in degrees, rounded
    assert ours.detect(pair[0])[0].pt == keypoints[0].pt
    colour = cv2.cvtColor(pair[0], cv2.COLOR_GRAY2BGR)
    assert np.array_equal(ours.detectAndCompute(colour, None)[1], descriptors)


def test_cv2_s_matchers_find_the_homography_with_it(ours, pair):
    first, second, truth = pair
    (a, rows_a), (b, rows_b) = (ours.detectAndCompute(photo, None) for photo in (first, second))
    matches = cv2.BFMatcher(ours.defaultNorm(), crossCheck=True).match(rows_a, rows_b)
    xy_a = np.array([a[match.queryIdx].pt for match in matches])
    xy_b = np.array([b[match.trainIdx].pt for match in matches])
    found, _ = cv2.findHomography(xy_a, xy_b, cv2.RANSAC, 2.0)
    corners = np.array([[[0, 0], [319, 0], [319, 239], [0, 239]]], float)
    assert cv2.perspectiveTransform(corners, found) == pytest.approx(cv2.perspectiveTransform(corners, truth), abs=3)


def test_keypoints_of_cv2_are_described_and_a_mask_is_kept(ours, pair):
    mask = np.zeros_like(pair[0])
    mask[:, :160] = 255
    assert max(point.pt[0] for point in ours.detect(pair[0], mask)) < 160
    theirs = cv2.SIFT.create(50).detect(pair[0])
    kept, rows = ours.compute(pair[0], theirs)
    assert len(kept) == len(theirs) == len(rows)
    upright = HyNet(model="rootsift", max_keypoints=10, upright=True)
    points, rows = upright.detectAndCompute(pair[0], None)
    assert {point.angle for point in points} == {-1.0}
    assert np.array_equal(upright.compute(pair[0], points)[1], rows)


def test_what_cv2_would_not_take_is_told(ours, pair):
    for wrong in (pair[0].astype(float), "photo.jpg", np.zeros((8, 8, 2), np.uint8), np.zeros((0, 4), np.uint8)):
        with pytest.raises(BadInput, match="the image must"):
            ours.detectAndCompute(wrong, None)
    with pytest.raises(BadInput, match="the mask has"):
        ours.detect(pair[0], np.ones((5, 5), np.uint8))
    with pytest.raises(BadInput, match="use compute"):
        ours.detectAndCompute(pair[0], None, useProvidedKeypoints=True)
