"""Distances against their definitions, and models asked back from points they made."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from hynet.geometry import estimators, two_views

FIRST_K, SECOND_K = two_views.camera(900, (640, 480)), two_views.camera(700, (800, 600))


def rotation(*turns: float) -> np.ndarray:
    return cv2.Rodrigues(np.array(turns))[0]


POSE = two_views.Pose(rotation(0.05, 0.3, -0.1), np.array([0.8, 0.1, 0.2]) / np.linalg.norm([0.8, 0.1, 0.2]))

PLANE = np.array([[0.9, 0.1, 30], [-0.1, 1.1, 5], [1e-4, 2e-4, 1]])  # second from first


@pytest.fixture(scope="module")
def scene() -> tuple[np.ndarray, np.ndarray]:
    """150 points (K, 2) in each of two photos, exact."""
    points = np.random.default_rng(0).uniform(-1, 1, (150, 3)) + np.array([0, 0, 4])
    moved = points @ POSE.rotation.T + POSE.translation
    first, second = (
        two_views.transfer(K, seen[:, :2] / seen[:, 2:]) for K, seen in ((FIRST_K, points), (SECOND_K, moved))
    )
    return first, second


def test_a_homography_moves_points_as_its_matrix_says():
    H = np.array([[2.0, 0, 1], [0, 3, -1], [0, 0, 2]])
    assert two_views.transfer(H, np.array([[1.0, 1.0]])).tolist() == [[1.5, 1.0]]
    assert two_views.transfer_error(H, np.array([[1.0, 1.0]]), np.array([[1.5, 4.0]])).tolist() == [3.0]


def test_exact_matches_lie_on_their_epipolar_lines(scene):
    F = reference.fundamental_from_pose(POSE, FIRST_K, SECOND_K)
    assert two_views.sampson_distance(F, *scene).max() < 1e-9
    assert reference.epipolar_distance(F, *scene).max() < 1e-9


def test_epipolar_distance_is_the_mean_distance_to_both_lines(scene):
    F = reference.fundamental_from_pose(POSE, FIRST_K, SECOND_K)
    first, second = scene[0], scene[1] + np.random.default_rng(1).normal(0, 3, scene[1].shape)
    for x1, x2, distance in zip(first, second, reference.epipolar_distance(F, first, second), strict=True):
        line = F @ [*x1, 1]
        partner = F.T @ [*x2, 1]
        to_line = abs(line @ [*x2, 1]) / np.hypot(line[0], line[1])
        to_partner = abs(partner @ [*x1, 1]) / np.hypot(partner[0], partner[1])
        assert distance == pytest.approx((to_line + to_partner) / 2)


def test_sampson_distance_is_how_far_points_were_moved_off_their_lines(scene):
    # A rectified pair: the lines are rows, so moving both points by d apart costs 2 d / sqrt(2).
    rows = two_views.cross_matrix(np.array([1.0, 0, 0]))
    first, second = scene[0], scene[0] + [5, 0]
    assert two_views.sampson_distance(rows, first, second).max() == 0
    assert two_views.sampson_distance(rows, first - [0, 1], second + np.array([0, 1])) == pytest.approx(np.sqrt(2))


@given(degrees=st.floats(0, 180), axis=st.sampled_from([(1, 0, 0), (0.6, 0.8, 0), (0, -1, 0)]))
def test_rotation_error_is_the_angle_turned(degrees, axis):
    turned = rotation(*(np.radians(degrees) * np.array(axis))) @ POSE.rotation
    assert two_views.rotation_error(turned, POSE.rotation) == pytest.approx(degrees, abs=1e-4)


@given(degrees=st.floats(0, 180), length=st.floats(0.1, 10))
def test_direction_error_ignores_length_and_sign(degrees, length):
    turned = length * rotation(0, 0, np.radians(degrees)) @ [1, 0, 0]
    assert two_views.direction_error(turned, [1, 0, 0]) == pytest.approx(min(degrees, 180 - degrees), abs=1e-6)


def test_a_resized_photo_has_a_camera_that_sees_the_same_rays():
    # The corner (-0.5, -0.5) of the photo stays the corner.
    small = two_views.scale_camera(FIRST_K, 0.5)
    corners = np.array([[-0.5, -0.5], [639.5, 479.5]])
    small_corners = np.array([[-0.5, -0.5], [319.5, 239.5]])
    assert two_views.rays(small_corners, small) == pytest.approx(two_views.rays(corners, FIRST_K))


def test_degensac_finds_the_epipolar_lines(scene):
    first, second, good = with_strangers(*scene)
    F, inliers = estimators.fundamental(first, second, 1.0)
    assert inliers[good].all()
    assert inliers[~good].mean() < 0.1
    assert np.median(reference.epipolar_distance(F, *scene)) < 0.3


@pytest.mark.parametrize(("noise", "threshold"), [(0.3, 1.0), (3.0, 8.0)])
def test_a_fundamental_matrix_is_fitted_to_all_matches_near_it(scene, noise, threshold):
    """DEGENSAC's rests on a few matches, and every match is a little off."""
    random = np.random.default_rng(2)
    first, second = (each + random.normal(0, noise, each.shape) for each in scene)
    found = [estimators.degensac(first, second, px_th=threshold, seed=seed)[0] for seed in range(5)]
    better = [estimators.fitted_fundamental(F, first, second, threshold) for F in found]
    off, still_off = (np.mean([reference.epipolar_distance(F, *scene) for F in each]) for each in (found, better))
    assert still_off < 0.8 * off


def test_inliers_are_those_of_the_model_that_comes_with_them(scene):
    first, second, _ = with_strangers(*scene)
    F, inliers = estimators.fundamental(first, second, 1.0)
    assert ((two_views.sampson_distance(F, first, second) < 1.0) == inliers).all()
    noise = np.random.default_rng(5).normal(0, 1.5, scene[0].shape)
    first, second, _ = with_strangers(scene[0], two_views.transfer(PLANE, scene[0]) + noise)
    H, inliers = estimators.homography(first, second, 3.0)
    assert ((two_views.transfer_error(H, first, second) < 3.0) == inliers).all()


def test_poselib_finds_the_homography(scene):
    first, second, good = with_strangers(scene[0], two_views.transfer(PLANE, scene[0]))
    found, inliers = estimators.homography(first, second, 3.0)
    assert inliers[good].all()
    assert two_views.transfer_error(found, first[good], second[good]).max() < 0.1
    assert found[2, 2] == 1


def test_matches_that_are_roughly_right_hardly_move_a_homography(scene):
    exact = two_views.transfer(PLANE, scene[0])
    rough = np.random.default_rng(3).random(len(exact)) < 0.4  # off by up to two pixels, all to one side
    moved = exact + rough[:, None] * np.random.default_rng(4).uniform(0, 2, exact.shape)
    found, inliers = estimators.homography(scene[0], moved, 3.0)
    assert inliers.mean() > 0.9
    assert two_views.transfer_error(found, scene[0], exact).max() < 0.2


@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0])
def test_a_homography_is_about_as_good_as_least_squares_over_its_inliers(scene, noise):
    """However far off the matches are: Cauchy's loss of a fixed scale does twice as badly on some."""
    errors = []
    for seed in range(10):
        second = two_views.transfer(PLANE, scene[0]) + np.random.default_rng(seed).normal(0, noise, scene[0].shape)
        best = cv2.findHomography(scene[0], second, 0)[0]
        found, _ = estimators.homography(scene[0], second, 3.0, seed=seed)
        errors.append([two_views.corner_error(H, PLANE, (640, 480)) for H in (found, best)])
    ours, least_squares = np.mean(errors, 0)
    assert ours < 1.4 * least_squares


def test_poselib_finds_the_pose_and_so_does_the_fundamental_matrix(scene):
    first, second, good = with_strangers(*scene)
    pose, inliers = estimators.relative_pose(first, second, 1.0, first_K=FIRST_K, second_K=SECOND_K)
    assert inliers[good].all()
    F = reference.fundamental_from_pose(POSE, FIRST_K, SECOND_K)
    from_F = two_views.pose_from_fundamental(F, *scene, first_K=FIRST_K, second_K=SECOND_K)
    for found in (pose, from_F):
        assert two_views.rotation_error(found.rotation, POSE.rotation) < 0.1
        assert np.linalg.norm(found.translation - POSE.translation) < 0.01


def with_strangers(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The matches among as many random ones, shuffled, and which are good."""
    rng = np.random.default_rng(5)
    good = rng.permutation(np.arange(2 * len(first)) < len(first))
    all_first, all_second = rng.uniform(0, 480, (2, 2 * len(first), 2))
    all_first[good], all_second[good] = first, second
    return all_first, all_second, good


@pytest.mark.parametrize("count", range(9))
def test_too_few_matches_give_no_model_and_no_error(count):
    first, second = np.random.default_rng(count).uniform(0, 100, (2, count, 2))
    for model, inliers in (
        estimators.fundamental(first, second, 1.0),
        estimators.homography(first, second, 1.0),
        estimators.relative_pose(first, second, 1.0, first_K=FIRST_K, second_K=SECOND_K),
    ):
        assert inliers.shape == (count,)
        assert model is not None or not inliers.any()


@pytest.mark.parametrize("points", [np.zeros((50, 2)), np.repeat(np.arange(50.0)[:, None], 2, 1)])
def test_degenerate_points_do_not_crash(points):
    for fit in (estimators.fundamental, estimators.homography):
        model, inliers = fit(points, points + 3, 1.0)
        assert model is None or np.isfinite(model).all()
        assert inliers.shape == (50,)


def test_one_match_fifty_times_fixes_no_shared_focal_length():
    points = np.full((50, 2), 7.0)
    pose, _, inliers = estimators.shared_focal(points, points + 3, 1.0, image_size=(100, 80))
    assert pose is None
    assert not inliers.any()


def test_half_of_many_agreeing_is_no_accident_but_a_dozen_is():
    def beyond_chance(inliers: int) -> bool:
        return estimators.beyond_chance("fundamental", inliers, 300, 1.0, (640, 480))

    assert [beyond_chance(inliers) for inliers in (0, 7, 12, 150)] == [False, False, False, True]


def test_a_fundamental_matrix_is_found_among_three_times_as_many_wrong_matches(scene):
    rng = np.random.default_rng(3)
    wrong = rng.uniform(0, 480, (450, 2)), rng.uniform(0, 600, (450, 2))
    first, second = (np.concatenate([exact, made]) for exact, made in zip(scene, wrong, strict=True))
    F, inliers = estimators.fundamental(first, second, 0.5)
    assert inliers[:150].mean() > 0.9
    assert two_views.sampson_distance(F, *scene).max() < 0.5
