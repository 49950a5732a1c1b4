"""Made data: the truth that comes with it is true."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from hynet.datasets import synthetic


def similarity(a, b):
    """Correlation of two pictures' pixels."""
    return np.corrcoef(np.ravel(a).astype(float), np.ravel(b).astype(float))[0, 1]


def rootsift(patches):
    middle = [cv2.KeyPoint(31.5, 31.5, 64 / 6, 0)]
    sift = cv2.SIFT_create()
    raw = np.concatenate([sift.compute(patch, middle)[1] for patch in patches])
    return np.sqrt(raw / raw.sum(1, keepdims=True))


@pytest.mark.parametrize("make", [lambda s: synthetic.texture((200, 120), s), lambda s: synthetic.photo_pair(s)[1]])
def test_the_same_seed_gives_the_same_pixels_and_another_seed_others(make):
    assert np.array_equal(make(3), make(3))
    assert not np.array_equal(make(3), make(4))


def test_a_texture_has_keypoints_at_many_scales():
    sizes = [keypoint.size for keypoint in cv2.SIFT_create().detect(synthetic.texture((640, 480), 0))]
    assert len(sizes) > 500
    assert np.histogram(sizes, [0, 4, 8, 16, 64])[0].min() > 20


@pytest.mark.parametrize("seed", range(4))
def test_the_homography_takes_the_first_photo_to_the_second(seed):
    first, second, second_from_first = synthetic.photo_pair(seed)
    assert first.shape == second.shape == (480, 640)
    warped = cv2.warpPerspective(first, second_from_first, (640, 480))
    both = cv2.erode(cv2.warpPerspective(np.ones_like(first), second_from_first, (640, 480)), np.ones((5, 5))) > 0
    assert both.mean() > 0.5
    assert similarity(warped[both], second[both]) > 0.98
    shifted = np.roll(warped, 2, axis=1)  # the measure does notice two pixels
    assert similarity(shifted[both], second[both]) < 0.97


def test_patches_of_a_point_look_alike_and_yet_rootsift_errs():
    patch_set = synthetic.patch_set(points=300, patches_per_point=2, seed=1)
    assert np.array_equal(np.bincount(patch_set.points), np.full(300, 2))
    descriptors = rootsift(patch_set.patches)
    same = np.linalg.norm(descriptors[::2] - descriptors[1::2], axis=1)
    # Row k against the row of a point far from it
    other = np.linalg.norm(descriptors[::2] - np.roll(descriptors[1::2], 7, axis=0), axis=1)
    assert np.median(same) < 0.7 * np.median(other)
    assert 0.02 < (other <= np.quantile(same, 0.95)).mean() < 0.5


def test_points_of_one_image_are_different_places():
    patch_set = synthetic.patch_set(points=150, patches_per_point=3)
    assert np.array_equal(np.unique(patch_set.images), [0, 1])
    for image in (0, 1):
        assert len(np.unique(patch_set.points[patch_set.images == image])) in (50, 100)


def test_depth_and_cameras_take_one_photo_to_another():
    scene = synthetic.scene(seed=2, photos=3, size=(320, 240))
    assert np.isfinite(scene.depths).all()
    y, x = np.mgrid[:240, :320]
    rays = np.linalg.inv(scene.K) @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    first, second = scene.cam_from_world[0], scene.cam_from_world[1]
    world = first[:, :3].T @ (rays * scene.depths[0].ravel() - first[:, 3:])
    there = second[:, :3] @ world + second[:, 3:]
    px, py, pz = scene.K @ there
    at = [(p / pz).astype(np.float32).reshape(x.shape) for p in (px, py)]
    seen_depth = cv2.remap(scene.depths[1], *at, cv2.INTER_NEAREST, borderValue=0)
    visible = np.abs(seen_depth / there[2].reshape(x.shape) - 1) < 0.005
    assert 0.5 < visible.mean() < 0.99  # some of it is hidden or out of sight
    seen = cv2.remap(scene.photos[1], *at, cv2.INTER_LINEAR)
    assert similarity(seen[visible], scene.photos[0][visible]) > 0.97
    assert similarity(np.roll(seen, 2, axis=1)[visible], scene.photos[0][visible]) < 0.9


def test_rotations_of_a_scene_are_rotations():
    for pose in synthetic.scene(photos=2, size=(64, 48)).cam_from_world:
        assert np.allclose(pose[:, :3] @ pose[:, :3].T, np.eye(3))
        assert np.linalg.det(pose[:, :3]) == pytest.approx(1)
