"""TFeat (Balntas et al., BMVC 2016): two convolutions and one full layer, and HardTFeat's variant of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from ...errors import BadInput
from .layers import Network, as_rows, standardise


class TFeat(Network):
    """(N, 1, 32, 32) grey of any range -> (N, 128) in [-1, 1], not of unit length; `describe` normalises."""

    def __init__(self) -> None:
        super().__init__()
        # Positions as in the published weights, where 0 is the standardisation.
        self.features = nn.Sequential(
            nn.InstanceNorm2d(1), nn.Conv2d(1, 32, 7), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 6), nn.Tanh()
        )
        self.descr = nn.Sequential(nn.Linear(64 * 8 * 8, self.dim), nn.Tanh())

    @classmethod
    def recognise(cls, weights: Mapping[str, Any]) -> TFeat | None:
        if "descr.0.weight" not in weights:
            return None
        network = cls()
        network.load_state_dict(weights)
        return network

    def patch_by_patch(self) -> tuple[list[nn.Module], nn.Sequential | None]:
        return [self], None

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2:] != (32, 32):
            raise BadInput("TFeat takes patches of 32 x 32 pixels; `describe` resizes others.")
        return self.descr(self.features(x).flatten(1))


class HardTFeat(Network):
    """TFeat's layout as trained with HardNet's loss: (N, 1, 32, 32) -> (N, 128) raw."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 32, 7), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 6), nn.Tanh())
        self.classifier = nn.Sequential(nn.Dropout(0.1), nn.Conv2d(64, self.dim, 8), nn.Tanh())

    @classmethod
    def recognise(cls, weights: Mapping[str, Any]) -> HardTFeat | None:
        """The published file carries SIFT's constants too."""
        if "classifier.1.weight" not in weights:
            return None
        network = cls()
        network.load_state_dict({key: value for key, value in weights.items() if not key.startswith("SIFT.")})
        return network

    def forward(self, x: Tensor) -> Tensor:
        return as_rows(self.classifier(self.features(standardise(x))))
