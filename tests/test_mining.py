from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from hynet.mining import FARTHEST, NegativeMask, certainly_different, hardest_negatives, unit


def batch(seed: int, pairs: int = 7, dim: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    a = torch.randn(pairs, dim, generator=random, dtype=torch.float64)
    return a, a + 0.7 * torch.randn(pairs, dim, generator=random, dtype=torch.float64)


@given(seed=st.integers(0, 10_000), pairs=st.integers(2, 9), across=st.booleans())
def test_the_hardest_negative_is_the_one_a_loop_finds(seed, pairs, across):
    a, p = batch(seed, pairs)
    expected = torch.stack([reference.hardest(a, p, i, across=across) for i in range(pairs)])
    torch.testing.assert_close(hardest_negatives(unit(a), unit(p), across=across), expected, atol=1e-9, rtol=0)


@given(seed=st.integers(0, 10_000))
def test_only_certain_negatives_are_taken(seed):
    a, p = batch(seed)
    random = torch.Generator().manual_seed(seed)
    certain = torch.rand(len(a), len(a), generator=random) < 0.5
    certain = certain & certain.T
    found = hardest_negatives(unit(a), unit(p), NegativeMask(certain))
    expected = [reference.hardest(a, p, i, certain) for i in range(len(a))]
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-9, rtol=0)


@pytest.mark.parametrize(("apart", "nearest"), [(0.0075, 2**0.5), (0.0085, 0.0085)])
def test_near_duplicates_are_not_negatives(apart, nearest):
    a = torch.eye(4, dtype=torch.float64)
    a[1] = a[0] + apart * a[2]  # the same patch under two point numbers, or a negative that is very like it
    assert hardest_negatives(unit(a), unit(a))[0] == pytest.approx(nearest, abs=1e-4)


def test_a_pair_without_negatives_is_at_the_largest_distance():
    a, p = batch(0)
    nobody = torch.zeros(len(a), len(a), dtype=torch.bool)
    assert (hardest_negatives(unit(a), unit(p), NegativeMask(nobody)) == FARTHEST).all()


def test_points_differ_for_certain_in_one_image_or_in_different_scenes():
    points = torch.tensor([1, 1, 2, 3])
    images = torch.tensor([0, 0, 0, 5])
    scenes = torch.tensor([0, 0, 0, 1])
    believed, by_image = certainly_different(points), certainly_different(points, images)
    by_scene = certainly_different(points.numpy(), images.numpy(), scenes.numpy())  # as a PatchSet holds them
    assert not believed[0, 1]
    assert believed[0, 2]
    assert by_image[0, 2]
    assert not by_image[0, 3]
    assert by_scene[0, 3]
    assert not by_scene[0, 1]
    assert certainly_different(torch.tensor([1, 1]), scenes=torch.tensor([0, 1]))[0, 1]


def test_points_found_in_one_place_of_an_image_may_be_one():
    places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 11.0], [1.0, 1.0]])
    known = certainly_different(np.arange(4), np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1]), places)
    assert known[0].tolist() == [False, False, True, True]  # itself, too near, far enough, another scene


def test_no_matrix_is_kept_for_the_backward_pass():
    a, p = (unit(x).requires_grad_() for x in batch(0, pairs=64))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        hardest_negatives(a, p).sum().backward()
    assert max(kept) <= 2 * 64 * a.shape[1]
