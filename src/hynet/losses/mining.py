"""Who is the hardest stranger in the batch? Descriptors in, distances out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ..types import DIFFERENT_PIXELS, Array

# UBC repeats some patches under two point numbers; "negatives" this close are not strangers. As in HardNet.
TOO_CLOSE = 8e-3
# Inside the root of a distance, so that its slope at zero is finite. As released.
EPSILON = 1e-6
TOO_ALIKE = 1 - (TOO_CLOSE**2 - EPSILON) / 2  # the cosine of a distance TOO_CLOSE
# The distance of a pair that has no stranger: the farthest apart that unit vectors can be, beyond most margins.
FARTHEST = 2.0

Ids: TypeAlias = "Tensor | Array"  # (N,) whole numbers


@dataclass(frozen=True)
class Strangers:
    """Who may serve as a negative. By default: every other pair of the batch.

    `certain[i, j]` says that pairs i and j are known to show different points (see `certainly_different`).
    `pool` holds extra negatives, such as another rank's descriptors; `pool_certain[i, m]` likewise.
    """

    certain: Tensor | None = None  # (N, N) bool
    pool: Tensor | None = None  # (M, D) raw or unit rows
    pool_certain: Tensor | None = None  # (N, M) bool


EVERY_OTHER = Strangers()


def unit(raw: Tensor) -> Tensor:
    """Rows of length one; a zero row stays zero. (N, D) -> (N, D)."""
    return raw * torch.rsqrt(raw.square().sum(1, keepdim=True) + 1e-10)


def distance(cosine: Tensor) -> Tensor:
    """d = sqrt(2 - 2 s), with a finite slope where descriptors coincide."""
    return (2 - 2 * cosine).clamp(min=0).add(EPSILON).sqrt()


def paired(a: Tensor, b: Tensor) -> Tensor:
    """Distance from each row of one to the same row of the other; unit rows. (N, D) x (N, D) -> (N,)."""
    return distance((a * b).sum(1))


def hardest_negatives(
    anchors: Tensor,
    positives: Tensor,
    strangers: Strangers = EVERY_OTHER,
    *,
    across: bool = False,
    constant: bool = False,
) -> Tensor:
    """Distance from each pair to its nearest stranger, over LL, RR, LR and RL. Unit rows (N, D) x (N, D) -> (N,).

    `across` looks at LR and RL only, anchors against positives. A pool has no sides and is looked at in any case.
    `constant` lets gradients reach the pair alone, not its stranger.
    Only the winners are computed with gradients: no matrix is kept for the backward pass.
    """
    pairs = len(anchors)
    batch = torch.cat([anchors, positives])  # (2N, D)
    everyone = batch if strangers.pool is None else torch.cat([batch, unit(strangers.pool.to(batch))])  # (2N + M, D)
    with torch.no_grad():
        cosines = batch @ everyone.T  # (2N, 2N + M): LL LR pool over RL RR pool; nearest is largest
        _leave_out_friends(cosines, pairs, strangers, across)
        cosine, nearest = cosines.max(1)  # (2N,) for either patch of a pair
        cosine, side = cosine.view(2, pairs).max(0)  # (N,) for the pair
        patch = side * pairs + torch.arange(pairs, device=side.device)
    d_neg = paired(batch[patch], (everyone.detach() if constant else everyone)[nearest[patch]])
    return torch.where(cosine > -torch.inf, d_neg, FARTHEST)


def certainly_different(
    points: Ids, images: Ids | None = None, scenes: Ids | None = None, places: Tensor | Array | None = None
) -> Tensor:
    """Which pairs of a batch are known to show different points. Ids (N,), places (N, 2) -> (N, N) bool.

    Without image ids, different point numbers are believed. With them, two points are only known to differ
    when both were found in one reference image, and not in one place of it; points of different scenes differ in
    any case.
    """
    points = torch.as_tensor(points)
    different = points[:, None] != points
    if images is not None:
        images = torch.as_tensor(images)
        different = different & (images[:, None] == images)
        if places is not None:
            places = torch.as_tensor(places).double()
            different = different & (torch.cdist(places, places) > DIFFERENT_PIXELS)
    if scenes is not None:
        scenes = torch.as_tensor(scenes)
        different = different | (scenes[:, None] != scenes)
    return different


def _leave_out_friends(cosines: Tensor, pairs: int, strangers: Strangers, across: bool) -> None:
    """Write -inf, in place, wherever the other is no certain stranger. (2N, 2N + M)."""
    cosines.masked_fill_(cosines >= TOO_ALIKE, -torch.inf)
    for side, rows in enumerate(cosines.split(pairs)):
        *batch, pool = rows.split([pairs, pairs, rows.shape[1] - 2 * pairs], dim=1)
        if across:
            batch[side].fill_(-torch.inf)
        for block in batch:
            block.fill_diagonal_(-torch.inf)
            if strangers.certain is not None:
                block.masked_fill_(~strangers.certain, -torch.inf)
        if strangers.pool_certain is not None:
            pool.masked_fill_(~strangers.pool_certain, -torch.inf)
