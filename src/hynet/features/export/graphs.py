"""HyNet as an ONNX graph written by hand, in floats and in 8-bit integers: what an exporter cannot know is used here.

FRN forgets the scale of its input, so a channel may be stored in any unit: the next convolution's weights undo it.
    floats      stored = y / gain: FRN's own scale costs nothing; its normalisation is one operation, an RMS norm
    integers    stored = y / step + ZERO, unsigned: FRN's scale and bias go into the rounding
The last convolution covers all that is left of a patch: it is a matrix product, with BatchNorm folded into it.
All before it runs on a few patches at a time, whose activations fit a core's cache; the product wants many at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ...types import Array
from ..descriptors.hynet import HyNet
from ..descriptors.layers import FRN, TLU
from .onnx_graph import FLOAT, UINT8, Graph, f32

PART = 4  # patches that go through the convolutions at a time

KEPT = 0.99995  # the share of values that a channel's range covers; a wider one is coarser for all others

# --- 8-bit integers ---
ZERO = 48  # the integer that stands for 0: TLU lets through more above 0 than below
MIDDLE = 128  # and for 0 before FRN, where both signs are alike
WEIGHT_TOP = 63  # 7 bits: sums of two products overflow 16 bits of processors without VNNI otherwise


def in_floats(network: nn.Module, about: Mapping[str, str]) -> Any:
    """The network, from uint8 (N, 32, 32) to unit rows (N, 128), as an ONNX model."""
    graph, part = Graph("patches"), Graph("part")
    patch, *others = stages(network)
    x, unit = _entered(part, patch), np.ones(1)
    for stage in others:
        x = part.add("Conv", x, f32(stage.weighing(unit)), f32(stage.bias), **stage.window)
        x = _normalised(part, x, stage)
        x = part.add("Add", x, f32(_planes(stage.shift / stage.gain)))
        x = part.add("Max", x, f32(_planes(stage.floor / stage.gain)))
        unit = stage.gain
    weight, bias = head(network)
    x = _by_parts(graph, part, x, FLOAT)
    x = graph.add("Gemm", x, f32(weight * _pixels(unit, weight)), f32(bias))
    return finished(graph, x, about)


def in_integers(network: nn.Module, patches: Array, about: Mapping[str, str]) -> Any:
    """HyNet in 8-bit integers, with ranges from the patches (N, 32, 32); only the first convolution stays in floats.

    The patch itself has one channel, where integers would save nothing.
    """
    graph, part = Graph("patches"), Graph("part")
    patch, *others = stages(network)
    x = _entered(part, patch)
    unit = np.ones(1)
    lost = np.zeros(1)
    one = np.float32(1)
    zero = np.uint8(ZERO)
    middle = np.uint8(MIDDLE)
    for stage, span in zip(others, spans(network, patches)[1:], strict=True):
        weight, bias = stage.weighing(unit), stage.bias + stage.weight.sum((2, 3)) @ lost
        if stage is others[0]:
            x = part.add("Conv", x, f32(weight), f32(bias), **stage.window)
        else:
            weight, scale = rounded(weight)
            # The unit of the output is ours to choose, for each channel its own: it goes into the scale of the weights.
            shown = f32(scale * (255 - MIDDLE) / span.before)
            signs, bias = np.zeros(len(bias), np.int8), np.rint(bias / scale).astype(np.int32)
            x = part.add("QLinearConv", x, one, zero, weight, shown, signs, one, middle, bias, **stage.window)
            x = part.add("DequantizeLinear", x, one, middle)
        x = _normalised(part, x, stage)
        step = np.maximum(span.after / (255 - ZERO), np.maximum(-stage.floor, -stage.shift) / ZERO)
        shift = np.rint(stage.shift / step)
        x = part.add("Max", x, f32(_planes((stage.floor - stage.shift) / stage.gain)))
        x = part.add("QuantizeLinear", x, f32(step / stage.gain), _u8(ZERO + shift), axis=1)
        unit, lost = step, stage.shift - step * shift  # what rounding the shift lost, the next bias gives back
    weight, bias = head(network)
    lost_rows = _pixels(lost, weight)[:, 0]
    integers, scale = rounded((weight * _pixels(unit, weight)).T)
    x = _by_parts(graph, part, x, UINT8)
    x = graph.add("MatMulInteger", x, np.ascontiguousarray(integers.T), zero)
    x = graph.add("Mul", graph.add("Cast", x, to=FLOAT), f32(scale))
    x = graph.add("Add", x, f32(bias + lost_rows @ weight))
    return finished(graph, x, about)


def rounded(weight: Array) -> tuple[Array, Array]:
    """Weights (C, ...) as integers, and the scale (C,) that each row was divided by."""
    scale = np.maximum(np.abs(weight).reshape(len(weight), -1).max(1) / WEIGHT_TOP, 1e-12).astype(np.float64)
    return np.rint(weight / scale.reshape(-1, *[1] * (weight.ndim - 1))).astype(np.int8), scale


# --- parts of both ---


def _entered(part: Graph, stage: Stage) -> str:
    """uint8 (PART, 32, 32) -> floats (PART, 1, 32, 32) after the FRN and TLU of the patch itself."""
    x = part.add("Unsqueeze", part.add("Cast", part.source, to=FLOAT), np.array([1]))
    x = _normalised(part, x, stage, stage.gain[0])
    return part.add("Max", part.add("Add", x, f32(stage.shift)), f32(stage.floor))


def _normalised(graph: Graph, x: str, stage: Stage, gain: float = 1.0) -> str:
    """gain * x / rms of its channel: ONNX Runtime's RMS norm, over the pixels of a channel."""
    gains = np.full((stage.side, stage.side), gain, np.float32)
    return graph.add("SimplifiedLayerNormalization", x, gains, axis=2, epsilon=stage.epsilon)


def _by_parts(graph: Graph, part: Graph, x: str, kind: int) -> str:
    """Rows (N, 8192) of the patches, PART at a time; N is filled up with black ones."""
    rows = part.written((UINT8, [PART, 32, 32]), part.add("Flatten", x), (kind, [PART, 8192]))
    missing = graph.add("Mod", graph.add("Neg", graph.add("Shape", graph.source, end=1)), np.array([PART]))
    ends = graph.add("Concat", np.zeros(3, np.int64), missing, np.zeros(2, np.int64), axis=0)
    parts = graph.add("Reshape", graph.add("Pad", graph.source, ends), np.array([-1, PART, 32, 32]))
    return graph.add("Reshape", graph.add("Scan", parts, body=rows, num_scan_inputs=1), np.array([-1, 8192]))


def finished(graph: Graph, x: str, about: Mapping[str, str]) -> Any:
    """The model that ends in unit rows, as many as there are patches."""
    x = graph.add("Slice", x, np.array([0]), graph.add("Shape", graph.source, end=1))
    squares = graph.add("ReduceSumSquare", x, np.array([1]))
    x = graph.add("Div", x, graph.add("Sqrt", graph.add("Add", squares, np.float32(1e-10))), name="descriptors")
    return graph.model((UINT8, ["N", 32, 32]), x, (FLOAT, ["N", 128]), about)


def _planes(values: Array) -> Array:
    """(C,) -> (1, C, 1, 1)."""
    return values[None, :, None, None]


def _pixels(values: Array, weight: Array) -> Array:
    """(C,) -> (C * pixels, 1), a number a row of the last product."""
    return np.repeat(values, len(weight) // len(values))[:, None]


def _u8(values: Array) -> Array:
    return np.clip(values, 0, 255).astype(np.uint8)


# --- the network in plain numbers of double precision, stage by stage, and what real patches do to each ---


def fits(network: nn.Module) -> bool:
    """Whether the graph here is the network's: HyNet with FRN and TLU."""
    return isinstance(network, HyNet) and any(isinstance(module, FRN) for module in network.modules())


@dataclass(frozen=True)
class Stage:
    """y = max(gain * conv(x) / rms + shift, floor); gain, shift and floor a number a channel. No conv: the patch."""

    gain: Array  # (C,) above 0
    shift: Array  # (C,)
    floor: Array  # (C,)
    epsilon: float
    side: int  # pixels of y
    weight: Array  # (C, channels in, 3, 3)
    bias: Array  # (C,)
    stride: int = 1

    @property
    def window(self) -> dict[str, Any]:
        """Attributes of the convolution in ONNX."""
        return {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [self.stride] * 2}

    def weighing(self, unit: Array) -> Array:
        """The weights for an input that is stored in these units, one a channel."""
        return self.weight * unit[:, None, None]


def stages(network: nn.Module) -> list[Stage]:
    """The patch's own FRN first, then the convolutions."""
    modules = list(network.modules())
    norms = [module for module in modules if isinstance(module, FRN)]
    floors = [numbers(module.tau) for module in modules if isinstance(module, TLU)]
    convs = [module for module in modules if isinstance(module, nn.Conv2d)][:-1]
    side, found = 32, []
    for norm, floor, conv in zip(norms, floors, [None, *convs], strict=True):
        gain, shift = numbers(norm.weight), numbers(norm.bias)
        epsilon = float(norm.eps)
        if conv is None:
            found.append(Stage(gain, shift, floor, epsilon, side, np.zeros(0), np.zeros(0)))
            continue
        assert conv.bias is not None
        stride = conv.stride[0]
        side //= stride
        # A negative gain is a negative convolution; one of 0 leaves a constant, whatever is normalised.
        sign, gain = np.where(gain < 0, -1.0, 1.0), np.maximum(np.abs(gain), 1e-6)
        weight = conv.weight.detach().numpy().astype(np.float64) * sign[:, None, None, None]
        found.append(Stage(gain, shift, floor, epsilon, side, weight, numbers(conv.bias) * sign, stride))
    return found


def head(network: nn.Module) -> tuple[Array, Array]:
    """The last convolution and its BatchNorm as one product: (8192, 128), (128,)."""
    *_, conv, norm = (module for module in network.modules() if isinstance(module, nn.Conv2d | nn.BatchNorm2d))
    assert isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None and norm.running_var is not None
    scale = 1 / np.sqrt(numbers(norm.running_var) + norm.eps)
    weight = conv.weight.detach().numpy().astype(np.float64).reshape(len(scale), -1).T * scale
    return weight, -numbers(norm.running_mean) * scale


@dataclass(frozen=True)
class Span:
    """The values that KEPT of the patches stay below, a number a channel: |conv(x)|, before FRN, and y, after TLU."""

    before: Array  # (C,)
    after: Array  # (C,)


@torch.inference_mode()
def spans(network: nn.Module, patches: Array) -> list[Span]:
    """Measure the ranges that real patches reach at every stage."""
    x, found = torch.tensor(patches)[:, None].float(), []
    for module in (leaf for leaf in network.modules() if not list(leaf.children())):
        if isinstance(module, FRN):
            before = reach(x.abs())
        x = module(x)
        if isinstance(module, TLU):
            found.append(Span(before, reach(x)))
    return found


def reach(x: torch.Tensor) -> Array:
    """(N, C, H, W) -> (C,), never 0: a channel may be silent."""
    values = x.transpose(0, 1).flatten(1).numpy()  # (C, N * H * W)
    rank = int(KEPT * (values.shape[1] - 1))
    return np.maximum(np.partition(values, rank, axis=1)[:, rank].astype(np.float64), 1e-6)


def numbers(tensor: torch.Tensor) -> Array:
    return tensor.detach().flatten().numpy().astype(np.float64)
