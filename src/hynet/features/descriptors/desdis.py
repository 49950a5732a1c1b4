"""DesDis (Liu et al., IJCV 2024): four convolutions, taught by a larger network; with its published weights a rival."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from .layers import Network, as_rows

STRIDE = 2  # of three of the four 3x3 convolutions: 32 -> 16 -> 8 -> 4 pixels


class DesDis(Network):
    """(N, 1, 32, 32) grey of any range -> (N, 128) raw; `width` is the number in the name of the weights."""

    def __init__(self, width: int = 32, dropout: float = 0.1) -> None:
        super().__init__()
        # Positions as in the published weights, where the first is the standardisation, and one the dropout.
        self.layer1 = nn.Sequential(nn.InstanceNorm2d(1), *_convolution(1, width, STRIDE))
        self.layer2 = nn.Sequential(*_convolution(width, 2 * width, STRIDE))
        self.layer3 = nn.Sequential(
            *_convolution(2 * width, 4 * width, STRIDE), *_convolution(4 * width, 4 * width, stride=1)
        )
        self.desc = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(4 * width, self.dim, 4), nn.BatchNorm2d(self.dim, affine=False)
        )

    @classmethod
    def recognise(cls, weights: Mapping[str, Any]) -> DesDis | None:
        if "layer3.3.weight" not in weights or "desc.1.weight" not in weights:
            return None
        network = cls(width=len(weights["layer1.1.weight"]))
        network.load_state_dict(weights)
        return network

    def forward(self, x: Tensor) -> Tensor:
        return as_rows(self.desc(self.layer3(self.layer2(self.layer1(x)))))


def _convolution(channels: int, out: int, stride: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(channels, out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(out, affine=False), nn.ReLU()
