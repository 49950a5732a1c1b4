"""Convolutions, BatchNorms and ReLUs as a graph of 8-bit integers: LightNet's and DesDis's.

BatchNorm folds into the convolution before it. A channel after a ReLU may be stored in any unit, stored = y / step:
the next convolution's weights undo it. Unsigned integers end at 0, which is the ReLU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ..types import Array
from .graphs import finished, rounded
from .onnx_graph import FLOAT, Graph, f32
from .stages import numbers, reach

TILE = 128  # patches at once: small activations, and a call costs as much as it does for a large network
KNOWN = (nn.InstanceNorm2d, nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Dropout)


def fits(network: nn.Module) -> bool:
    """Whether the graph here is the network's: a standardised patch, convolutions, BatchNorms and ReLUs."""
    leaves = _leaves(network)
    return isinstance(leaves[0], nn.InstanceNorm2d) and all(isinstance(leaf, KNOWN) for leaf in leaves)


@dataclass(frozen=True)
class Folded:
    """A convolution with the BatchNorm behind it: y = conv(x) + bias."""

    weight: Array  # (C, channels in, K, K)
    bias: Array  # (C,)
    window: dict[str, Any]  # as ONNX says it


def in_integers(network: nn.Module, patches: Array, about: Mapping[str, str]) -> Any:
    """The network, from uint8 (N, 32, 32) to unit rows (N, 128), with ranges from the patches (N, 32, 32).

    The first convolution stays in floats: of one channel, integers would save nothing.
    """
    graph = Graph("patches")
    first, *layers, head = _folded(network)
    span, *spans = _spans(network, patches)
    zero, one = np.uint8(0), np.float32(1)
    x = graph.add("Cast", graph.source, to=FLOAT)
    x = graph.add("LayerNormalization", x, np.ones((32, 32), np.float32), axis=1, epsilon=1e-5)
    x = graph.add("Unsqueeze", x, np.array([1]))
    x = graph.add("Conv", x, f32(first.weight), f32(first.bias), **first.window)
    step = span / 255  # (C,)
    x = graph.add("QuantizeLinear", x, f32(step), np.zeros(len(step), np.uint8), axis=1)
    for layer, span in zip(layers, spans, strict=True):
        weight, scale = rounded(layer.weight * step[:, None, None])
        step = span / 255
        signs, bias = np.zeros(len(step), np.int8), np.rint(layer.bias / scale).astype(np.int32)
        x = graph.add("QLinearConv", x, one, zero, weight, f32(scale / step), signs, one, zero, bias, **layer.window)
    weight, scale = rounded((head.weight * step[:, None, None]).reshape(len(head.bias), -1))
    x = graph.add("MatMulInteger", graph.add("Flatten", x), np.ascontiguousarray(weight.T), zero)
    x = graph.add("Mul", graph.add("Cast", x, to=FLOAT), f32(scale))
    return finished(graph, graph.add("Add", x, f32(head.bias)), {"tile": str(TILE), **about})


def _folded(network: nn.Module) -> list[Folded]:
    leaves = [leaf for leaf in _leaves(network) if isinstance(leaf, nn.Conv2d | nn.BatchNorm2d)]
    return [_with_norm(conv, norm) for conv, norm in zip(leaves[::2], leaves[1::2], strict=True)]


def _with_norm(conv: nn.Module, norm: nn.Module) -> Folded:
    assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and isinstance(conv.padding, tuple)
    assert norm.running_mean is not None and norm.running_var is not None
    scale = 1 / np.sqrt(numbers(norm.running_var) + norm.eps)
    bias = -numbers(norm.running_mean) + (0 if conv.bias is None else numbers(conv.bias))
    if norm.affine:
        scale = scale * numbers(norm.weight)
    shift = numbers(norm.bias) if norm.affine else 0
    (side, _), (pad, _), (stride, _) = conv.kernel_size, conv.padding, conv.stride
    window = {"kernel_shape": [side] * 2, "pads": [pad] * 4, "strides": [stride] * 2}
    weight = conv.weight.detach().numpy().astype(np.float64) * scale[:, None, None, None]
    return Folded(weight, bias * scale + shift, window)


@torch.inference_mode()
def _spans(network: nn.Module, patches: Array) -> list[Array]:
    """The values that nearly all patches stay below after each ReLU, a number a channel."""
    x, found = torch.tensor(patches)[:, None].float(), []
    for module in _leaves(network.eval()):
        x = module(x)
        if isinstance(module, nn.ReLU):
            found.append(reach(x))
    return found


def _leaves(network: nn.Module) -> list[nn.Module]:
    return [leaf for leaf in network.modules() if not list(leaf.children())]
