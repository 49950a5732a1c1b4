"""Train the network for affine shapes and the descriptor together, both by the descriptor's loss.

Patches are used as `hynet match` uses them: the network looks at the middle of a warped patch, and all of it is
described in the shape that it predicts. Every second pair is left round, as augmentation gave it, so that the
descriptor still serves round regions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..errors import BadInput
from ..features.descriptors.layers import Network
from ..features.detectors import affnet
from ..features.detectors.affine_network import SHIPPED
from ..features.detectors.affnet import AffNet
from ..features.extractors.patchwise import network_of_shape
from ..features.models import weights_for_torch
from ..losses import LossTerms
from .batches import Batch
from .checkpoints import State
from .descriptor import loss_function, optimiser_of, tiled
from .loop import loss_of
from .shape import descriptor_of
from .shape_settings import JointConfig
from .shaping import quick, shaped
from .warps import sampled


class Joint(nn.Module):
    """Both networks, as checkpoints of such a run hold them; who reads one of them knows it by these names."""

    def __init__(self, shape: AffNet, descriptor: Network) -> None:
        super().__init__()
        self.joint_shape, self.joint_descriptor = shape, descriptor


class JointLearning:
    """Both networks learn, from the weights that the config names."""

    recipe: ClassVar[str] = "joint"
    region: ClassVar[float] = 1.0

    def __init__(self, config: JointConfig) -> None:
        shape, descriptor = affnet_of(config), descriptor_of(config)
        for part in descriptor.modules():
            if isinstance(part, nn.Dropout):
                part.p = config.dropout
        network = Joint(shape.to(memory_format=torch.channels_last), descriptor)  # type: ignore[call-overload]
        self.state = State(network.train(), optimiser_of(config, network), config.average)
        self._loss = loss_function(config)
        self._shape, self._descriptor = quick(shape, config), tiled(descriptor, config, self._loss)

    def loss(self, batch: Batch, warps: Tensor) -> LossTerms:
        patches, pairs = torch.cat([batch.anchors, batch.positives]), len(batch.anchors)
        second = torch.arange(1, pairs, 2)  # of the pairs
        rows = torch.cat([second, pairs + second])
        frames = torch.eye(2).repeat(len(patches), 1, 1)
        frames[rows] = shaped(self._shape, patches[rows], warps[rows])
        anchors, positives = sampled(patches, frames, self.region).chunk(2)
        return loss_of(self._descriptor, replace(batch, anchors=anchors, positives=positives), self._loss)

    def averaged(self) -> tuple[AffNet, Network]:
        return self.state.averaged.joint_shape, self.state.averaged.joint_descriptor


def affnet_of(config: JointConfig) -> AffNet:
    """The one that the config names, in torch."""
    weights = network_of_shape(config.shape)
    if weights is None:
        raise BadInput(f"{config.shape} learns nothing; start from affine-network, or from the path of its weights.")
    return affnet.load(weights_for_torch(SHIPPED) if weights == SHIPPED else weights)
