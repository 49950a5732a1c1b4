"""Batches of augmented pairs; each follows from the seed and its number alone, so a run can stop anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput
from ..losses.mining import NegativeMask, certainly_different
from ..types import Array
from . import distributed
from .augmentation import augment
from .configuration import PairsConfig
from .sampling import Mixture, pairs


@dataclass(frozen=True)
class Batch:
    """This process's share of the pairs, and the mask of negatives in the whole batch."""

    anchors: Tensor  # (n, 1, S, S) float 0-255; 32 pixels where a descriptor is trained
    positives: Tensor  # (n, 1, S, S)
    negatives: NegativeMask
    taught: tuple[Tensor, Tensor] | None = None  # (n, D) each: the teacher's descriptors

    @property
    def negatives_per_pair(self) -> float:
        """Mean number of other pairs of the batch that may serve a pair as negatives."""
        assert self.negatives.certain is not None  # `batches` always knows
        return float(self.negatives.certain.sum(1).float().mean())


def batches(
    data: Mixture, config: PairsConfig, *, first: int, per_epoch: int, device: str, size: int = 32
) -> Iterator[Batch]:
    """Batch number `first` and all after it, without end; each follows from the seed and its number."""
    share = config.pairs_per_batch // distributed.world()
    if share * distributed.world() != config.pairs_per_batch:
        raise BadInput(f"{config.pairs_per_batch} pairs do not divide by {distributed.world()} processes.")
    mine = slice(distributed.rank() * share, (distributed.rank() + 1) * share)
    epoch, rows = -1, np.empty(0)
    number = first
    while True:
        if epoch != number // per_epoch:
            epoch = number // per_epoch
            rows = pairs(
                data,
                config.pairs_per_batch,
                seed=config.seed,
                epoch=epoch,
                balance=config.balance,
                group_size=config.group_size,
                hard=config.hard,
                batches=per_epoch,
            )
        chosen = rows[number % per_epoch]  # (N, 2)
        generator = torch.Generator().manual_seed(config.seed_of(number, distributed.rank(), 1))
        patches = augment(
            torch.from_numpy(data.patches(chosen[mine])),
            generator,
            size=size,
            flips=config.flips,
            jitter=config.jitter,
            light=config.light,
            night=config.night,
            blur=config.blur,
            noise=config.noise,
            jpeg=config.jpeg,
        ).to(device)
        negatives = certain_pairs(data, chosen[:, 0], config.certain, device)
        yield Batch(patches[:, :1], patches[:, 1:], negatives)
        number += 1


def certain_pairs(data: Mixture, rows: Array, only_certain: bool = False, device: str = "cpu") -> NegativeMask:
    """The mask of negatives in a batch of pairs whose anchors are these rows: other points by their numbers alone, or,
    where images are known and `only_certain` is set, for certain."""
    points, scenes = torch.from_numpy(data.points[rows]), torch.from_numpy(data.scenes[rows])
    if data.images is None or not only_certain:
        return NegativeMask(certainly_different(points).to(device))
    places = None if data.places is None else torch.from_numpy(data.places[rows])
    return NegativeMask(certainly_different(points, torch.from_numpy(data.images[rows]), scenes, places).to(device))
