"""AffNet -> one ONNX file that runs without torch: a patch goes in, the ellipse of its region comes out.

Six 3 x 3 convolutions with BatchNorm and ReLU, then one over all that is left, whose three numbers a, b and c are the
shape [[1 + a, 0], [b, 1 + c]] (Mishkin et al., ECCV 2018). BatchNorm goes into the convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..detectors.affine_network import OUTPUT, SIDE
from ..detectors.affnet import FLAT, STRIDES, AffNet
from ..types import Array
from . import formats
from .descriptors import AGREE
from .formats import Exportable
from .onnx_graph import FLOAT, UINT8, Graph


class Pipeline(nn.Module):
    """uint8 (N, 32, 32) -> (N, 3)."""

    def __init__(self, network: AffNet) -> None:
        super().__init__()
        self.network = network

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        return self.network(patches[:, None].float())


def export(network: AffNet, path: str | Path, about: Mapping[str, str] | None = None) -> float:
    """Write `patches` (N, 32, 32) uint8 -> `shapes` (N, 3); returns the largest difference from the network itself."""
    exportable = Exportable(
        Pipeline(network),
        formats.real_patches(SIDE),
        ("patches", OUTPUT),
        free=("N",),
        multiple=1,
        onnx=lambda about: model(network, about),
        difference=formats.largest_difference,
    )
    return formats.write(exportable, path, about or {}, AGREE)


def model(network: AffNet, about: Mapping[str, str]) -> Any:
    """The network as an ONNX model."""
    graph = Graph("patches")
    x = _standardised(graph)
    *convolutions, last = (layer for layer in network.features if isinstance(layer, nn.Conv2d))
    norms = (layer for layer in network.features if isinstance(layer, nn.BatchNorm2d))
    for convolution, norm, stride in zip(convolutions, norms, STRIDES, strict=True):
        x = graph.add("Conv", x, *_without_norm(convolution, norm), pads=[1] * 4, strides=[stride] * 2)
        x = graph.add("Relu", x)
    assert last.bias is not None
    rows = last.weight.detach().numpy().reshape(3, -1).T
    x = graph.add("Gemm", graph.add("Flatten", x), np.ascontiguousarray(rows), last.bias.detach().numpy())
    x = graph.add("Tanh", x, name=OUTPUT)
    return graph.model((UINT8, ["N", SIDE, SIDE]), x, (FLOAT, ["N", 3]), about)


def _standardised(graph: Graph) -> Any:
    """uint8 (N, 32, 32) -> floats (N, 1, 32, 32), each patch of mean 0 and standard deviation 1."""
    pixels = np.array([2, 3])
    x = graph.add("Unsqueeze", graph.add("Cast", graph.source, to=FLOAT), np.array([1]))
    x = graph.add("Sub", x, graph.add("ReduceMean", x, pixels))
    variance = graph.add("Div", graph.add("ReduceSumSquare", x, pixels), np.float32(SIDE * SIDE - 1))
    return graph.add("Div", x, graph.add("Add", graph.add("Sqrt", variance), np.float32(FLAT)))


def _without_norm(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> tuple[Array, Array]:
    """Weight and bias of both as one convolution."""
    assert norm.running_mean is not None and norm.running_var is not None
    scale = torch.rsqrt(norm.running_var + norm.eps)
    return (convolution.weight.detach() * scale[:, None, None, None]).numpy(), (-norm.running_mean * scale).numpy()
