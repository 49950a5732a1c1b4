"""LightNet: a ninth of HyNet's arithmetic, for CPUs. All of it folds into convolutions and ReLUs of 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from .layers import Network, as_rows

# 3x3 convolutions as (channels in, channels out, stride); an 8x8 convolution to 128 numbers follows.
LAYERS = [(1, 16, 2), (16, 32, 1), (32, 48, 2), (48, 64, 1)]


class LightNet(Network):
    """(N, 1, 32, 32) grey of any range -> (N, 128) raw. 4.4 million products a patch; HyNet has 39."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.patch = nn.InstanceNorm2d(1)
        for number, (inputs, outputs, stride) in enumerate(LAYERS, start=1):
            conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
            self.add_module(f"light{number}", nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU()))
        self.head = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(LAYERS[-1][1], self.dim, 8, bias=False), nn.BatchNorm2d(128, affine=False)
        )

    @classmethod
    def recognise(cls, weights: Mapping[str, Any]) -> LightNet | None:
        """The network that these weights belong to, None where they are another's."""
        if "light1.0.weight" not in weights or "head.1.weight" not in weights:
            return None
        network = cls()
        network.load_state_dict(weights)
        return network

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return as_rows(x)
