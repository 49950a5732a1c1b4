"""LightNet: a fifth of HyNet's arithmetic, for CPUs. All of it folds into convolutions and ReLUs of 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import Any

from torch import Tensor, nn

from .layers import Network, as_rows

# Channels of the 3x3 convolutions, of which the first and the third halve the side; an 8x8 one to 128 numbers follows.
WIDTHS = (16, 32, 64, 64, 64)


class LightNet(Network):
    """(N, 1, 32, 32) grey of any range -> (N, 128) raw. 7.6 million products a patch; HyNet has 39."""

    def __init__(self, dropout: float = 0.0, widths: Sequence[int] = WIDTHS) -> None:
        super().__init__()
        self.patch = nn.InstanceNorm2d(1)
        for number, (inputs, outputs) in enumerate(zip([1, *widths[:-1]], widths, strict=True), start=1):
            conv = nn.Conv2d(inputs, outputs, 3, 2 if number in (1, 3) else 1, padding=1, bias=False)
            self.add_module(f"light{number}", nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU()))
        self.head = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(widths[-1], self.dim, 8, bias=False), nn.BatchNorm2d(128, affine=False)
        )

    @classmethod
    def recognise(cls, weights: Mapping[str, Any]) -> LightNet | None:
        """The network that these weights belong to, of whatever widths; None where they are another's."""
        if "light1.0.weight" not in weights or "head.1.weight" not in weights:
            return None
        names = takewhile(weights.__contains__, (f"light{number}.0.weight" for number in count(1)))
        widths = [len(weights[name]) for name in names]
        if len(widths) < 3:
            raise RuntimeError("the third layer halves the side, and is missing")
        network = cls(widths=widths)
        network.load_state_dict(weights)
        return network

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return as_rows(x)
