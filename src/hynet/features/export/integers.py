"""Convolutions, BatchNorms and ReLUs as a graph of 8-bit integers: LightNet's, DesDis's and AffNet's.

BatchNorm folds into the convolution before it. A channel after a ReLU may be stored in any unit, stored = y / step:
the next convolution's weights undo it. Unsigned integers end at 0, which is the ReLU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from ...types import Array
from .graphs import finished, numbers, reach, rounded
from .onnx_graph import FLOAT, Graph, f32

TILE = 128  # patches at once: small activations, and a call costs as much as it does for a large network
KNOWN = (nn.InstanceNorm2d, nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Dropout)


def fits(network: nn.Module) -> bool:
    """Whether the graph here is the network's: a standardised patch, convolutions, BatchNorms and ReLUs."""
    leaves = _leaves(network)
    return isinstance(leaves[0], nn.InstanceNorm2d) and all(isinstance(leaf, KNOWN) for leaf in leaves)


@dataclass(frozen=True)
class Folded:
    """A convolution with the BatchNorm behind it, if there is one: y = conv(x) + bias."""

    weight: Array  # (C, channels in, K, K)
    bias: Array  # (C,)
    window: dict[str, Any]  # as ONNX says it


def in_integers(network: nn.Module, patches: Array, about: Mapping[str, str]) -> Any:
    """The network, from uint8 (N, 32, 32) to unit rows (N, 128), with ranges from the patches (N, 32, 32)."""
    graph = Graph("patches")
    x = graph.add("Cast", graph.source, to=FLOAT)
    x = graph.add("LayerNormalization", x, np.ones((32, 32), np.float32), axis=1, epsilon=1e-5)
    x = graph.add("Unsqueeze", x, np.array([1]))
    leaves = _leaves(network.eval())
    x = convolved(graph, x, folded(leaves), spans(leaves, torch.tensor(patches)[:, None].float()))
    return finished(graph, x, {"tile": str(TILE), **about})


def convolved(graph: Graph, x: str, layers: Sequence[Folded], ranges: Sequence[Array]) -> str:
    """Floats (N, 1, S, S) -> floats (N, C) of the last of the layers, which sees all that is left of a patch.

    The first convolution stays in floats: of one channel, integers would save nothing.
    """
    first, *between, head = layers
    zero, one = np.uint8(0), np.float32(1)
    x = graph.add("Conv", x, f32(first.weight), f32(first.bias), **first.window)
    step = ranges[0] / 255  # (C,)
    x = graph.add("QuantizeLinear", x, f32(step), np.zeros(len(step), np.uint8), axis=1)
    for layer, span in zip(between, ranges[1:], strict=True):
        weight, scale = rounded(layer.weight * step[:, None, None])
        step = span / 255
        signs, bias = np.zeros(len(step), np.int8), np.rint(layer.bias / scale).astype(np.int32)
        x = graph.add("QLinearConv", x, one, zero, weight, f32(scale / step), signs, one, zero, bias, **layer.window)
    weight, scale = rounded((head.weight * step[:, None, None]).reshape(len(head.bias), -1))
    x = graph.add("MatMulInteger", graph.add("Flatten", x), np.ascontiguousarray(weight.T), zero)
    x = graph.add("Mul", graph.add("Cast", x, to=FLOAT), f32(scale))
    return graph.add("Add", x, f32(head.bias))


def folded(leaves: Sequence[nn.Module]) -> list[Folded]:
    """The convolutions among the layers, each with the BatchNorm that follows it."""
    return [
        _folded(leaf, after if isinstance(after, nn.BatchNorm2d) else None)
        for leaf, after in pairwise([*leaves, nn.Identity()])
        if isinstance(leaf, nn.Conv2d)
    ]


def _folded(conv: nn.Conv2d, norm: nn.BatchNorm2d | None) -> Folded:
    assert isinstance(conv.padding, tuple)
    scale, shift = np.ones(conv.out_channels), np.zeros(conv.out_channels)
    if norm is not None:
        assert norm.running_mean is not None and norm.running_var is not None
        scale = 1 / np.sqrt(numbers(norm.running_var) + norm.eps)
        if norm.affine:
            scale, shift = scale * numbers(norm.weight), numbers(norm.bias)
        shift = shift - numbers(norm.running_mean) * scale
    if conv.bias is not None:
        shift = shift + numbers(conv.bias) * scale
    (side, _), (pad, _), (stride, _) = conv.kernel_size, conv.padding, conv.stride
    window = {"kernel_shape": [side] * 2, "pads": [pad] * 4, "strides": [stride] * 2}
    weight = conv.weight.detach().numpy().astype(np.float64) * scale[:, None, None, None]
    return Folded(weight, shift, window)


@torch.inference_mode()
def spans(leaves: Sequence[nn.Module], x: torch.Tensor) -> list[Array]:
    """The values that nearly all patches (N, 1, S, S) stay below after each ReLU, a number a channel."""
    found = []
    for module in leaves:
        x = module(x)
        if isinstance(module, nn.ReLU):
            found.append(reach(x))
    return found


def _leaves(network: nn.Module) -> list[nn.Module]:
    return [leaf for leaf in network.modules() if not list(leaf.children())]
