"""HyNet as plain numbers in double precision, stage by stage, and what real patches do to each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ...types import Array
from ..descriptors.hynet import HyNet
from ..descriptors.layers import FRN, TLU

KEPT = 0.99995  # the share of values that a channel's range covers; a wider one is coarser for all others


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
