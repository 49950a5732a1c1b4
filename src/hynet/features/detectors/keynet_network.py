"""Key.Net as a torch network, under the names of the published weights. Only training and foreign weights need it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...errors import BadWeights
from ..descriptors.weights import read_shape_state

FILTERS = 8
INNER_LEVELS = 3  # each 1.2 times smaller than the one before
BINOMIAL = torch.tensor([1.0, 4, 6, 4, 1]) / 16
SMOOTH, DIFFERENCE = torch.tensor([1.0, 2, 1]) / 4, torch.tensor([-1.0, 0, 1]) / 2


class KeyNetwork(nn.Module):
    """Ten derivatives -> three convolutions, at three inner levels -> one score a pixel.

    Grey (B, 1, H, W) from 0 to 1 -> scores (B, 1, H, W), never below zero.
    """

    def __init__(self) -> None:
        super().__init__()
        blocks = nn.Sequential()
        for k, channels in enumerate((10, FILTERS, FILTERS)):
            convolution = nn.Conv2d(channels, FILTERS, 5, padding=2)
            blocks.add_module(f"conv{k}", nn.Sequential(convolution, nn.BatchNorm2d(FILTERS), nn.ReLU()))
        self.feature_extractor = nn.ModuleDict({"lb_block": blocks})
        self.last_conv = nn.Sequential(nn.Conv2d(FILTERS * INNER_LEVELS, 1, 5, padding=2), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        size = image.shape[2:]
        features = [self.feature_extractor["lb_block"](derivatives(image))]
        for _ in range(1, INNER_LEVELS):
            image = smaller(image)
            inner = self.feature_extractor["lb_block"](derivatives(image))
            features.append(functional.interpolate(inner, size=size, mode="bilinear"))
        return self.last_conv(torch.cat(features, 1))


def derivatives(image: Tensor) -> Tensor:
    """dx, dy, dx^2, dy^2, dx dy, dxy, dxy^2, dxx, dyy, dxx dyy, all by Sobel. (B, 1, H, W) -> (B, 10, H, W)."""
    along_x = torch.outer(SMOOTH, DIFFERENCE).to(image)
    kernels = torch.stack([along_x, along_x.T])[:, None]  # (2, 1, 3, 3)

    def sobel(pixels: Tensor) -> Tensor:
        return functional.conv2d(functional.pad(pixels, (1, 1, 1, 1), mode="replicate"), kernels)

    dx, dy = sobel(image).split(1, 1)
    dxx, dxy = sobel(dx).split(1, 1)
    dyy = sobel(dy)[:, 1:]
    maps = torch.cat([dx, dy, dx * dx, dy * dy, dx * dy, dxy, dxy * dxy, dxx, dyy, dxx * dyy], 1)
    return maps.contiguous(memory_format=torch.channels_last)  # a third less time in all that follows


def smaller(image: Tensor) -> Tensor:
    """The next inner level: blurred, and 5/6 of the size."""
    kernel = torch.outer(BINOMIAL, BINOMIAL).to(image)[None, None]
    blurred = functional.conv2d(functional.pad(image, (2, 2, 2, 2), mode="reflect"), kernel)
    height, width = image.shape[2:]
    return functional.interpolate(blurred, size=(height * 5 // 6, width * 5 // 6), mode="bilinear")


def recognised(state: Mapping[str, Any]) -> bool:
    """Whether weights are a Key.Net's."""
    return state.keys() == KeyNetwork().state_dict().keys()


def load(path: str | Path) -> KeyNetwork:
    """The network with the weights of a file: published (.pth), ours (.safetensors) or a checkpoint, ready to use."""
    network = KeyNetwork()
    try:
        network.load_state_dict(read_shape_state(path))
    except (RuntimeError, TypeError):
        raise BadWeights(f"{path} does not hold Key.Net's layers, all of them and no others.") from None
    return network.eval()
