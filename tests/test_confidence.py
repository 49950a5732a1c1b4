"""How probable it is that a match is right: by its ratio and by the neighbours that moved as it did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hynet
from hynet.datasets import synthetic
from hynet.errors import BadInput
from hynet.features.extractors.patchwise import Extractor
from hynet.geometry import two_views
from hynet.images import drawing
from hynet.matching import rounded
from hynet.matching.confidence import same_place
from hynet.matching.consensus import Consensus
from hynet.matching.nearest import match, nearest
from hynet.matching.verification import verify
from hynet.types import Features, Keypoints, Matches


@pytest.fixture(scope="module")
def seen() -> tuple[Features, Features, np.ndarray]:
    """Two photos of a plane, and the homography between them."""
    first, second, second_from_first = synthetic.photo_pair(7, (400, 300))
    extract = Extractor(model="rootsift", max_keypoints=600, orientation="upright")
    return extract(first), extract(second), second_from_first


def is_right(a: Features, b: Features, matches: Matches, second_from_first: np.ndarray) -> np.ndarray:
    rows, columns = matches.indices.T
    return two_views.transfer_error(second_from_first, a.keypoints.xy[rows], b.keypoints.xy[columns]) < 3


def test_right_matches_are_more_probable_than_wrong_ones(seen):
    a, b, second_from_first = seen
    found = match(a, b, 1.0)
    right = is_right(a, b, found, second_from_first)
    assert 20 < right.sum() < len(right)
    assert found.confidence[right].mean() > 0.8 > 0.3 > found.confidence[~right].mean()


def test_consensus_keeps_more_right_matches_than_the_ratio_test_and_fewer_wrong_ones(seen):
    a, b, second_from_first = seen
    by_ratio, by_consensus = match(a, b, 0.9), Consensus()(a, b)
    right = [is_right(a, b, found, second_from_first).sum() for found in (by_ratio, by_consensus)]
    assert right[1] > right[0]
    assert right[1] / len(by_consensus) > 0.95 * right[0] / len(by_ratio)


def test_the_order_of_the_keypoints_does_not_matter(seen):
    a, b, _ = seen
    order = np.random.default_rng(0).permutation(len(a))
    found, shuffled = match(a, b), match(a[order], b)
    back = np.argsort(order[shuffled.indices[:, 0]])
    assert np.array_equal(order[shuffled.indices[back, 0]], found.indices[:, 0])
    assert shuffled.confidence[back] == pytest.approx(found.confidence, abs=1e-6)


def test_scaled_photos_have_the_same_confidences(seen):
    a, b, _ = seen
    larger = [
        Features(Keypoints(3 * each.keypoints.frames, each.keypoints.scores), each.descriptors, (1200, 900))
        for each in (a, b)
    ]
    assert match(*larger, 1.0).confidence == pytest.approx(match(a, b, 1.0).confidence, abs=1e-4)


def test_keypoints_without_size_are_matched_by_the_ratio_test(seen):
    a, b, _ = seen
    points = [
        Features(Keypoints.from_circles(each.keypoints.xy, np.ones(len(each)), np.zeros(len(each)), np.ones(len(each))),
                 each.descriptors, each.image_size, ratio=0.8)
        for each in (a, b)
    ]  # fmt: skip
    found = Consensus()(*points)
    assert found.confidence is None
    assert np.array_equal(found.indices, match(*points, 0.8).indices)


def test_keypoints_of_no_area_do_not_tell_how_the_surface_moved(seen):
    a, b, _ = seen
    frames = a.keypoints.frames.copy()
    frames[3, :, :2] = 0
    flat = replace(a, keypoints=Keypoints(frames, a.keypoints.scores))
    assert match(flat, b, 1.0).confidence is None
    assert len(Consensus(ratio=0.9)(flat, b)) > 20


def test_a_match_that_is_equal_to_its_runner_up_is_not_sure(seen):
    a, _, _ = seen
    twice = replace(a[:100], descriptors=np.repeat(a.descriptors[:50], 2, axis=0))
    confidence = match(twice, twice, 1.0).confidence
    assert confidence.max() < 0.5 < match(a, a, 1.0).confidence.min()


def test_photos_with_few_keypoints_are_matched_by_their_ratios(seen):
    a, _, _ = seen
    few = a[:15]
    found = Consensus()(few, few)
    assert len(found) == 15
    assert found.confidence.min() > 0.9


@pytest.mark.parametrize("geometry_name", ["homography", "essential", "shared-focal", "fundamental"])
def test_fits_that_try_the_surest_first_tell_inliers_in_the_order_of_the_matches(seen, geometry_name):
    a, b, second_from_first = seen
    found = match(a, b, 1.0)
    fit = verify(a, b, found, geometry_name)
    assert np.array_equal(found.indices[fit.is_inlier], fit.inliers.indices)
    assert is_right(a, b, fit.inliers, second_from_first).mean() > 0.8
    assert np.array_equal(fit.inliers.confidence, found.confidence[fit.is_inlier])


def test_two_photos_of_one_place_are_told_from_two_that_share_nothing(seen):
    first, second, _ = synthetic.photo_pair(7, (400, 300))
    other = synthetic.photo_pair(8, (400, 300))[0]
    options = {"model": "rootsift", "max_keypoints": 400}
    same, different = hynet.match_photos(first, second, **options), hynet.match_photos(first, other, **options)
    assert same.overlap > 0.9
    assert same.place == "the same place"
    assert different.overlap < 0.1
    assert different.place == "not the same place"
    assert not np.array_equal(same.draw(), different.draw())
    assert hynet.match_photos(first, second, matcher="nearest", ratio=0.8, **options).overlap > 0.9


def test_where_nothing_tells_whether_it_is_one_place_the_caption_is_not_green():
    first, second, _ = synthetic.photo_pair(7, (400, 300))
    found = hynet.match_photos(first, second, model="rootsift", max_keypoints=400, matcher="nearest")
    bare = replace(found, matches=replace(found.matches, confidence=None), overlap=None)
    said, colours = zip(*bare._caption(), strict=True)
    assert drawing.GREEN in [colour for _, colour in found._caption()]
    assert drawing.GREEN not in colours
    assert "".join(said).endswith("not known whether this is one place")


def test_hundreds_of_improbable_matches_do_not_make_a_place():
    improbable, probable = np.full(600, 0.03), np.full(40, 0.9)
    assert same_place(improbable, 0) == same_place(improbable[:0], 0) < 0.01
    assert same_place(np.concatenate([improbable, probable]), 30) == same_place(probable, 30) > 0.9


def test_confidences_that_are_too_few_are_refused():
    with pytest.raises(BadInput, match="as many confidences"):
        Matches(np.zeros((2, 2), np.int64), np.zeros(2), np.zeros(3))


def test_whole_numbers_find_nearly_the_matches_of_floats(seen):
    a, b, second_from_first = seen
    exact, by_whole_numbers = Consensus()(a, b), Consensus(rounded=True)(a, b)
    common = {*map(tuple, exact.indices)} & {*map(tuple, by_whole_numbers.indices)}
    assert len(common) > 0.97 * max(len(exact), len(by_whole_numbers))
    right = [is_right(a, b, found, second_from_first).sum() for found in (exact, by_whole_numbers)]
    assert right[1] > 0.98 * right[0]


@pytest.mark.parametrize("counts", [(1, 1), (1, 5), (5, 1), (700, 300)])
def test_whole_numbers_find_copies_whatever_their_number(counts):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(max(counts), 128)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    first, second = rows[: counts[0]], rows[: counts[1]]
    best, runner_up, best_of_second = rounded.nearest_by_integers(first, second)
    same = np.arange(min(counts))
    assert np.array_equal(best[same], same)
    assert np.array_equal(best_of_second[same], same)
    assert (runner_up == -1).all() == (counts[1] == 1)
    exact = nearest(first, second)[2]
    assert np.array_equal(best_of_second[best] == np.arange(len(first)), exact[best] == np.arange(len(first)))
