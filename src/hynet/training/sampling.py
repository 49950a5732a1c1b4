"""Sampling of the pairs that make each batch.

Every batch is a function of the seed and its number alone, so a run can stop and go on anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ..errors import BadInput
from ..types import Array, PatchSet

CELL = 8.0  # pixels; within one, neighbours come in any order


@dataclass(frozen=True)
class Mixture:
    """Several patch sets as one, all numbers made distinct. A set that names no scenes is one scene."""

    sets: tuple[PatchSet, ...]
    points: Array  # (P,)
    scenes: Array  # (P,)
    images: Array | None  # (P,), None when some set does not know them
    places: Array | None = None  # (P, 2), likewise
    hard_pairs: Array | None = None  # (K, 2) rows, of the sets that know them

    def __len__(self) -> int:
        return len(self.points)

    def patches(self, rows: Array) -> Array:
        """(...) row numbers -> (..., S, S) uint8; only those rows are read from disk."""
        flat, first = rows.ravel(), 0
        size = self.sets[0].patches.shape[1]
        found = np.empty((len(flat), size, size), np.uint8)
        for some in self.sets:
            here = (flat >= first) & (flat < first + len(some))
            found[here] = some.patches[flat[here] - first]
            first += len(some)
        return found.reshape(*rows.shape, size, size)


def mix(sets: Sequence[PatchSet]) -> Mixture:
    """One mixture of sets whose patches have one size."""
    sizes = {some.patches.shape[1] for some in sets}
    if len(sizes) != 1:
        raise BadInput(f"patch sets can be mixed when their patches have one size, got {sorted(sizes) or 'no set'}.")
    scenes = [np.zeros(len(some), np.int64) if some.scenes is None else some.scenes for some in sets]
    images = [some.images for some in sets if some.images is not None]
    places = [some.places for some in sets if some.places is not None]
    first = np.cumsum([0, *map(len, sets)])
    hard = [some.hard_pairs + start for some, start in zip(sets, first, strict=False) if some.hard_pairs is not None]
    return Mixture(
        tuple(sets),
        _distinct([some.points for some in sets]),
        _distinct(scenes),
        _distinct(images) if len(images) == len(sets) else None,
        np.concatenate(places) if len(places) == len(sets) else None,
        np.concatenate(hard) if hard else None,
    )


def pairs(
    data: Mixture | PatchSet,
    pairs_per_batch: int,
    *,
    seed: int,
    epoch: int,
    balance: float = 0.0,
    group_size: int = 1,
    hard: float = 0.0,
    batches: int | None = None,
) -> Array:
    """The batches of one epoch as rows of the data: (batches, pairs_per_batch, 2).

    All points take turns, in a new order each time round, and no point is twice in a batch. A point hands out its
    patches without replacement, and all of them again when fewer than two are left.

    Args:
        balance: 0 takes every point equally often; 0.5 gives a scene the square root of its points' share, 1 gives
            every scene the same share, as far as its points last.
        group_size: number of points of one reference image that stay side by side, neighbours where places are
            known: hard negatives, and certain ones.
        hard: so often a point gives one of its hard pairs, where it has any, in place of any two of its patches.
        batches: None: as many as the patches fill.
    """
    rng = np.random.default_rng((seed, epoch))
    by_point = np.argsort(data.points, kind="stable")  # rows of one point are neighbours
    _, first, count = np.unique(data.points[by_point], return_index=True, return_counts=True)
    usable = count >= 2
    first, count = first[usable], count[usable]
    _check_points(len(first), pairs_per_batch)
    batches = batches or batches_per_epoch(data, pairs_per_batch)
    scene = None if data.scenes is None else data.scenes[by_point[first]]
    image = None if data.images is None else data.images[by_point[first]]
    place = None if data.places is None else data.places[by_point[first]]
    drawn: list[Array] = []
    missing = batches * pairs_per_batch
    while missing > 0:
        turn = rng.permutation(len(first))
        if group_size > 1 and image is not None:
            turn = turn[_side_by_side(rng, image[turn], None if place is None else place[turn], group_size)]
        if balance and scene is not None:  # after the groups are made, so that it leaves out whole groups
            turn = turn[_balanced(scene[turn], balance, at_least=pairs_per_batch)]
        drawn.append(turn[: len(turn) // pairs_per_batch * pairs_per_batch])
        missing -= len(drawn[-1])
    points = np.concatenate(drawn)[: batches * pairs_per_batch]
    rows = by_point[_hand_out(rng, points, first, count)]
    if hard and data.hard_pairs is not None:
        rows = _harder(rng, rows, data.points, data.hard_pairs, hard)
    return rows.reshape(batches, pairs_per_batch, 2)


def batches_per_epoch(data: Mixture | PatchSet, pairs_per_batch: int, pairs_per_epoch: int | None = None) -> int:
    """Count the batches of an epoch: as many as the data's patches fill, or as `pairs_per_epoch` takes."""
    count = np.unique(data.points, return_counts=True)[1]
    usable = count[count >= 2]
    _check_points(len(usable), pairs_per_batch)
    if pairs_per_epoch is None:
        return int(usable.sum()) // (2 * pairs_per_batch)
    return ceil(pairs_per_epoch / pairs_per_batch)


def _distinct(columns: Sequence[Array]) -> Array:
    """One column of numbers 0, 1, 2 ... in which no two of the given columns share a number."""
    numbered, used = [], 0
    for column in columns:
        names, numbers = np.unique(column, return_inverse=True)
        numbered.append(numbers + used)
        used += len(names)
    return np.concatenate(numbered)


def _check_points(points: int, pairs_per_batch: int) -> None:
    if points < pairs_per_batch:
        raise BadInput(
            f"{pairs_per_batch} pairs a batch need as many points with two patches, and there are {points}; "
            "give more data or lower --pairs-per-batch."
        )


def _balanced(scene: Array, balance: float, at_least: int) -> Array:
    """Select the points (given in random order) that take part this time: a smaller share of large scenes."""
    _, scene, size = np.unique(scene, return_inverse=True, return_counts=True)
    share = size ** (1 - balance)
    # A quarter of the points at a time: small scenes can then have a multiple of their share and repeat nothing.
    quota = np.minimum(size, np.ceil(share / share.sum() * max(at_least, len(scene) // 4)))
    quota = quota if quota.sum() >= at_least else size
    order = np.argsort(scene, kind="stable")  # random order within a scene
    place = np.empty(len(scene), np.int64)  # of each point in its scene
    place[order] = np.arange(len(scene)) - np.repeat(np.cumsum(size) - size, size)
    return np.flatnonzero(place < quota[scene])


def _side_by_side(rng: np.random.Generator, image: Array, place: Array | None, group_size: int) -> Array:
    """An order in which points of one image stand in groups of up to `group_size`, the groups shuffled."""
    _, image, size = np.unique(image, return_inverse=True, return_counts=True)
    along = np.zeros(len(image)) if place is None else _winding((place - place.min(0)) / CELL + rng.uniform(0, 99, 2))
    order = np.lexsort((along, image))  # image by image, its points along the path or as they came
    place = np.arange(len(image)) - np.repeat(np.cumsum(size) - size, size)
    starts = place % group_size == 0
    group = np.cumsum(starts) - 1
    return order[np.argsort(rng.permutation(int(starts.sum()))[group], kind="stable")]


def _winding(place: Array) -> Array:
    """Position of each place (P, 2) along a Z-order curve through the cells of the plane: neighbours stay close."""
    cell = place.astype(np.int64)
    bits = np.arange(16)
    interleaved = (cell[:, :, None] >> bits & 1) << (2 * bits + np.array([[0], [1]]))  # x in even bits, y in odd
    return interleaved.sum((1, 2))


def _harder(rng: np.random.Generator, rows: Array, points: Array, hard_pairs: Array, share: float) -> Array:
    """Some of the drawn pairs replaced by a hard pair of the same point. (draws, 2) -> (draws, 2)."""
    owner = points[hard_pairs[:, 0]]
    by_owner = np.argsort(owner, kind="stable")
    drawn = points[rows[:, 0]]
    start, end = (np.searchsorted(owner[by_owner], drawn, side) for side in ("left", "right"))
    chosen = np.flatnonzero((end > start) & (rng.random(len(rows)) < share))
    harder = rows.copy()
    harder[chosen] = rng.permuted(hard_pairs[by_owner[rng.integers(start[chosen], end[chosen])]], axis=1)
    return harder


def _hand_out(rng: np.random.Generator, points: Array, first: Array, count: Array) -> Array:
    """Two positions (of rows sorted by point) for each drawn point: (draws,) -> (draws, 2)."""
    order = np.argsort(points, kind="stable")
    times = np.bincount(points, minlength=len(first))
    turn = np.empty(len(points), np.int64)  # how often the point was drawn before
    turn[order] = np.arange(len(points)) - np.repeat(np.cumsum(times) - times, times)
    refill, pair = np.divmod(turn, count[points] // 2)
    positions = np.empty((len(points), 2), np.int64)
    for number in range(int(refill.max()) + 1):
        now = np.flatnonzero(refill == number)
        some, which = np.unique(points[now], return_inverse=True)  # the points that hand out all of theirs (again)
        ends = np.cumsum(count[some])
        owner = np.repeat(np.arange(len(some)), count[some])
        rows = np.repeat(first[some] - (ends - count[some]), count[some]) + np.arange(ends[-1])
        rows = rows[np.argsort(owner + rng.random(len(owner)))]  # shuffled within each point
        start = (ends - count[some])[which] + 2 * pair[now]
        positions[now, 0], positions[now, 1] = rows[start], rows[start + 1]
    return positions
