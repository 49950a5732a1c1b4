"""Matches are located more exactly than a detector locates keypoints, and never made worse than by a little."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import hynet
from hynet.benchmarks import BENCHMARKS
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.features.settings import FeatureSettings
from hynet.geometry import two_views
from hynet.matching.refinement import FARTHEST, REACH, refine
from hynet.types import Array, Features, Keypoints, Matches

SIZE = 480, 360  # width, height


def texture(seed: int) -> Array:
    """(H, W) grey, with structure of every size."""
    noise = np.random.default_rng(seed).normal(0, 1, SIZE[::-1]).astype(np.float32)
    sum_of_blurs = sum(cv2.GaussianBlur(noise, (0, 0), sigma) * sigma for sigma in (1.5, 3, 6, 12))
    return np.clip(128 + 45 * sum_of_blurs / np.std(sum_of_blurs), 0, 255).astype(np.uint8)


def at(xy: Array, sigma: float, linear: Array | None = None) -> Features:
    """Features of a photo of SIZE, all with one descriptor; linear: (2, 2), what their regions were stretched by.

    Sizes lie around sigma: where all are equal, keypoints count as points without a size.
    """
    frames = np.zeros((len(xy), 2, 3))
    frames[:, :, :2] = np.eye(2) if linear is None else linear
    frames[:, :, :2] *= sigma * np.linspace(0.99, 1.01, len(xy))[:, None, None]
    frames[:, :, 2] = xy
    return Features(Keypoints(frames, np.ones(len(xy))), np.ones((len(xy), 1), np.float32), SIZE)


def one_to_one(count: int) -> Matches:
    return Matches(np.column_stack([np.arange(count)] * 2), np.zeros(count, np.float32))


def grid() -> Array:
    """Places well inside, away from whole pixels."""
    return np.stack(np.meshgrid(np.arange(80.3, 400, 32), np.arange(80.7, 280, 32)), -1).reshape(-1, 2)


# second_from_first around the middle: a shift by part of a pixel; a turn, a zoom and a stretch, as between photos
MAPS = {
    "shifted": np.array([[1, 0, 0.37], [0, 1, -0.61], [0, 0, 1]]),
    "stretched": np.array([[1.12, 0.06, -30.2], [-0.04, 0.95, 14.9], [0, 0, 1]]),
    "seen from the side": np.array([[0.92, 0.05, 3.3], [0.02, 1.03, -8.8], [8e-5, 2e-5, 1]]),
}
LIGHTS = {
    "as it was": lambda grey: grey,
    "darker": lambda grey: 0.4 * grey + 10,
    "gamma": lambda grey: 255 * (grey / 255) ** 1.5,
}


@pytest.mark.parametrize("light", LIGHTS)
@pytest.mark.parametrize("name", MAPS)
def test_keypoints_that_are_off_by_half_a_pixel_are_put_where_they_belong(name, light):
    first, H, xy = texture(0), MAPS[name], grid()
    second = cv2.warpPerspective(first, H, SIZE, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    second = np.clip(LIGHTS[light](second.astype(np.float32)), 0, 255).round().astype(np.uint8)
    off = np.random.default_rng(1).normal(0, 0.5, xy.shape)
    a, b = at(xy, 2.5), at(two_views.transfer(H, xy) + off, 2.5)  # round regions: the stretch is not known
    found = refine(first, second, a, b, one_to_one(len(xy)))
    before = two_views.transfer_error(H, *one_to_one(len(xy)).places(a, b))
    after = two_views.transfer_error(H, *found.places(a, b))
    assert np.median(before) > 0.4
    assert np.median(after) < 0.08
    assert (after < before).mean() > 0.9


@pytest.mark.parametrize("sigmas", [(2.7, 3.0), (5.0, 6.0), (2.5, 3.5)], ids=str)
def test_a_match_of_two_sizes_is_seen_equally_sharp_in_both_photos(sigmas):
    """Around powers of two, each keypoint alone would be looked at in another copy of its photo."""
    first, H, xy = texture(0), MAPS["shifted"], grid()
    second = cv2.warpPerspective(first, H, SIZE, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    off = np.random.default_rng(1).normal(0, 0.5, xy.shape)
    a, b = at(xy, sigmas[0]), at(two_views.transfer(H, xy) + off, sigmas[1])
    found = refine(first, second, a, b, one_to_one(len(xy)))
    assert np.median(two_views.transfer_error(H, *found.places(a, b))) < 0.05


def test_a_region_that_is_turned_is_aligned_in_its_own_frame():
    first, xy = texture(2), grid()
    turn = cv2.getRotationMatrix2D((SIZE[0] / 2, SIZE[1] / 2), 75, 0.8)
    H = np.vstack([turn, [0, 0, 1]])
    second = cv2.warpPerspective(first, H, SIZE, flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REFLECT)
    there = two_views.transfer(H, xy)
    a, b = at(xy, 3.0), at(there + np.array([0.6, -0.5]), 3.0, turn[:, :2])
    found = refine(first, second, a, b, one_to_one(len(xy)))
    assert np.median(two_views.transfer_error(H, *found.places(a, b))) < 0.1


@pytest.mark.parametrize("light", LIGHTS)
@pytest.mark.parametrize("times", [1, 16])  # 16: more than are held at once
@pytest.mark.parametrize("degrees", [0, 75])
def test_keypoints_matched_with_a_neighbour_of_their_partner_are_put_where_they_belong(degrees, times, light):
    """Three sigmas away, which a descriptor forgives: the region of its patch is 24 wide."""
    first, xy = texture(2), np.tile(grid(), (times, 1))
    turn = cv2.getRotationMatrix2D((SIZE[0] / 2, SIZE[1] / 2), degrees, 0.9)
    H = np.vstack([turn, [0, 0, 1]])
    second = cv2.warpPerspective(first, H, SIZE, flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REFLECT)
    second = np.clip(LIGHTS[light](second.astype(np.float32)), 0, 255).round().astype(np.uint8)
    way = np.random.default_rng(1).uniform(0, 2 * np.pi, len(xy))
    beside = two_views.transfer(H, xy) + 7.5 * np.column_stack([np.cos(way), np.sin(way)])
    a, b = at(xy, 2.5), at(beside, 2.5, turn[:, :2])
    error = two_views.transfer_error(H, *refine(first, second, a, b, one_to_one(len(xy))).places(a, b))
    assert (error < 0.5).mean() > 0.8


def test_the_same_place_of_the_same_photo_stays_where_it_is():
    photo, xy = texture(3), grid()
    a = at(xy, 2.0)
    np.testing.assert_allclose(refine(photo, photo, a, a, one_to_one(len(xy))).refined, xy, atol=1e-3)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    contrast=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    sigmas=st.tuples(st.floats(0.3, 40), st.floats(0.3, 40)),
    flat=st.floats(0.05, 1),
    mirrored=st.booleans(),
    count=st.integers(2, 12),
)
def test_whatever_the_patches_show_no_match_goes_far_or_gets_lost(seed, contrast, sigmas, flat, mirrored, count):
    """Other photos, flat ones, regions beyond the border: a finite place within the reach, in sigmas."""
    random = np.random.default_rng(seed)
    first, second = (np.clip(128 + contrast * (texture(seed + k) - 128.0), 0, 255).astype(np.uint8) for k in (0, 1))
    shape = np.diag([1.0, -flat if mirrored else flat])
    a, b = (at(random.uniform(-5, SIZE, (count, 2)), sigma, shape) for sigma in sigmas)
    found = refine(first, second, a, b, one_to_one(count))
    assert found.refined.shape == (count, 2)
    moved = np.linalg.norm(found.refined - b.keypoints.xy, axis=1)
    assert np.isfinite(found.refined).all()
    farthest = np.sqrt(2) * REACH + FARTHEST
    assert (moved <= 1.02 * farthest * sigmas[1] + 1e-3).all()


def test_what_shows_something_else_stays_where_it_was_detected():
    first, second, xy = texture(6), texture(7), grid()
    a, b = at(xy, 2.5), at(xy, 2.5)
    moved = np.linalg.norm(refine(first, second, a, b, one_to_one(len(xy))).refined - xy, axis=1)
    assert (moved < 1e-3).mean() > 0.55


def test_no_match_is_put_outside_the_photo():
    """What a photo shows at its border goes on beyond it, repeated: a place there may look more alike."""
    first = texture(5)
    y = np.arange(30.5, SIZE[1] - 30, 8)
    beyond = np.column_stack([np.full(len(y), 403.0), y])  # 3 pixels beyond the border of the second photo
    second = first[:, :400].copy()
    a, b = at(beyond, 2.5), at(beyond - np.array([6.0, 0]), 2.5)
    b = Features(b.keypoints, b.descriptors, (400, SIZE[1]))
    found = refine(first, second, a, b, one_to_one(len(y))).refined
    assert (found[:, 0] <= 399.5).all()


def test_no_matches_are_refined_to_none():
    a, photo = at(grid(), 2.0), texture(0)
    assert refine(photo, photo, a, a, one_to_one(0)).refined.shape == (0, 2)


def test_many_matches_are_refined_as_each_alone():
    first, xy = texture(4), np.tile(grid(), (16, 1))  # more than are held at once
    second = cv2.warpPerspective(first, MAPS["shifted"], SIZE, flags=cv2.INTER_CUBIC)
    a, b = at(xy, 2.5), at(xy, 2.5)
    many = refine(first, second, a, b, one_to_one(len(xy))).refined
    one = refine(first, second, a, b, one_to_one(len(xy))[-1:]).refined
    np.testing.assert_allclose(many[-1], one[0], atol=1e-4)


def test_a_photo_that_the_features_are_not_of_is_refused():
    a = at(grid(), 2.0)
    with pytest.raises(BadInput, match="320 x 240 pixels, its features are of 480 x 360"):
        refine(np.zeros((240, 320), np.uint8), texture(0), a, a, one_to_one(3))


def test_matches_of_other_features_are_refused():
    photo, a, few = texture(0), at(grid(), 2.0), at(grid()[:5], 2.0)
    for use in (lambda matches: refine(photo, photo, a, few, matches), lambda matches: hynet.verify(a, few, matches)):
        with pytest.raises(BadInput, match=r"not of these features \(70 and 5\)"):
            use(one_to_one(70))


def test_refined_places_are_kept_when_matches_are_chosen_and_saved(tmp_path):
    xy = grid()[:5]
    a = at(xy, 2.0)
    matches = Matches(one_to_one(5).indices, np.zeros(5, np.float32), refined=(xy + 0.25).astype(np.float32))
    np.testing.assert_array_equal(matches[[3, 1]].places(a, a)[1], matches.refined[[3, 1]])
    matches.save(tmp_path / "matches.npz")
    np.testing.assert_array_equal(Matches.load(tmp_path / "matches.npz").refined, matches.refined)
    with pytest.raises(BadInput, match="as many refined places"):
        Matches(matches.indices, matches.distances, refined=matches.refined[:2])


# --- In use ---


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path, Array]:
    folder, H = tmp_path_factory.mktemp("pair"), MAPS["seen from the side"]
    first = texture(5)
    second = cv2.warpPerspective(first, H, SIZE, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    cv2.imwrite(str(folder / "1.png"), first)
    cv2.imwrite(str(folder / "2.png"), second)
    np.savetxt(folder / "H_1_2", H)
    return folder / "1.png", folder / "2.png", H


def test_two_photos_are_refined_unless_that_is_switched_off(pair):
    first, second, H = pair
    found, plain = (hynet.match_photos(first, second, model="rootsift", refine=each) for each in (True, False))
    np.testing.assert_array_equal(found.matches.indices, plain.matches.indices)
    assert plain.matches.refined is None
    assert "refine" in found.seconds
    assert "refine" not in plain.seconds

    def error(matched: hynet.matching.matched_photos.MatchedPhotos) -> float:
        places = matched.points(matched.inliers)
        return float(np.median(two_views.transfer_error(H, places[:, :2], places[:, 2:])))

    assert error(found) < error(plain) / 2


def test_the_command_prints_refined_points(pair, tmp_path, capsys):
    def points(*options: str) -> Array:
        asked = ["match", *map(str, pair[:2]), "--model", "rootsift", "--out", str(tmp_path / "m.png"), "--json"]
        assert main([*asked, *options]) == 0
        return np.array(json.loads(capsys.readouterr().out)["points"])

    detected = hynet.Extractor(model="rootsift", orientation="upright")(pair[1]).keypoints.xy.round(3)

    def at_keypoints(places: Array) -> float:
        return float(np.mean([np.abs(detected - place).max(1).min() < 2e-3 for place in places]))

    assert at_keypoints(points("--no-refine")[:, 2:]) == 1
    assert at_keypoints(points()[:, 2:]) < 0.2


def test_keypoints_without_a_size_are_left_where_they_are(pair):
    class Corners:
        """An extractor of points, as ALIKED and XFeat are: all of one size."""

        max_keypoints = 200
        ratio = None

        def __call__(self, photo: object) -> Features:
            image = hynet.images.read(photo)
            xy = cv2.goodFeaturesToTrack(image, 200, 0.01, 8)[:, 0]
            points = Keypoints.from_circles(xy, np.ones(len(xy)), np.zeros(len(xy)), np.ones(len(xy)))
            descriptors = hynet.load("rootsift").describe(hynet.images.patches.cut(image, points, 32, 24))
            return Features(points, descriptors, SIZE)

    found = hynet.match_photos(*pair[:2], extractor=Corners())
    assert len(found.matches) > 10
    assert found.matches.refined is None


@pytest.mark.parametrize("orientation", [3, 6])
def test_features_of_photos_as_they_lie_are_not_aligned_with_turned_ones(pair, orientation, tmp_path):
    """hloc and COLMAP pass over EXIF: their keypoints are of other pixels than those that we read."""
    for folder, exif in (("lying", None), ("turned", orientation)):
        (tmp_path / folder).mkdir()
        for path in pair[:2]:
            with Image.open(path) as photo:
                tags = Image.Exif()
                if exif is not None:
                    tags[0x0112] = exif
                photo.save(tmp_path / folder / f"{path.stem}.jpg", quality=95, exif=tags)
    settings = FeatureSettings(model="rootsift", max_keypoints=400)
    hynet.extract_all(tmp_path / "lying", tmp_path / "features.h5", settings)
    photos = [tmp_path / "turned" / f"{path.stem}.jpg" for path in pair[:2]]
    found = hynet.match_photos(*photos, extractor=tmp_path / "features.h5")
    assert len(found.matches) > 20
    assert found.matches.refined is None
    own = hynet.match_photos(*photos, model="rootsift", orientation="upright")
    assert own.matches.refined is not None


@pytest.mark.parametrize("refined", [True, False])
def test_benchmarks_refine_as_the_command_does_and_say_so(pair, refined):
    table = BENCHMARKS["homography"](["rootsift"], pair[0].parent, max_keypoints=300, refine=refined)
    assert any("are refined as `hynet match` does" in note for note in table.notes) == refined


def test_refined_matches_are_more_accurate_in_the_benchmark(pair):
    accuracy = {
        each: BENCHMARKS["homography"](["rootsift"], pair[0].parent, max_keypoints=300, refine=each).rows["rootsift"]
        for each in (True, False)
    }
    assert accuracy[True]["mma1"] > accuracy[False]["mma1"]
    assert accuracy[True]["correct"] >= accuracy[False]["correct"]


def test_poses_of_refined_matches_are_nearer_to_the_truth(tmp_path):
    """Rendered photos of a scene in depth, whose cameras are known."""
    scene = synthetic.scene(seed=1, photos=4, size=(400, 300))
    (tmp_path / "images").mkdir()
    (tmp_path / "calibration").mkdir()
    for k, (photo, pose) in enumerate(zip(scene.photos, scene.cam_from_world, strict=True)):
        cv2.imwrite(str(tmp_path / "images" / f"{k}.png"), photo)
        with h5py.File(tmp_path / "calibration" / f"calibration_{k}.h5", "w") as file:
            file["K"], file["R"], file["T"] = scene.K, pose[:, :3], pose[:, 3]

    def error(refined: bool) -> float:
        found = BENCHMARKS["imc"](["rootsift"], tmp_path, max_keypoints=900, refine=refined, seeds=3)
        (degrees,) = found.details["errors"]["rootsift"].values()
        return float(np.median(degrees))

    assert error(refined=True) < 0.8 * error(refined=False)
