"""Matching is brute force made fast: the same answer, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hynet.errors import BadInput, UnknownName
from hynet.geometry import two_views
from hynet.matching import nearest as matching
from hynet.matching.nearest import match
from hynet.matching.settings import THRESHOLDS
from hynet.matching.verification import verify
from hynet.types import Features, Keypoints, Matches


def features(descriptors: np.ndarray, xy: np.ndarray | None = None, size=(640, 480)) -> Features:
    n = len(descriptors)
    xy = np.random.default_rng(n).uniform(0, 400, (n, 2)) if xy is None else xy
    return Features(Keypoints.from_circles(xy, np.ones(n), np.zeros(n), np.ones(n)), descriptors, size)


def with_ties(count: int, seed: int) -> np.ndarray:
    """Unit rows of four halves: products are exact, and many are equal."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((count, 8), np.float32)
    for row in rows:
        row[rng.choice(8, 4, replace=False)] = rng.choice([-0.5, 0.5], 4)
    return rows


def brute_force(a: Features, b: Features, ratio: float | None, mutual: bool, fginn: float | None) -> list[tuple]:
    distances = np.linalg.norm(a.descriptors[:, None].astype(float) - b.descriptors[None], axis=2)  # (N, M)
    kept = []
    for row in range(len(a)):
        best = int(distances[row].argmin())
        others = [
            column
            for column in range(len(b))
            if column != best
            and (fginn is None or np.linalg.norm(b.keypoints.xy[column] - b.keypoints.xy[best]) > fginn)
        ]
        runner_up = min((distances[row, column] for column in others), default=np.inf)
        if mutual and distances[:, best].argmin() != row:
            continue
        if ratio not in (None, 1) and not distances[row, best] < ratio * runner_up:
            continue
        kept.append((row, best))
    return kept


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    tile=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    ratio=st.sampled_from([None, 0.8, 1.0]),
    mutual=st.booleans(),
    fginn=st.sampled_from([None, 100.0]),
    seed=st.integers(0, 1000),
)
def test_matching_is_brute_force_with_ties_to_the_lowest_index(sizes, tile, ratio, mutual, fginn, seed):
    a, b = features(with_ties(sizes[0], seed)), features(with_ties(sizes[1], seed + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "TILE_ROWS", tile[0])
        patch.setattr(matching, "TILE_COLUMNS", tile[1])
        found = match(a, b, ratio, mutual=mutual, fginn=fginn)
    assert [tuple(pair) for pair in found.indices] == brute_force(a, b, ratio, mutual, fginn)


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_a_noisy_shuffled_copy_is_matched_to_its_original():
    rng = np.random.default_rng(3)
    original = unit(rng.normal(size=(3000, 64)))
    order = rng.permutation(3000)
    copy = unit(original[order] + rng.normal(scale=0.03, size=original.shape))
    found = match(features(copy), features(original), ratio=0.8)
    assert np.array_equal(found.indices, np.column_stack([np.arange(3000), order]))
    assert found.distances == pytest.approx(np.linalg.norm(copy - original[order], axis=1), abs=1e-6)


def test_tiny_distances_keep_their_digits():
    point = unit(np.random.default_rng(0).normal(size=(1, 128)))
    nudged = point + np.float32(1e-5) * np.eye(1, 128, dtype=np.float32)
    assert match(features(point), features(nudged)).distances[0] == pytest.approx(1e-5, rel=0.01)


def test_two_equal_candidates_are_ambiguous_but_not_without_a_ratio():
    a, b = features(with_ties(1, 0)), features(np.repeat(with_ties(1, 0), 2, 0))
    assert len(match(a, b, ratio=0.99)) == 0
    assert match(a, b).indices.tolist() == [[0, 0]]


@pytest.mark.parametrize("counts", [(0, 5), (5, 0), (0, 0)])
def test_no_features_give_no_matches(counts):
    a, b = (features(np.zeros((count, 8), np.float32)) for count in counts)
    found = match(a, b, ratio=0.8, fginn=10)
    assert found.indices.shape == (0, 2)
    assert len(verify(a, b, found)) == 0


def test_descriptors_of_two_models_are_refused():
    with pytest.raises(BadInput, match="8 and 16"):
        match(features(np.zeros((1, 8), np.float32)), features(np.zeros((1, 16), np.float32)))


@pytest.mark.parametrize("ratio", [-0.5, 0, 80, np.nan])
def test_a_ratio_that_is_none_is_refused(ratio):
    with pytest.raises(BadInput, match="ratio"):
        match(features(with_ties(3, 0)), features(with_ties(3, 1)), ratio)


# --- verification ---

K = two_views.camera(800, (640, 480))
TURN = two_views.Pose(
    np.array([[np.cos(0.3), 0, np.sin(0.3)], [0, 1, 0], [-np.sin(0.3), 0, np.cos(0.3)]]),
    np.array([-0.95, 0.2, 0.25]),
)


def views(geometry_name: str, good: int, bad: int) -> tuple[Features, Features, Matches]:
    """Two photos whose first `good` matches obey the geometry within 0.3 px, the others random."""
    rng = np.random.default_rng(11)
    if geometry_name == "homography":
        first = rng.uniform(0, 480, (good, 2))
        second = two_views.transfer(np.array([[0.9, 0.1, 30], [-0.1, 1.1, 5], [1e-4, 2e-4, 1]]), first)
    else:
        points = rng.uniform(-1, 1, (good, 3)) + np.array([0, 0, 5])
        first = two_views.transfer(K, points[:, :2] / points[:, 2:])
        moved = points @ TURN.rotation.T + TURN.translation
        second = two_views.transfer(K, moved[:, :2] / moved[:, 2:])
    first = np.concatenate([first + rng.normal(0, 0.2, first.shape), rng.uniform(0, 480, (bad, 2))])
    second = np.concatenate([second + rng.normal(0, 0.2, second.shape), rng.uniform(0, 480, (bad, 2))])
    nothing = np.zeros((len(first), 4), np.float32)
    pairs = np.repeat(np.arange(len(first))[:, None], 2, 1)
    return features(nothing, first), features(nothing, second), Matches(pairs, np.zeros(len(first), np.float32))


@pytest.mark.parametrize("name", THRESHOLDS)
def test_verification_keeps_what_agrees_and_gives_the_same_answer_twice(name):
    a, b, matches = views(name, good=120, bad=80)
    fit = verify(a, b, matches, name, cameras=(K, K))
    assert fit.is_inlier[:120].mean() > 0.95
    assert fit.is_inlier[120:].mean() < 0.1
    assert len(fit) == fit.is_inlier.sum()
    again = verify(a, b, matches, name, cameras=(K, K))
    assert np.array_equal(again.model, fit.model)
    assert np.array_equal(again.is_inlier, fit.is_inlier)


def test_known_cameras_give_the_pose():
    a, b, matches = views("essential", good=120, bad=60)
    pose = verify(a, b, matches, "essential", cameras=(K, K)).pose
    assert pose is not None
    assert two_views.rotation_error(pose.rotation, TURN.rotation) < 0.5
    assert two_views.direction_error(pose.translation, TURN.translation) < 1


@pytest.mark.parametrize("name", THRESHOLDS)
@pytest.mark.parametrize("count", [0, 3, 4, 5, 8, 30, 300])
def test_matches_at_random_agree_on_nothing(name, count):
    a, b, matches = views(name, good=0, bad=count)
    fit = verify(a, b, matches, name)
    assert fit.model is None
    assert len(fit) == 0
    assert not fit.is_inlier.any()


@pytest.mark.parametrize("name", THRESHOLDS)
def test_the_same_photo_twice_agrees_with_itself(name):
    a, _, matches = views("fundamental", good=200, bad=0)
    assert len(verify(a, a, matches, name)) == 200


def test_an_unknown_geometry_lists_the_known_ones():
    a, b, matches = views("homography", good=10, bad=0)
    with pytest.raises(UnknownName, match="fundamental"):
        verify(a, b, matches, "affine")
    with pytest.raises(BadInput, match="threshold"):
        verify(a, b, matches, threshold=-1)
