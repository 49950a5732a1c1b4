"""The teacher of a run: what a trained model says of the very patches that the network sees."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..errors import BadInput
from ..features.descriptors.loading import load
from ..losses import Loss
from ..losses.options import takes
from .batches import Batch
from .configuration import TrainConfig


class Teacher:
    """A model by name or path. It describes bytes, so patches are rounded for it."""

    def __init__(self, name_or_path: str, device: str) -> None:
        self._descriptor = load(name_or_path, device=device)

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Unit descriptors of the anchors and of the positives, (n, D) each."""
        patches = torch.cat([batch.anchors, batch.positives])[:, 0]  # (2n, 32, 32)
        rows = self._descriptor.describe(patches.round().byte().cpu().numpy()).astype(np.float32, copy=False)
        anchors, positives = torch.from_numpy(rows).to(patches.device).chunk(2)
        return anchors, positives


def teacher_of(config: TrainConfig, loss: Loss, device: str) -> Teacher | None:
    """The teacher that the config names; a loss that takes none would ignore it."""
    if config.teacher is None:
        return None
    if not takes(loss, "taught"):
        raise BadInput(f"the loss {config.loss} has no use for a teacher; choose --loss distilled, or no --teacher.")
    return Teacher(config.teacher, device)
