"""Raising the weak directions of a trained descriptor, by its last layer alone.

A triplet loss is content with few directions: after 7,000 steps half of ours carried 90% of the variance, and the rest
held knowledge that no distance could see. The outputs are multiplied by C^-power, C their covariance; 0.5 makes all
directions alike, less lets the strong ones lead. The product goes into the last convolution, so nothing is slower.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..descriptors.layers import Network
from ..errors import BadInput

PATCHES = 16_384  # that the covariance is measured on
WEAKEST = 1e-6  # of the strongest direction: below, there is only rounding


@torch.no_grad()
def whiten(network: Network, patches: Tensor, power: float) -> None:
    """Change the last layer so that raw outputs come out multiplied by C^-power. Patches: (N, 1, 32, 32) 0-255."""
    convolution, norm = _last_layer(network)
    strength, directions = torch.linalg.eigh(torch.cov(_outputs(network, patches).T.double()))
    strength = strength.clamp_min(WEAKEST * strength[-1])
    change = (directions * strength**-power @ directions.T).float()  # symmetric
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None  # both are there while BatchNorm tracks them, and ours do
    assert variance is not None
    scale = torch.rsqrt(variance + norm.eps)
    convolution.weight.copy_(torch.einsum("ij,jchw->ichw", change * scale, convolution.weight))
    mean.copy_(change @ (mean * scale))
    variance.fill_(1 - norm.eps)


def _outputs(network: Network, patches: Tensor) -> Tensor:
    was_training, device = network.training, next(network.parameters()).device
    network.eval()
    rows = torch.cat([network(part.to(device)) for part in patches.split(512)])
    network.train(was_training)
    return rows


def _last_layer(network: Network) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    parts = [part for part in network.modules() if not [*part.children()]]
    convolution, norm = parts[-2:]
    if not (isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)):
        raise BadInput(
            f"--whiten needs a network that ends with a convolution and BatchNorm, and {type(network).__name__} "
            "does not; leave it out."
        )
    return convolution, norm
