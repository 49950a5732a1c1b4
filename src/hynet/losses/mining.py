"""Finds the hardest negative of each pair in a batch: descriptors in, distances out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ..types import DIFFERENT_PIXELS, Array

# UBC repeats some patches under two point numbers; others this close are not negatives. As in HardNet.
TOO_CLOSE = 8e-3
# Inside the root of a distance, so that its slope at zero is finite. As released.
EPSILON = 1e-6
TOO_ALIKE = 1 - (TOO_CLOSE**2 - EPSILON) / 2  # the cosine of a distance TOO_CLOSE
# The distance of a pair that has no negative: the farthest apart that unit vectors can be, beyond most margins.
FARTHEST = 2.0

Ids: TypeAlias = "Tensor | Array"  # (N,) whole numbers


@dataclass(frozen=True)
class NegativeMask:
    """The pairs of a batch that may serve each other as negatives; by default, every other pair.

    `certain[i, j]` is true where pairs i and j are known to show different points (see `certainly_different`).
    """

    certain: Tensor | None = None  # (N, N) bool


EVERY_OTHER = NegativeMask()


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
    negatives: NegativeMask = EVERY_OTHER,
    *,
    across: bool = False,
    constant: bool = False,
) -> Tensor:
    """Distance from each pair to its nearest negative, over LL, RR, LR and RL. Unit rows (N, D) x (N, D) -> (N,).

    `across` looks at LR and RL only, anchors against positives.
    `constant` lets gradients reach the pair alone, not its negative.
    Only the winners are computed with gradients: no matrix is kept for the backward pass.
    """
    pairs = len(anchors)
    batch = torch.cat([anchors, positives])  # (2N, D)
    with torch.no_grad():
        cosines = batch @ batch.T  # (2N, 2N): LL LR over RL RR; nearest is largest
        _mask_out(cosines, pairs, negatives, across)
        cosine, nearest = cosines.max(1)  # (2N,) for either patch of a pair
        cosine, side = cosine.view(2, pairs).max(0)  # (N,) for the pair
        patch = side * pairs + torch.arange(pairs, device=side.device)
    d_neg = paired(batch[patch], (batch.detach() if constant else batch)[nearest[patch]])
    return torch.where(cosine > -torch.inf, d_neg, FARTHEST)


def certainly_different(
    points: Ids, images: Ids | None = None, scenes: Ids | None = None, places: Tensor | Array | None = None
) -> Tensor:
    """Find the pairs of a batch that are known to show different points. Ids (N,), places (N, 2) -> (N, N) bool.

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


def _mask_out(cosines: Tensor, pairs: int, negatives: NegativeMask, across: bool) -> None:
    """Write -inf, in place, wherever the other is no certain negative. (2N, 2N)."""
    cosines.masked_fill_(cosines >= TOO_ALIKE, -torch.inf)
    for side, rows in enumerate(cosines.split(pairs)):
        blocks = rows.split(pairs, dim=1)
        if across:
            blocks[side].fill_(-torch.inf)
        for block in blocks:
            block.fill_diagonal_(-torch.inf)
            if negatives.certain is not None:
                block.masked_fill_(~negatives.certain, -torch.inf)
