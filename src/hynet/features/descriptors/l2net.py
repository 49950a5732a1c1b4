"""L2-Net's layout, which HardNet and SOSNet share: state-dict keys are HardNet's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from .layers import L2NET_LAYERS, Network, as_rows, standardise


class L2Net(Network):
    """(N, 1, 32, 32) grey of any range -> (N, 128) raw. BatchNorm without affine, ReLU, patches standardised.

    HardNet divides a patch by its unbiased standard deviation, SOSNet by the biased one.
    """

    def __init__(self, unbiased: bool = True, dropout: float = 0.3) -> None:
        super().__init__()
        self.unbiased = unbiased
        layers: list[nn.Module] = []
        for inputs, outputs, stride in L2NET_LAYERS:
            conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
            layers += [conv, nn.BatchNorm2d(outputs, affine=False), nn.ReLU()]
        last = nn.Conv2d(128, self.dim, 8, bias=False)
        self.features = nn.Sequential(*layers, nn.Dropout(dropout), last, nn.BatchNorm2d(self.dim, affine=False))

    @classmethod
    def recognise(cls, weights: Mapping[str, Any]) -> L2Net | None:
        """HardNet's weights, or SOSNet's, whose layers are one further: its layer 0 is the standardisation."""
        if "features.19.weight" in weights:
            network = cls()
            renamed = {key: value for key, value in weights.items() if key.startswith("features.")}
        elif "layers.20.weight" in weights:
            network = cls(unbiased=False)
            numbered = {re.fullmatch(r"layers\.(\d+)\.(\w+)", key): value for key, value in weights.items()}
            renamed = {f"features.{int(key[1]) - 1}.{key[2]}": value for key, value in numbered.items() if key}
        else:
            return None
        network.load_state_dict(renamed)
        return network

    def forward(self, x: Tensor) -> Tensor:
        return as_rows(self.features(standardise(x, self.unbiased)))

    def with_maps(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Raw descriptors, and the outputs of the first and the last normalisation but one: L2-Net's loss uses them."""
        x, maps = standardise(x, self.unbiased), []
        first, last = 1, 3 * len(L2NET_LAYERS) - 2  # positions of those BatchNorms in `features`
        for position, layer in enumerate(self.features):
            x = layer(x)
            if position in (first, last):
                maps.append(x)
        return as_rows(x), maps
