"""Batches of matching pairs, and what is done to them before the network sees them: flips, turns, jitter, light.

Every batch is a function of the seed and its number alone, so a run can stop and go on anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, pi

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, affine_grid, avg_pool2d, grid_sample

from ..errors import BadInput
from ..types import Array, PatchSet

CELL = 8.0  # pixels; within one, neighbours come in any order
# The most that `jitter=1` does to a patch: about what detectors get wrong between two photos.
MOST_SHIFT, MOST_TURN, MOST_SCALE, MOST_STRETCH = 0.3, pi / 9, 1.28, 1.2  # half-widths, radians, factors


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
        flat, first, size = rows.ravel(), 0, self.sets[0].patches.shape[1]
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
    together: int = 1,
    hard: float = 0.0,
    batches: int | None = None,
) -> Array:
    """The batches of one epoch as rows of the data: (batches, pairs_per_batch, 2).

    All points take turns, in a new order each time round, and no point is twice in a batch. A point hands out its
    patches without replacement, and all of them again when fewer than two are left.

    Args:
        balance: 0 takes every point equally often; 0.5 gives a scene the square root of its points' share, 1 gives
            every scene the same share, as far as its points last.
        together: so many points of one reference image stay side by side, neighbours where places are known: hard
            negatives, and certain ones.
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
    while sum(map(len, drawn)) < batches * pairs_per_batch:
        turn = rng.permutation(len(first))
        if together > 1 and image is not None:
            turn = turn[_side_by_side(rng, image[turn], None if place is None else place[turn], together)]
        if balance and scene is not None:  # after the groups are made, so that it leaves out whole groups
            turn = turn[_balanced(scene[turn], balance, at_least=pairs_per_batch)]
        drawn.append(turn[: len(turn) // pairs_per_batch * pairs_per_batch])
    points = np.concatenate(drawn)[: batches * pairs_per_batch]
    rows = by_point[_hand_out(rng, points, first, count)]
    if hard and data.hard_pairs is not None:
        rows = _harder(rng, rows, data.points, data.hard_pairs, hard)
    return rows.reshape(batches, pairs_per_batch, 2)


def batches_per_epoch(data: Mixture | PatchSet, pairs_per_batch: int, pairs_per_epoch: int | None = None) -> int:
    """As many as the patches of the data fill, or as the pairs that an epoch is said to have."""
    count = np.unique(data.points, return_counts=True)[1]
    usable = count[count >= 2]
    _check_points(len(usable), pairs_per_batch)
    if pairs_per_epoch is None:
        return int(usable.sum()) // (2 * pairs_per_batch)
    return ceil(pairs_per_epoch / pairs_per_batch)


def augment(
    patches: Tensor,
    generator: torch.Generator,
    *,
    size: int = 32,
    flips: bool = True,
    jitter: float = 0.0,
    light: float = 0.0,
    blur: float = 0.0,
    noise: float = 0.0,
    jpeg: float = 0.0,
) -> Tensor:
    """Pairs (N, 2, S, S) uint8 -> what the network sees, (N, 2, size, size) float 0-255. Strengths from 0 to 1."""
    if flips:
        patches = flip_and_turn(patches, generator)
    flat = patches.flatten(0, 1)[:, None].float()  # (2N, 1, S, S): from here on, each patch for itself
    flat = warp(flat, generator, size, jitter) if jitter else shrink(flat, size)
    if blur:
        flat = soften(flat, generator, blur)
    if light:
        flat = relight(flat, generator, light)
    if noise:
        flat = flat + 12 * noise * _uniform(flat, generator, 0, 1) * torch.empty_like(flat).normal_(generator=generator)
    if jpeg:
        flat = quantise(flat, generator, jpeg)
    changed = blur or light or noise or jpeg
    return (flat.clamp(0, 255) if changed else flat).view(*patches.shape[:2], size, size)


def flip_and_turn(patches: Tensor, generator: torch.Generator) -> Tensor:
    """Half of the pairs turned by 90, 180 or 270 degrees, half flipped; the same for both patches. (N, 2, S, S)."""
    count = len(patches)
    draw = torch.rand(3, count, generator=generator, device=generator.device)
    turns = torch.where(draw[0] < 0.5, 0, 1 + (3 * draw[1]).long())
    kind = (2 * turns + (draw[2] < 0.5)).to(patches.device)  # (N,) one of eight
    turned = torch.empty_like(patches)
    for number in range(8):
        chosen = (kind == number).nonzero()[:, 0]
        some = torch.rot90(patches[chosen], number // 2, (2, 3))
        turned[chosen] = some.flip(2) if number % 2 else some
    return turned


def warp(patches: Tensor, generator: torch.Generator, size: int, strength: float) -> Tensor:
    """A detector's errors: each patch shifted, turned, scaled and stretched by its own amount, edges replicated.

    (M, 1, S, S) -> (M, 1, size, size). Where nothing moves, 64 to 32 is the mean of 2 x 2.
    """
    level = strength * _uniform(patches, generator, 0, 1)[:, 0, 0, 0]
    x, y, turn, zoom, stretch = (
        level * _uniform(patches, generator, -1, 1)[:, 0, 0, 0] * most
        for most in (MOST_SHIFT, MOST_SHIFT, MOST_TURN, log(MOST_SCALE), log(MOST_STRETCH))
    )
    axis = _uniform(patches, generator, 0, pi)[:, 0, 0, 0]
    along, across = (zoom + stretch / 2).exp(), (zoom - stretch / 2).exp()
    to_axis, from_axis = _rotation(-axis), _rotation(axis + turn)
    scaled = to_axis * torch.stack([along, across], 1)[:, :, None]
    theta = torch.cat([from_axis @ scaled, torch.stack([x, y], 1)[:, :, None]], 2)  # (M, 2, 3)
    grid = affine_grid(theta, [len(patches), 1, size, size], align_corners=False)
    return grid_sample(patches, grid, mode="bilinear", padding_mode="border", align_corners=False)


def shrink(patches: Tensor, size: int) -> Tensor:
    """(M, 1, S, S) -> (M, 1, size, size) by area."""
    return patches if patches.shape[-1] == size else adaptive_avg_pool2d(patches, size)


def soften(patches: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    """Between a little sharper and the mean of 3 x 3, each patch its own."""
    mean = avg_pool2d(patches, 3, stride=1, padding=1, count_include_pad=False)
    return torch.lerp(patches, mean, strength * _uniform(patches, generator, -0.3, 1))


def relight(patches: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    """Contrast from a half to double, brightness by 50 grey levels, each patch its own."""
    contrast = (strength * log(2) * _uniform(patches, generator, -1, 1)).exp()
    mean = patches.mean((2, 3), keepdim=True)
    return (patches - mean) * contrast + mean + 50 * strength * _uniform(patches, generator, -1, 1)


def quantise(patches: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    """What JPEG loses: the cosine transform of 8 x 8 blocks, rounded the coarser the higher the frequency."""
    side = patches.shape[-1] // 8
    frequency = torch.arange(8, device=patches.device)
    cosine = torch.cos(pi / 8 * frequency[:, None] * (frequency + 0.5)) / 2  # (8, 8), orthonormal but for row 0
    cosine[0] = 8**-0.5
    step = strength * _uniform(patches, generator, 0.2, 6)[..., None] * (1 + frequency + frequency[:, None])
    blocks = patches.view(-1, side, 8, side, 8).transpose(2, 3)  # (M, side, side, 8, 8)
    kept = torch.round(cosine @ blocks @ cosine.T / step) * step
    return (cosine.T @ kept @ cosine).transpose(2, 3).reshape(patches.shape)


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
    """Which of the points (in random order) take part this time: fewer of the large scenes."""
    _, scene, size = np.unique(scene, return_inverse=True, return_counts=True)
    share = size ** (1 - balance)
    # A quarter of the points at a time: small scenes can then have a multiple of their share and repeat nothing.
    quota = np.minimum(size, np.ceil(share / share.sum() * max(at_least, len(scene) // 4)))
    quota = quota if quota.sum() >= at_least else size
    order = np.argsort(scene, kind="stable")  # random order within a scene
    place = np.empty(len(scene), np.int64)  # of each point in its scene
    place[order] = np.arange(len(scene)) - np.repeat(np.cumsum(size) - size, size)
    return np.flatnonzero(place < quota[scene])


def _side_by_side(rng: np.random.Generator, image: Array, place: Array | None, together: int) -> Array:
    """An order in which points of one image stand in groups of up to `together`, the groups shuffled."""
    _, image, size = np.unique(image, return_inverse=True, return_counts=True)
    along = np.zeros(len(image)) if place is None else _winding((place - place.min(0)) / CELL + rng.uniform(0, 99, 2))
    order = np.lexsort((along, image))  # image by image, its points along the path or as they came
    place = np.arange(len(image)) - np.repeat(np.cumsum(size) - size, size)
    starts = place % together == 0
    group = np.cumsum(starts) - 1
    return order[np.argsort(rng.permutation(int(starts.sum()))[group], kind="stable")]


def _winding(place: Array) -> Array:
    """How far along a Z-shaped path through all cells of the plane each place lies: near there, near here. (P, 2)."""
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


def _rotation(angle: Tensor) -> Tensor:
    """(M,) -> (M, 2, 2)."""
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)


def _uniform(patches: Tensor, generator: torch.Generator, low: float, high: float) -> Tensor:
    """(M, 1, 1, 1): one number a patch."""
    draw = torch.rand(len(patches), 1, 1, 1, generator=generator, device=generator.device)
    return (low + (high - low) * draw).to(patches.device)
