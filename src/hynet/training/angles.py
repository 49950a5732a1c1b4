"""The angles that a descriptor sees in training: between partners, and to the hardest negative of a batch (Fig. 2a)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..losses.mining import hardest_negatives, paired
from ..types import Array, Descriptor, PatchSet, Progress, silent
from .sampling import mix, pairs


@dataclass(frozen=True)
class Angles:
    """In radians, one of each kind for every pair of every batch."""

    positives: Array  # (K,)
    negatives: Array  # (K,)
    batches: int
    pairs_per_batch: int


def angles(
    descriptor: Descriptor,
    data: PatchSet,
    batches: int = 100,
    pairs_per_batch: int = 512,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> Angles:
    """Measure the angles of positives and hardest negatives in random batches, mined as HardNet does, for the figure.

    A batch has fewer pairs than asked for where the data has fewer points.
    """
    mixture = mix([data])
    _, counts = np.unique(data.points, return_counts=True)
    pairs_per_batch = min(pairs_per_batch, int((counts >= 2).sum()))
    drawn = pairs(mixture, pairs_per_batch, seed=seed, epoch=0, batches=batches)  # (batches, N, 2)
    found: dict[str, list[Tensor]] = {"positives": [], "negatives": []}
    for number, rows in enumerate(drawn):
        progress(number, batches, "angles")
        described = descriptor.describe(mixture.patches(rows.T.ravel()))  # anchors, then positives
        anchors, partners = torch.from_numpy(described).split(len(rows))
        found["positives"].append(paired(anchors, partners))
        found["negatives"].append(hardest_negatives(anchors, partners, across=True))
    positives, negatives = (_angle(torch.cat(some)) for some in found.values())
    return Angles(positives, negatives, batches, pairs_per_batch)


def _angle(d: Tensor) -> Array:
    """theta of d = 2 sin(theta / 2)."""
    return (2 * torch.asin((d / 2).clamp(max=1))).numpy()
