"""Batches of pairs, and what is done to them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hynet.errors import BadInput
from hynet.training import augmentation, sampling
from hynet.types import PatchSet


def made_of(counts: list[int], images: list[int] | None = None, scenes: list[int] | None = None) -> PatchSet:
    """A set whose point k has counts[k] patches, rows shuffled."""
    order = np.random.default_rng(0).permutation(sum(counts))
    each = {
        "points": np.repeat(np.arange(len(counts)), counts)[order],
        "images": None if images is None else np.repeat(images, counts)[order],
        "scenes": None if scenes is None else np.repeat(scenes, counts)[order],
    }
    return PatchSet(np.zeros((sum(counts), 2, 2), np.uint8), **each)


def some_pairs(data: PatchSet, rng: np.random.Generator) -> np.ndarray:
    """For every third point, two of its rows."""
    rows = [np.flatnonzero(data.points == point) for point in range(0, data.points.max() + 1, 3)]
    return np.array([rng.permutation(two)[:2] for two in rows if len(two) >= 2], np.int64).reshape(-1, 2)


@given(
    counts=st.lists(st.integers(1, 9), min_size=12, max_size=60),
    batch=st.integers(2, 5),
    seed=st.integers(0, 99),
    group_size=st.sampled_from([1, 3]),
    balance=st.sampled_from([0.0, 0.5, 1.0]),
    hard=st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_pairs_show_one_point_twice_and_no_point_is_twice_in_a_batch(counts, batch, seed, group_size, balance, hard):
    counts = counts + [2] * batch
    data = made_of(counts, images=[k // 5 for k in range(len(counts))], scenes=[k // 10 for k in range(len(counts))])
    rng = np.random.default_rng(seed)
    data = replace(data, places=rng.uniform(0, 500, (len(data), 2)), hard_pairs=some_pairs(data, rng))
    rows = sampling.pairs(data, batch, seed=seed, epoch=1, group_size=group_size, balance=balance, hard=hard)
    assert (data.points[rows[..., 0]] == data.points[rows[..., 1]]).all()
    assert (rows[..., 0] != rows[..., 1]).all()
    for one in rows:
        assert len(np.unique(data.points[one[:, 0]])) == batch


def test_an_epoch_may_be_longer_than_the_patches_fill():
    data = made_of([3] * 10)
    assert sampling.batches_per_epoch(data, 4) == 3
    count = sampling.batches_per_epoch(data, 4, pairs_per_epoch=50)
    assert count == 13  # the last one whole
    rows = sampling.pairs(data, 4, seed=0, epoch=0, batches=count)
    assert rows.shape == (13, 4, 2)
    assert (data.points[rows[..., 0]] == data.points[rows[..., 1]]).all()
    assert all(len(np.unique(data.points[one[:, 0]])) == 4 for one in rows)


@pytest.mark.parametrize("ask", [sampling.batches_per_epoch, lambda *a: sampling.pairs(*a, seed=0, epoch=0, batches=9)])
def test_too_few_points_for_a_batch_are_told(ask):
    with pytest.raises(BadInput, match="there are 3; give more data"):
        ask(made_of([2, 2, 2, 1]), 4)


def test_a_point_hands_out_all_its_patches_before_any_again():
    data = made_of([6] * 8)
    rows = sampling.pairs(data, 8, seed=0, epoch=0)  # three batches, each with every point
    assert rows.shape == (3, 8, 2)
    assert sorted(rows.ravel()) == list(range(48))


def test_every_point_is_as_frequent_as_any_other_however_many_patches_it_has():
    data = made_of([2] * 10 + [20] * 10)
    rows = sampling.pairs(data, 20, seed=0, epoch=0)
    drawn = np.bincount(data.points[rows[..., 0]].ravel())
    assert (drawn == len(rows)).all()


def test_the_same_seed_and_epoch_give_the_same_batches_and_others_do_not():
    data = made_of([4] * 50)

    def draw(seed, epoch):
        return sampling.pairs(data, 10, seed=seed, epoch=epoch)

    assert (draw(1, 2) == draw(1, 2)).all()
    assert (draw(1, 2) != draw(1, 3)).any()
    assert (draw(1, 2) != draw(2, 2)).any()


def test_balance_gives_small_scenes_a_larger_share():
    data = made_of([4] * 1000, scenes=[0] * 900 + [1] * 100)

    def share_of_the_small_one(balance):
        rows = sampling.pairs(data, 50, seed=0, epoch=0, balance=balance)
        return (data.scenes[rows[..., 0]] == 1).mean()

    assert share_of_the_small_one(0.0) == pytest.approx(0.1, abs=0.02)
    assert share_of_the_small_one(0.5) == pytest.approx(0.25, abs=0.02)


def test_points_of_one_image_stand_together():
    data = made_of([2] * 400, images=[k % 20 for k in range(400)])
    rows = sampling.pairs(data, 40, seed=0, epoch=0, group_size=10)
    images = data.images[rows[..., 0]]
    assert all(len(np.unique(one)) <= 5 for one in images)


def test_points_that_stand_together_are_neighbours_where_places_are_known():
    rng = np.random.default_rng(0)
    data = made_of([2] * 2000, images=[0] * 2000)
    where = rng.uniform(0, 1000, (2000, 2))
    data = replace(data, places=where[data.points])

    def apart(data):
        rows = sampling.pairs(data, 200, seed=0, epoch=0, group_size=8, balance=0.5)
        groups = where[data.points[rows[..., 0].reshape(-1, 8)]]  # (groups, 8, 2)
        return np.median(np.linalg.norm(groups - groups.mean(1, keepdims=True), axis=2))

    assert apart(data) < apart(replace(data, places=None)) / 5


def test_so_many_pairs_are_hard_ones_of_the_points_that_have_them():
    data = made_of([12] * 300)
    data = replace(data, hard_pairs=some_pairs(data, np.random.default_rng(1)))
    hard = {tuple(pair) for pair in np.sort(data.hard_pairs, axis=1)}

    def share(wanted):
        rows = sampling.pairs(data, 100, seed=0, epoch=0, hard=wanted).reshape(-1, 2)
        rows = rows[data.points[rows[:, 0]] % 3 == 0]
        return np.mean([tuple(pair) in hard for pair in np.sort(rows, axis=1)])

    assert share(0.0) < 0.05  # one of 66 pairs
    assert share(0.5) == pytest.approx(0.5, abs=0.08)
    assert share(1.0) == 1


def test_too_few_points_are_told_with_the_way_out():
    with pytest.raises(BadInput, match="lower --pairs-per-batch"):
        sampling.pairs(made_of([2] * 5), 6, seed=0, epoch=0)


def test_a_mixture_keeps_the_sets_apart_and_finds_every_patch():
    rng = np.random.default_rng(0)
    sets = [PatchSet(rng.integers(0, 255, (6, 4, 4), np.uint8), np.arange(6) // 2, np.zeros(6, int)) for _ in range(2)]
    mixture = sampling.mix(sets)
    assert len(np.unique(mixture.points)) == 6
    assert len(np.unique(mixture.scenes)) == len(np.unique(mixture.images)) == 2
    assert mixture.places is None
    assert mixture.hard_pairs is None
    known = [replace(one, places=rng.random((6, 2)), hard_pairs=np.array([[2, 3]])) for one in sets]
    assert np.array_equal(sampling.mix(known).hard_pairs, [[2, 3], [8, 9]])
    assert np.array_equal(sampling.mix(known).places, np.concatenate([one.places for one in known]))
    assert sampling.mix([known[0], sets[1]]).places is None
    rows = np.array([[11, 0], [5, 6]])
    assert (mixture.patches(rows) == np.concatenate([one.patches for one in sets])[rows]).all()


def test_sets_of_different_patch_sizes_are_refused():
    with pytest.raises(BadInput, match="one size"):
        sampling.mix([made_of([2]), PatchSet(np.zeros((2, 3, 3), np.uint8), np.zeros(2, int))])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_flips_and_turns_are_the_same_for_both_patches_and_all_eight_occur():
    one = torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3).expand(400, 2, 3, 3)
    turned = augmentation.flip_and_turn(one, generator())
    assert (turned[:, 0] == turned[:, 1]).all()
    assert len(torch.unique(turned[:, 0].flatten(1), dim=0)) == 8
    assert (turned.flatten(2).sort(2).values == torch.arange(9)).all()


def test_augmentation_without_strength_is_the_mean_of_two_by_two():
    patches = torch.randint(0, 256, (5, 2, 64, 64), dtype=torch.uint8)
    seen = augmentation.augment(patches, generator(), flips=False)
    mean = patches.float().view(5, 2, 32, 2, 32, 2).mean((3, 5))
    assert torch.allclose(seen, mean)


def test_jitter_that_moves_nothing_is_the_mean_of_two_by_two():
    patches = torch.rand(5, 1, 64, 64) * 255
    still = augmentation.warp(patches, generator(), 32, strength=0.0)
    assert torch.allclose(still, patches.view(5, 1, 32, 2, 32, 2).mean((3, 5)), atol=1e-2)


def test_jitter_moves_a_spot_by_at_most_what_it_says():
    patches = torch.zeros(300, 1, 64, 64)
    patches[:, :, 31:33, 31:33] = 255
    seen = augmentation.warp(patches, generator(), 32, strength=1.0)[:, 0]
    where = (torch.arange(32) - 15.5) / 16  # in half-widths
    mass = seen.sum((1, 2))
    x, y = (seen.sum(1) * where).sum(1) / mass, (seen.sum(2) * where).sum(1) / mass
    moved = torch.maximum(x.abs(), y.abs())
    assert moved.max() < augmentation.MOST_SHIFT * augmentation.MOST_SCALE * augmentation.MOST_STRETCH * 1.2
    assert moved.max() > 0.5 * augmentation.MOST_SHIFT
    assert moved.median() > 0.02


@pytest.mark.parametrize("name", ["jitter", "light", "night", "blur", "noise", "jpeg"])
def test_every_change_is_bounded_seeded_and_each_patch_has_its_own(name):
    smooth = torch.linspace(60, 200, 64).add(20 * torch.rand(1, generator=generator())).expand(64, 64)
    noisy = (smooth + 25 * torch.randn(64, 64, generator=generator())).clamp(0, 255).to(torch.uint8)
    patches = noisy.expand(8, 2, 64, 64)
    plain = augmentation.augment(patches, generator(), flips=False)
    changed = augmentation.augment(patches, generator(), flips=False, **{name: 1.0})
    again = augmentation.augment(patches, generator(), flips=False, **{name: 1.0})
    assert torch.equal(changed, again)
    assert changed.min() >= 0
    assert changed.max() <= 255
    assert not torch.allclose(changed, plain)
    assert len(torch.unique(changed.flatten(0, 1).flatten(1), dim=0)) == 16
    together = torch.cat([plain[:1, 0], changed.flatten(0, 1)]).flatten(1)  # all were the same patch
    assert torch.corrcoef(together)[0].mean() > 0.5


def ramps(count: int = 400) -> torch.Tensor:
    """(M, 1, 32, 32): from 20 on the left to 240 on the right."""
    return torch.linspace(20, 240, 32).expand(count, 1, 32, 32)


def test_gamma_keeps_black_and_white_and_the_order_of_greys():
    bent = augmentation.bend(torch.linspace(0, 255, 32).expand(400, 1, 32, 32), generator())
    assert bent[..., 0].max() == 0
    assert torch.allclose(bent[..., -1], torch.tensor(255.0))
    assert (bent.diff(dim=3) >= 0).all()
    middle = bent[:, 0, 0, 16]
    assert middle.min() < 80
    assert middle.max() > 180


def test_a_shadow_darkens_one_side_of_a_straight_edge_and_leaves_the_other():
    shaded = augmentation.shade(torch.full((400, 1, 32, 32), 200.0), generator())[:, 0]
    corners = shaded[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert (shaded <= 200).all()
    assert (corners.max(1).values > 190).float().mean() > 0.9
    assert (corners.min(1).values < 150).float().mean() > 0.9


def test_night_is_dark_and_grainy_in_whole_grey_levels_and_lamps_saturate():
    day = ramps()
    night = augmentation.nightfall(day, generator())
    assert torch.equal(night, night.round())
    lit = night.amax((1, 2, 3)) == 255
    assert 0.1 < lit.float().mean() < 0.5
    darker = night.mean((1, 2, 3)) < 0.55 * day.mean((1, 2, 3))
    assert darker[~lit].float().mean() > 0.7
    columns = night[darker & ~lit][:, 0].std(1)  # of equal greys: grain alone, and what little a faint lamp adds
    assert columns.mean() > 1


def test_night_touches_its_share_of_the_patches_and_each_of_a_pair_for_itself():
    patches = ramps(2000).view(1000, 2, 32, 32).to(torch.uint8)
    plain = augmentation.augment(patches, generator(), flips=False)
    seen = augmentation.augment(patches, generator(), flips=False, night=0.3)
    same = (seen == plain).all(3).all(2)  # (N, 2)
    untouched = 0.7 * 0.85 * 0.85
    assert same.float().mean() == pytest.approx(untouched, abs=0.04)
    assert same.all(1).float().mean() == pytest.approx(untouched**2, abs=0.04)
