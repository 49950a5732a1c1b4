"""Key.Net -> one ONNX file that runs without torch, arranged to be fast on a processor, and checked to say the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import BatchNorm2d, functional

from ...images.example import example
from ...types import Array
from ..detectors.keynet import BORDER, GRID
from ..detectors.keynet_network import BINOMIAL, DIFFERENCE, FILTERS, INNER_LEVELS, SMOOTH, KeyNetwork
from . import formats
from .formats import Exportable
from .onnx_graph import FLOAT, Graph

AGREE = 1e-4  # the largest difference of a score, relative to the largest score


class Pipeline(nn.Module):
    """(H, W) grey from 0 to 1 -> (H, W) scores."""

    def __init__(self, network: KeyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Tensor) -> Tensor:
        return self.network(image[None, None])[0, 0]


def export(network: KeyNetwork, path: str | Path, about: Mapping[str, str] | None = None) -> float:
    """Write `image` (H, W) grey from 0 to 1, sides multiples of GRID, -> `scores` (H, W); returns the difference.

    The outermost pixels, where no keypoint is taken, differ: second derivatives are taken in one step.
    """
    state = {name: value.detach() for name, value in network.state_dict().items()}
    photo = example().photos[0][: 3 * GRID, : 2 * GRID].astype(np.float32) / 255
    exportable = Exportable(
        Pipeline(network),
        np.ascontiguousarray(photo),
        ("image", "scores"),
        free=("H", "W"),
        multiple=GRID,
        onnx=lambda about: _model(state, about),
        difference=_inner_difference,
    )
    return formats.write(exportable, path, about or {}, AGREE)


def _inner_difference(said: Array, expected: Array) -> float:
    return float(np.abs(said - expected)[BORDER:-BORDER, BORDER:-BORDER].max() / expected.max())


def _model(state: Mapping[str, Tensor], about: Mapping[str, str]) -> Any:
    """Key.Net as an ONNX model on squares of 2 x 2 pixels: four times the channels, and 3 x 3 kernels for 5 x 5.

    Eight channels alone would fill a part of what a processor computes at once. Three times as fast, all in all.
    """
    graph = Graph("image")
    add = graph.add
    edge = graph.constant([0, 0, 2, 2, 0, 0, 2, 2])
    kernels = graph.constant(_at_four_pixels(_derivative_kernels()))
    blocks = [_without_norm(state, f"feature_extractor.lb_block.conv{k}.") for k in range(3)]
    layers = [
        (graph.constant(_on_squares(weight)), graph.constant(bias.repeat_interleave(4))) for weight, bias in blocks
    ]
    binomial = graph.constant(torch.outer(BINOMIAL, BINOMIAL)[None, None])

    def features(pixels: str) -> str:
        """(1, 1, H, W) -> squares (1, 32, H / 2, W / 2)."""
        firsts = add("Conv", add("Pad", pixels, edge, mode="edge"), kernels, strides=[2, 2])
        names = [f"{name} of {pixels}" for name in ("dx", "dy", "dxx", "dxy", "dyy")]
        dx, dy, dxx, dxy, dyy = graph.add_several("Split", firsts, names=names, axis=1, num_outputs=5)
        products = [add("Mul", *pair) for pair in ((dx, dx), (dy, dy), (dx, dy), (dxy, dxy), (dxx, dyy))]
        maps = [dx, dy, *products[:3], dxy, products[3], dxx, dyy, products[4]]
        squares = add("Concat", *maps, axis=1)
        for weight, bias in layers:
            squares = add("Relu", add("Conv", squares, weight, bias, pads=[1, 1, 1, 1]))
        return squares

    def smaller(pixels: str) -> str:
        blurred = add("Conv", add("Pad", pixels, edge, mode="reflect"), binomial)
        size = add("Div", add("Mul", add("Shape", pixels), np.array([1, 1, 5, 5])), np.array([1, 1, 6, 6]))
        return add("Resize", blurred, "", "", size, mode="linear")

    # A transposed convolution with the kernel turned round is the convolution; for one output it is far faster.
    last = state["last_conv.0.weight"].flip(2, 3).transpose(0, 1)  # (24, 1, 5, 5)
    first_weight = _at_four_pixels(last[:FILTERS])
    bias = state["last_conv.0.bias"]
    pixels = add("Unsqueeze", graph.source, np.array([0, 1]))
    full_size = add("Mul", add("Shape", pixels), np.array([1, FILTERS, 1, 1]))
    scores = add("ConvTranspose", features(pixels), first_weight, bias, strides=[2, 2], pads=[2] * 4)
    inner = []
    for _ in range(1, INNER_LEVELS):
        pixels = smaller(pixels)
        # Channels of a square are its four pixels, channel by channel: CRD.
        maps = add("DepthToSpace", features(pixels), blocksize=2, mode="CRD")
        inner.append(add("Resize", maps, "", "", full_size, mode="linear"))
    others = add("ConvTranspose", add("Concat", *inner, axis=1), last[FILTERS:], pads=[2] * 4)
    positive = add("Relu", add("Add", scores, others))
    result = add("Squeeze", positive, np.array([0, 1]), name="scores")
    pixels_each = (FLOAT, ["H", "W"])
    return graph.model(pixels_each, result, pixels_each, about)


def _without_norm(state: Mapping[str, Tensor], block: str) -> tuple[Tensor, Tensor]:
    """Weight and bias of convolution + batch normalisation as one convolution."""
    weight, bias, scale, shift, mean, variance = (
        state[block + name] for name in ("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var")
    )
    scale = scale / torch.sqrt(variance + BatchNorm2d(1).eps)
    return weight * scale[:, None, None, None], (bias - mean) * scale + shift


def _on_squares(weight: Tensor) -> Tensor:
    """Kernels for maps whose channels are the four pixels of each square: (o, i, 5, 5) -> (4o, 4i, 3, 3)."""
    outputs, inputs = weight.shape[:2]
    squares = torch.zeros(outputs, 2, 2, inputs, 2, 2, 3, 3)
    for y, x, row, column in np.ndindex(2, 2, 5, 5):
        v, u = y + row - 2, x + column - 2  # the pixel read, from the square's first
        squares[:, y, x, :, v % 2, u % 2, v // 2 + 1, u // 2 + 1] = weight[:, :, row, column]
    return squares.reshape(4 * outputs, 4 * inputs, 3, 3)


def _at_four_pixels(kernels: Tensor) -> Tensor:
    """Kernels for each pixel of a square, to be used with stride 2: (n, 1, 5, 5) -> (4n, 1, 6, 6)."""
    return torch.stack([functional.pad(kernels, (x, 1 - x, y, 1 - y)) for y in (0, 1) for x in (0, 1)], 1).flatten(0, 1)


def _derivative_kernels() -> Tensor:
    """dx, dy, dxx, dxy, dyy by Sobel, the second ones in one step: (5, 1, 5, 5)."""
    dx = torch.outer(SMOOTH, DIFFERENCE)[None, None]
    dy = dx.transpose(2, 3)
    seconds = [functional.conv_transpose2d(one, other) for one, other in ((dx, dx), (dx, dy), (dy, dy))]
    return torch.cat([functional.pad(dx, (1, 1, 1, 1)), functional.pad(dy, (1, 1, 1, 1)), *seconds])
