"""FPR@95 on pairs that are known to match or not: what chooses the best checkpoint of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

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
    """network.describe, by all cores at once."""
    parts = np.array_split(patches, max(1, len(patches) // 256))
    was_training = network.training
    network.eval()  # here, because workers must not switch it under each other
    with one_worker_per_core() as cores:
        rows = np.concatenate(list(cores.map(network.describe, parts)))
    network.train(was_training)
    return rows
