"""Photos that stand upright gain from it, and photos that were turned lose nothing."""

from __future__ import annotations

import json

import cv2
import h5py
import numpy as np
import pytest

import hynet
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.features.folder import extract_all
from hynet.features.rotation_check import PhotoSample, are_rotated, orientation_of, sample_all
from hynet.features.settings import FeatureSettings
from hynet.matching.turning import turn

SETTINGS = {"model": "rootsift", "max_keypoints": 600, "geometry": "homography"}


def turned(photo: np.ndarray, degrees: float) -> np.ndarray:
    """The whole photo, turned, on grey ground."""
    height, width = photo.shape
    side = int(np.hypot(height, width))
    M = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
    M[:, 2] += [(side - width) / 2, (side - height) / 2]
    return cv2.warpAffine(photo, M, (side, side), borderValue=128)


@pytest.fixture(scope="module")
def scene() -> synthetic.Scene:
    return synthetic.scene(seed=2, photos=4, size=(400, 300))


@pytest.mark.parametrize("degrees", [0, 10, 90, 180, 270, 137])
def test_auto_has_as_many_inliers_as_the_better_orientation(scene, degrees):
    first, second = scene.photos[1], turned(scene.photos[2], degrees)
    inliers = {
        orientation: len(hynet.match_photos(first, second, orientation=orientation, **SETTINGS).inliers)
        for orientation in ("auto", "upright", "gradient")
    }
    assert inliers["auto"] >= 0.95 * inliers["gradient"]
    if degrees == 0:
        assert inliers["auto"] == inliers["upright"] > inliers["gradient"]
    if degrees >= 90:
        assert inliers["auto"] == inliers["gradient"] > 5 * inliers["upright"]


def test_the_turn_between_points_is_found():
    first = np.random.default_rng(0).uniform(0, 100, (40, 2))
    c, s = np.cos(0.7), np.sin(0.7)
    assert turn(first, 1.3 * first @ np.array([[c, s], [-s, c]]) + [5, 9]) == pytest.approx(0.7)


@pytest.mark.parametrize("model", ["default", "light"])
def test_a_collection_that_stands_is_told_from_one_with_a_turned_photo(scene, model):
    photos = [*scene.photos]
    assert not are_rotated(sample_all(photos, model))
    steps: list[tuple[int, int]] = []
    assert orientation_of(photos, model, lambda done, total, _: steps.append((done, total))) == "upright"
    assert steps == [(k, len(photos)) for k in range(1, len(photos) + 1)]
    assert orientation_of(photos[:1], model) == "gradient"  # nothing is known of what it will be matched with
    for quarters in (1, 2, 3):
        photos[2] = np.ascontiguousarray(np.rot90(scene.photos[2], quarters))
        assert are_rotated(sample_all(photos, model))
    noise = [np.random.default_rng(k).integers(0, 256, (200, 200), np.uint8) for k in range(3)]
    assert not are_rotated(sample_all(noise, model))


@pytest.mark.parametrize("model", ["default", "light"])
def test_a_collection_whose_photos_lean_a_little_each_counts_as_turned(scene, model):
    assert are_rotated(sample_all([turned(scene.photos[0], degrees) for degrees in (0, 12, 24)], model))
    assert not are_rotated(sample_all([turned(scene.photos[0], degrees) for degrees in (0, 3, 6)], model))


def test_photos_that_do_not_show_how_they_are_turned_are_oriented_where_that_matches_better():
    random = np.random.default_rng(0)
    alike = random.normal(size=(40, 128))

    def unit(rows: np.ndarray) -> np.ndarray:
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def described(matching: int) -> np.ndarray:
        """As many descriptors are those of the other photos, but for noise; the rest have no counterpart."""
        mine = random.normal(size=alike.shape)
        mine[:matching] = alike[:matching] + 0.1 * random.normal(size=(matching, 128))
        return unit(mine)

    def photos(oriented: int, upright: int) -> list[PhotoSample]:
        """Three with so many matches, which agree on no change of angle."""
        angles = random.uniform(-np.pi, np.pi, (3, len(alike)))
        return [PhotoSample(described(oriented), angle, described(upright)) for angle in angles]

    assert are_rotated(photos(oriented=40, upright=10))
    assert not are_rotated(photos(oriented=10, upright=40))
    assert not are_rotated(photos(oriented=22, upright=20)), "two matches a pair may be chance"


def test_extract_settles_the_orientation_once_for_a_collection(scene, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for name, photo in zip("abc", scene.photos, strict=False):
        cv2.imwrite(str(photos / f"{name}.png"), photo)
    out = tmp_path / "features.h5"
    settings = FeatureSettings(model="rootsift", max_keypoints=200)
    extract_all(photos, out, settings)
    with h5py.File(out) as file:
        assert json.loads(file.attrs["settings"])["orientation"] == "upright"
        assert (np.asarray(file["a.png/angles"]) == 0).all()
    for name in "de":  # those that come later are turned, and all features stay of one kind
        cv2.imwrite(str(photos / f"{name}.png"), np.rot90(scene.photos[3]))
    assert extract_all(photos, out, settings).new == 2
    with h5py.File(out) as file:
        assert (np.asarray(file["e.png/angles"]) == 0).all()


def test_an_unknown_orientation_or_shape_is_refused(tmp_path):
    with pytest.raises(BadInput, match="choose auto, upright or gradient"):
        hynet.Extractor(orientation="sideways")
    with pytest.raises(BadInput, match="AffNet"):
        hynet.Extractor(shape=tmp_path / "none.onnx")
