"""FPR@95 on pairs that are known to match or not, which chooses the best checkpoint of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from torch import nn

from ..features.descriptors.layers import Network
from ..geometry.metrics import fpr95
from ..types import Array, PatchPairs, PatchSet
from .tiling import one_worker_per_core

VALIDATION_PAIRS = 10_000  # at most, of each set: bounds the time, and 1% is then known to 0.14%

ValidationSets = Mapping[str, tuple[PatchSet, PatchPairs]]


def validation_error(describe: Callable[[Array], Array], patch_set: PatchSet, known: PatchPairs) -> float:
    """FPR@95 in percent, over at most VALIDATION_PAIRS of the known pairs."""
    some = known.evenly(VALIDATION_PAIRS)
    distances = pair_distances(describe, patch_set, some)
    return 100 * fpr95(distances, some.is_match) if np.isfinite(distances).all() else 100.0


def pair_distances(describe: Callable[[Array], Array], patch_set: PatchSet, pairs: PatchPairs) -> Array:
    """(N,) between the two patches of each pair; a patch of several pairs is described once."""
    rows, where = np.unique(np.stack([pairs.first, pairs.second]), return_inverse=True)
    first, second = describe(patch_set.patches[rows])[where.reshape(2, -1)]
    return np.linalg.norm(first - second, axis=1)


def described(network: Network, patches: Array) -> Array:
    """The descriptors of patches by `network.describe`, on all cores at once."""
    parts = np.array_split(patches, max(1, len(patches) // 256))
    with evaluating(network), one_worker_per_core() as cores:  # workers must not switch it under each other
        return np.concatenate(list(cores.map(network.describe, parts)))


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """The network as it is used, and then again as it was."""
    was_training = network.training
    network.eval()
    yield
    network.train(was_training)
