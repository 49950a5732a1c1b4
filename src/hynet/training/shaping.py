"""Warped patches in the shapes that a network predicts for them: their loss in a step, their error in validation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..features.detectors.affine_network import REGION
from ..features.detectors.affnet import AffNet
from ..losses import LossTerms, hardnegc
from ..types import Array
from .batches import Batch, seed_of
from .shape_settings import ShapeConfig
from .tiling import Work, settled
from .validation import ValidationSets, validation_error
from .warps import random_warps, sampled, shapes_of

AT_ONCE = 256  # patches that validation describes
VALIDATION = 0  # the number of its warps; those of steps are counted from 1


def loss_of(network: Work, descriptor: Work, batch: Batch, warps: Tensor) -> LossTerms:
    """HardNegC of the descriptors of a batch whose 2N patches are warped."""
    patches = torch.cat([batch.anchors, batch.positives])
    anchors, positives = descriptor(sampled(patches, shaped(network, patches, warps))).chunk(2)
    return hardnegc(anchors, positives, negatives=batch.negatives)


def shaped(network: Work | None, patches: Tensor, warps: Tensor) -> Tensor:
    """The frames of warped patches (M, 1, S, S) with the shapes that the network predicts, or round. (M, 2, 2)."""
    return warps if network is None else warps @ shapes_of(network(sampled(patches, warps)))


def warps_of(config: ShapeConfig, number: int, count: int) -> Tensor:
    """Those of a step, from 1, or of VALIDATION: (count, 2, 2), always the same."""
    generator = torch.Generator().manual_seed(seed_of(config.seed, number, 2))
    return random_warps(count, generator, config.tilt, config.turn)


def quick(module: nn.Module, config: ShapeConfig) -> Work:
    """The module in bfloat16, where that is asked for or fast; what is around it keeps its precision."""
    bfloat16 = settled(config.precision) == "bfloat16"

    def run(patches: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            return module(patches).float()

    return run


def errors(
    config: ShapeConfig, network: AffNet | None, descriptor: nn.Module, sets: ValidationSets, region: float = REGION
) -> dict[str, float]:
    """FPR@95 in percent of every set under warps that are the same each time, in predicted shapes or round."""

    @torch.inference_mode()
    def describe(patches: Array) -> Array:
        rows = []
        warps = warps_of(config, VALIDATION, len(patches))
        for some, their in zip(torch.from_numpy(patches).split(AT_ONCE), warps.split(AT_ONCE), strict=True):
            pixels = some[:, None].float()
            rows.append(descriptor(sampled(pixels, shaped(network, pixels, their), region)))
        return nn.functional.normalize(torch.cat(rows)).numpy()

    with _evaluating(descriptor), _evaluating(network):
        return {name: validation_error(describe, *some) for name, some in sets.items()}


@contextmanager
def _evaluating(network: nn.Module | None) -> Iterator[None]:
    was_training = network is not None and network.training
    if network is not None:
        network.eval()
    yield
    if network is not None:
        network.train(was_training)
