"""Batch after batch of augmented pairs; each follows from the seed and its number alone, so a run can stop anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput
from ..losses.mining import NegativeMask, certainly_different
from ..types import Array
from . import distributed
from .augmentation import augment
from .configuration import TrainConfig
from .sampling import Mixture, pairs


@dataclass(frozen=True)
class Batch:
    """This process's share of the pairs, and the mask of negatives of the whole batch."""

    anchors: Tensor  # (n, 1, S, S) float 0-255; 32 pixels where a descriptor is trained
    positives: Tensor  # (n, 1, S, S)
    negatives: NegativeMask
    taught: tuple[Tensor, Tensor] | None = None  # (n, D) each: what the teacher says of them

    @property
    def negatives_per_pair(self) -> float:
        """How many others of the batch may serve a pair as negatives, on average."""
        assert self.negatives.certain is not None  # `batches` always knows
        return float(self.negatives.certain.sum(1).float().mean())


def batches(
    data: Mixture, config: TrainConfig, *, first: int, per_epoch: int, device: str, size: int = 32
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
                together=config.together,
                hard=config.hard,
                batches=per_epoch,
            )
        chosen = rows[number % per_epoch]  # (N, 2)
        generator = torch.Generator().manual_seed(seed_of(config.seed, number, distributed.rank(), 1))
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


def one_ahead(endless: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, each made while the one before is learnt from: otherwise all cores but one wait for it."""
    with ThreadPoolExecutor(1, initializer=lambda: torch.set_num_threads(1)) as worker:
        following = worker.submit(next, endless)
        while True:
            batch = following.result()
            following = worker.submit(next, endless)
            yield batch


def certain_pairs(data: Mixture, rows: Array, only_certain: bool = False, device: str = "cpu") -> NegativeMask:
    """Who may be a negative to whom in a batch of pairs whose anchors are these rows."""
    return NegativeMask(_certain(data, rows, only_certain).to(device))


def _certain(data: Mixture, rows: Array, only_certain: bool) -> Tensor:
    """Who shows another point: by its number alone, or, where images are known, for certain. (N,) -> (N, N) bool."""
    points, scenes = torch.from_numpy(data.points[rows]), torch.from_numpy(data.scenes[rows])
    if data.images is None or not only_certain:
        return certainly_different(points)
    places = None if data.places is None else torch.from_numpy(data.places[rows])
    return certainly_different(points, torch.from_numpy(data.images[rows]), scenes, places)


def seed_of(*numbers: int) -> int:
    """One seed from several numbers, unlike that of any neighbour."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
