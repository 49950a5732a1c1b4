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

from ...errors import need
from ...runtime.files import atomic_write
from ...types import Array
from ..descriptors.resizing import resized
from ..detectors.affine_network import OUTPUT, SIDE, AffineNetwork
from ..detectors.affnet import FLAT, AffNet, standardised
from . import Disagreement, formats
from .descriptors import AGREE, check_suffix, to_calibrate_on
from .formats import Exportable
from .integers import convolved, folded, spans
from .onnx_graph import FLOAT, UINT8, Graph, f32

AGREE_INT8 = 0.02  # the largest mean difference of 8-bit shapes; `shape` has 0.011


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
    *layers, head = folded(list(network.features))
    for layer in layers:
        x = graph.add("Relu", graph.add("Conv", x, f32(layer.weight), f32(layer.bias), **layer.window))
    x = graph.add("Gemm", graph.add("Flatten", x), f32(head.weight.reshape(3, -1).T), f32(head.bias))
    return _ended(graph, x, about)


def export_int8(network: AffNet, path: str | Path, patches: Array, about: Mapping[str, str] | None = None) -> float:
    """Write AffNet in 8-bit integers, whose ranges come from some of the patches (N, 32, 32), always the same ones.

    Returns the mean difference from the network's own numbers, of patches that were not calibrated on.
    """
    check_suffix(path)
    unseen, seen = (resized(some, SIDE) for some in to_calibrate_on(patches))
    with atomic_write(path) as temporary:
        need("onnx", "train", "writing ONNX").save(in_integers(network.eval(), seen, about or {}), temporary)
        with torch.inference_mode():
            own = network(torch.tensor(unseen)[:, None].float()).numpy()
        difference = float(np.abs(AffineNetwork(temporary).numbers(unseen) - own).mean())
        if not difference < AGREE_INT8:
            raise Disagreement(
                f"{path} would differ from the network by {difference:.3f} on average and was not written; give "
                "patches like those it was trained on, or export it without --int8."
            )
    return difference


def in_integers(network: AffNet, patches: Array, about: Mapping[str, str]) -> Any:
    """The network as a model of 8-bit integers, with ranges from the patches (N, 32, 32)."""
    graph = Graph("patches")
    layers = list(network.features)
    ranges = spans(layers, standardised(torch.tensor(patches)[:, None].float()))
    return _ended(graph, convolved(graph, _standardised(graph), folded(layers), ranges), about)


def _ended(graph: Graph, x: str, about: Mapping[str, str]) -> Any:
    x = graph.add("Tanh", x, name=OUTPUT)
    return graph.model((UINT8, ["N", SIDE, SIDE]), x, (FLOAT, ["N", 3]), about)


def _standardised(graph: Graph) -> Any:
    """uint8 (N, 32, 32) -> floats (N, 1, 32, 32), each patch of mean 0 and standard deviation 1."""
    pixels = np.array([2, 3])
    x = graph.add("Unsqueeze", graph.add("Cast", graph.source, to=FLOAT), np.array([1]))
    x = graph.add("Sub", x, graph.add("ReduceMean", x, pixels))
    variance = graph.add("Div", graph.add("ReduceSumSquare", x, pixels), np.float32(SIDE * SIDE - 1))
    return graph.add("Div", x, graph.add("Add", graph.add("Sqrt", variance), np.float32(FLAT)))
