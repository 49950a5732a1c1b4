"""HyNet (Tian et al., NeurIPS 2020): L2-Net's layout with FRN and TLU. State-dict keys equal the released ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn

from ...errors import choose
from .layers import FRN, L2NET_LAYERS, TLU, Network, as_rows

Norm = Literal["frn", "bn", "in", "bn-affine"]


def _frn(channels: int) -> list[nn.Module]:
    return [FRN(channels), TLU(channels)]


def _bn(channels: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(channels, affine=False), nn.ReLU()]


def _bn_affine(channels: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(channels), nn.ReLU()]


def _in(channels: int) -> list[nn.Module]:
    return [nn.InstanceNorm2d(channels, affine=True), nn.ReLU()]


# "bn" is the network of HyNet's rivals (L2-Net, HardNet, SOSNet), layer by layer. "bn-affine" adds a bias to each
# convolution, and a scale and a bias to each BatchNorm: what "bn" was at first, kept so that such weights load.
NORMS = {"frn": _frn, "bn": _bn, "in": _in, "bn-affine": _bn_affine}


class HyNet(Network):
    """(N, 1, 32, 32) grey 0-255, never mean-subtracted -> (N, 128) raw. 1,336,355 parameters with FRN."""

    def __init__(self, norm: Norm = "frn", dropout: float = 0.3) -> None:
        super().__init__()
        normalised = choose(NORMS, norm, "normalisation")
        # The paper's network normalises its very input; ReLU after BN or IN would drop every dark pixel, so the
        # ablations standardise the patch instead, as L2-Net does.
        first = _frn(1) if norm == "frn" else [nn.InstanceNorm2d(1), nn.Identity()]
        for number, (inputs, outputs, stride) in enumerate(L2NET_LAYERS, start=1):
            conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=norm != "bn")
            layer = [conv, *normalised(outputs)]
            self.add_module(f"layer{number}", nn.Sequential(*(first if number == 1 else []), *layer))
        self.layer7 = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(128, self.dim, 8, bias=False), nn.BatchNorm2d(self.dim, affine=False)
        )

    @classmethod
    def recognise(cls, weights: Mapping[str, Any]) -> HyNet | None:
        """The network that these weights belong to, None where they are another's."""
        if "layer1.2.weight" not in weights or "layer7.1.weight" not in weights:
            return None
        norm: Norm = "in"
        if "layer1.4.tau" in weights:
            norm = "frn"
        elif "layer1.3.running_mean" in weights:
            norm = "bn-affine" if "layer1.3.weight" in weights else "bn"
        network = cls(norm)
        network.load_state_dict(weights)
        return network

    def patch_by_patch(self) -> tuple[list[nn.Module], nn.Sequential | None]:
        """Up to its last BatchNorm no patch sees another, where the norms are FRN or IN."""
        *layers, _ = self.children()
        return layers, self.layer7

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return as_rows(x)
