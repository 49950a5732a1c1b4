"""XFeat's maps -> keypoints and descriptors, against the same steps in torch, and LighterGlue on what comes out.

The steps are those of the authors' published detectAndCompute: softmax over 65 channels, a heat map of 8 x 8 pixels a
cell, maxima of 5 x 5 above 0.05, a score that is the heat times the bilinear reliability, bicubic descriptors;
positions are scaled by size - 1, maps sampled as torch does without aligned corners.
"""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from torch.nn import functional

from conftest import shared_file
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.features.extractors import open_extractor, xfeat
from hynet.matching import open_matcher
from hynet.matching.nearest import match
from hynet.types import Features, Keypoints

SIZE = (160, 96)  # width, height


@pytest.fixture
def maps() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Descriptors (64, 12, 20), logits (65, 12, 20), reliability (1, 12, 20)."""
    rng = np.random.default_rng(0)
    shapes = ((64, 12, 20), (65, 12, 20), (1, 12, 20))
    descriptors, logits, reliability = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    return descriptors, 3 * logits, 1 / (1 + np.exp(-reliability))


class Session:
    """The network's place: maps that are known."""

    def __init__(self, maps):
        self.maps = maps

    def run(self, names, inputs):
        assert inputs["input"].shape == (1, 3, SIZE[1], SIZE[0])
        return [each[None] for each in self.maps]


def in_torch(maps: tuple[np.ndarray, ...], most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole pixels (N, 2), scores (N,) and descriptors (N, 64), the best first."""
    descriptors, logits, reliability = (torch.from_numpy(each)[None] for each in maps)
    heat = functional.pixel_shuffle(functional.softmax(logits, 1)[:, :64], 8)
    peaks = (heat == functional.max_pool2d(heat, 5, 1, 2)) & (heat > 0.05)
    xy = peaks[0, 0].nonzero().flip(-1)
    grid = (2 * xy / (torch.tensor(SIZE) - 1) - 1)[None, None].float()
    reliable = functional.grid_sample(reliability, grid, mode="bilinear", align_corners=False)[0, 0, 0]
    scores = heat[0, 0, xy[:, 1], xy[:, 0]] * reliable
    best = torch.argsort(-scores, stable=True)[:most]
    unit = functional.normalize(descriptors, dim=1)
    found = functional.grid_sample(unit, grid[:, :, best], mode="bicubic", align_corners=False)[0, :, 0].T
    return xy[best].numpy(), scores[best].numpy(), functional.normalize(found, dim=1).numpy()


def test_keypoints_scores_and_descriptors_are_those_of_the_authors_steps_in_torch(maps):
    photo = np.zeros((*SIZE[::-1], 3), np.uint8)
    found = xfeat.XFeat(Session(maps), max_keypoints=100)(photo)
    xy, scores, descriptors = in_torch(maps, 100)
    assert len(found) == 100
    np.testing.assert_array_equal(found.keypoints.xy, xy)
    np.testing.assert_allclose(found.keypoints.scores, scores, rtol=1e-5)
    np.testing.assert_allclose(found.descriptors, descriptors, atol=1e-5)


def test_positions_are_of_the_photo_although_the_network_sees_multiples_of_32_pixels(maps):
    photo = np.zeros((SIZE[1] + 20, SIZE[0] + 30, 3), np.uint8)
    found = xfeat.XFeat(Session(maps), max_keypoints=100)(photo)
    scale = np.array([SIZE[0] + 30, SIZE[1] + 20]) / SIZE
    np.testing.assert_allclose(found.keypoints.xy, (in_torch(maps, 100)[0] + 0.5) * scale - 0.5, rtol=1e-5)
    assert found.image_size == (SIZE[0] + 30, SIZE[1] + 20)


@pytest.fixture(scope="module")
def pair() -> tuple[Features, Features, np.ndarray]:
    """A photo and its warp, by the published network, and the homography between them."""
    extract = open_extractor(shared_file("weights/xfeat_n4m.onnx"), max_keypoints=1024)
    first, second, second_from_first = synthetic.photo_pair(3)
    a, b = (extract(cv2.cvtColor(photo, cv2.COLOR_GRAY2RGB)) for photo in (first, second))
    return a, b, second_from_first


def test_the_published_matcher_keeps_more_right_matches_than_nearest_neighbours(pair):
    a, b, second_from_first = pair
    lighterglue = open_matcher(shared_file("weights/lighterglue_L3.onnx"))

    def right(found) -> int:
        moved = cv2.perspectiveTransform(
            a.keypoints.xy[None, found.indices[:, 0]].astype(np.float64), second_from_first
        )
        return int((np.linalg.norm(moved[0] - b.keypoints.xy[found.indices[:, 1]], axis=1) < 3).sum())

    learnt = lighterglue(a, b)
    assert right(learnt) >= right(match(a, b, ratio=1.0)) > 100
    assert right(learnt) > 0.8 * len(learnt)


def test_the_matcher_refuses_features_that_are_not_xfeats():
    one = Features(
        Keypoints.from_circles(np.ones((2, 2)), np.ones(2), np.zeros(2), np.ones(2)),
        np.eye(2, 128, dtype=np.float32),
        (9, 9),
    )
    with pytest.raises(BadInput, match="XFeat's features only"):
        open_matcher(shared_file("weights/lighterglue_L3.onnx"))(one, one)
