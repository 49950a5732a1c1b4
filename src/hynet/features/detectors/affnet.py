"""AffNet in torch (Mishkin et al., ECCV 2018): the ellipse of a region from its patch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from ...errors import BadWeights
from ..descriptors.weights import read_shape_state

CHANNELS, STRIDES = (16, 16, 32, 32, 64, 64), (1, 1, 2, 1, 2, 1)
LAST = 8  # pixels a side that are left for the last convolution
FLAT = 1e-4  # added to a patch's standard deviation, in grey levels


class AffNet(nn.Module):
    """Patches (N, 1, 32, 32) -> a, b, c (N, 3) of [[1 + a, 0], [b, 1 + c]]; keys as in the published weights."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in zip((1, *CHANNELS[:-1]), CHANNELS, STRIDES, strict=True):
            convolution = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            layers += [convolution, nn.BatchNorm2d(after, affine=False), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.Dropout(0.25), nn.Conv2d(CHANNELS[-1], 3, LAST), nn.Tanh())

    def forward(self, patches: Tensor) -> Tensor:
        return self.features(standardised(patches)).flatten(1)


def standardised(patches: Tensor) -> Tensor:
    """Each of mean 0 and standard deviation 1, but for flat ones."""
    mean, deviation = patches.mean((1, 2, 3), keepdim=True), patches.std((1, 2, 3), keepdim=True)
    return (patches - mean) / (deviation + FLAT)


def load(path: str | Path) -> AffNet:
    """The network in a published file, in one of ours, or in a checkpoint."""
    state = read_shape_state(path)
    if not isinstance(state, Mapping) or not recognised(state):
        raise BadWeights(f"{path} does not hold AffNet, whose last layer is (3, 64, 8, 8).")
    return from_state(state, str(path))


def recognised(state: Mapping[str, Tensor]) -> bool:
    """Whether these are the weights of AffNet, by the shape of its last layer."""
    last = state.get("features.19.weight")
    return last is not None and tuple(last.shape) == (3, CHANNELS[-1], LAST, LAST)


def from_state(state: Mapping[str, Tensor], source: str = "these weights") -> AffNet:
    """The network with its weights in it, ready to use."""
    network = AffNet()
    try:
        network.load_state_dict(state)
    except RuntimeError:
        raise BadWeights(f"{source} looks like AffNet, but its layers are not all there, or not of its size.") from None
    return network.eval()
