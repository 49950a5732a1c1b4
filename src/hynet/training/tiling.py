"""The fast way through a network on a CPU: compiled tiles, one core each, in memory that stays mapped.

Same mathematics as calling the network. One core with one tile of patches works in its own cache and waits for
nobody, where all cores on one layer wait for each other hundreds of times a step.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..features.descriptors.layers import FRN, TLU, Network
from ..runtime.machine import cores
from .configuration import Precision

TILE, WIDE_TILE = 64, 256  # patches: the last layer has few activations and many weights, whose gradients are added up

Work = Callable[[Tensor], Tensor]
Convolve = Callable[[nn.Conv2d, Tensor], Tensor]


class Tiled(nn.Module):
    """A network, ready to be trained fast: what it does to each patch by itself is done tile by tile.

    BatchNorm looks at the whole batch: HyNet has it only at its end, so that all before it runs in tiles.
    Networks with BatchNorm further down, and networks on a GPU, run whole; in bfloat16 by torch's autocast, which
    rounds what is between convolutions too, and only where the processor has it.
    """

    def __init__(
        self, network: Network, *, compiled: bool = True, with_maps: bool = False, bfloat16: bool = False
    ) -> None:
        super().__init__()
        self.network, self.with_maps = network, with_maps
        on_cpu = next(network.parameters()).device.type == "cpu"
        if on_cpu:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # the layout oneDNN works in
        layers, self._last = _split(network) if on_cpu else ([], None)
        self.cores = one_worker_per_core() if layers and not with_maps else None
        self._weights = [weight for layer in layers for weight in layer.parameters()]
        self._whole_in_bfloat16 = bfloat16 and on_cpu and self.cores is None and has_bfloat16()
        self._convolve: Convolve = partial(_in_bfloat16, native=has_bfloat16()) if bfloat16 else nn.Conv2d.__call__
        self._trunk: Work = _fused(layers, self._convolve) if layers else network.__call__
        if compiled and on_cpu and has_compiler():
            torch._dynamo.config.suppress_errors = True  # a compiler can be there and fail: go on, slower
            self._trunk = torch.compile(self._trunk, dynamic=False)

    def forward(self, anchors: Tensor, positives: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Raw descriptors (N, D) of each side, followed by its feature maps where those are asked for.

        Sides meet in no BatchNorm: its statistics are those of the anchors, then those of the positives.
        """
        if self.cores is None:
            return self._whole(anchors), self._whole(positives)
        raw = _InTiles.apply(self.cores, self._trunk, TILE, torch.cat([anchors, positives]), *self._weights)
        if self._last is None:
            return [raw[: len(anchors)]], [raw[len(anchors) :]]
        dropout, convolution, norm = self._last
        assert isinstance(convolution, nn.Conv2d)
        convolve = partial(self._convolve, convolution)
        raw = _InTiles.apply(self.cores, convolve, WIDE_TILE, _dropped(raw, dropout), *convolution.parameters())
        return [norm(raw[: len(anchors)]).flatten(1)], [norm(raw[len(anchors) :]).flatten(1)]

    def _whole(self, patches: Tensor) -> list[Tensor]:
        if not self._whole_in_bfloat16:  # a GPU's autocast is the caller's
            return self._through(patches)
        with torch.autocast("cpu", torch.bfloat16):
            found = self._through(patches)
        return [part.float() for part in found]

    def _through(self, patches: Tensor) -> list[Tensor]:
        if not self.with_maps:
            return [self._trunk(patches)]
        raw, maps = self.network.with_maps(patches)  # type: ignore[operator]
        return [raw, *maps]


def one_worker_per_core() -> ThreadPoolExecutor:
    """Workers that use no threads of their own. torchrun shares out the cores by OMP_NUM_THREADS."""
    count = int(os.environ.get("OMP_NUM_THREADS") or len(cores()))
    return ThreadPoolExecutor(count, initializer=lambda: torch.set_num_threads(1))


def forget_compiled() -> None:
    """For a process that trains one network after the other: torch compiles only a few of them before it gives up."""
    if "torch._dynamo" in sys.modules:  # importing it takes seconds
        torch._dynamo.reset()


def has_bfloat16() -> bool:
    """Whether the processor multiplies in bfloat16 by itself."""
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def settled(precision: Precision, device: str = "cpu") -> Precision:
    """The precision that `auto` stands for: bfloat16 on a GPU, and where the processor has it."""
    if precision != "auto":
        return precision
    return "bfloat16" if device == "cuda" or has_bfloat16() else "float32"


def has_compiler() -> bool:
    """Whether torch.compile has what it needs on a CPU."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))


class _InTiles(torch.autograd.Function):
    """work(patches), forward and backward tile by tile; gradients are added in the tiles' order, so always alike."""

    @staticmethod
    def forward(
        ctx: Any, cores: ThreadPoolExecutor, work: Work, tile: int, patches: Tensor, *weights: Tensor
    ) -> Tensor:
        leads_back = ctx.needs_input_grad[3]

        def run(inputs: Tensor) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                inputs = inputs.detach().requires_grad_(leads_back)
                return inputs, work(inputs)

        ctx.cores, ctx.tile, ctx.weights, ctx.leads_back = cores, tile, weights, leads_back
        ctx.tiles = list(cores.map(run, patches.split(tile)))
        return torch.cat([outputs.detach() for _, outputs in ctx.tiles])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        def run(tile: tuple[Tensor, Tensor], part: Tensor) -> tuple[Tensor, ...]:
            inputs, outputs = tile
            return torch.autograd.grad(outputs, ([inputs] if ctx.leads_back else []) + list(ctx.weights), part)

        by_tile = list(ctx.cores.map(run, ctx.tiles, gradient.split(ctx.tile)))
        ctx.tiles = None  # activations can go
        back = torch.cat([gradients[0] for gradients in by_tile]) if ctx.leads_back else None
        parts = list(zip(*by_tile, strict=True))[1 if ctx.leads_back else 0 :]
        sums = [
            torch.sum(torch.stack(part), 0, out=torch.empty_like(weight))  # in the weight's own memory layout
            for part, weight in zip(parts, ctx.weights, strict=True)
        ]
        return None, None, None, back, *sums


def _dropped(features: Tensor, dropout: nn.Module) -> Tensor:
    """Dropout that draws one byte for each number: p is rounded to 1/256, the mean is kept exactly."""
    assert isinstance(dropout, nn.Dropout)  # the first part of HyNet's last layer
    lost = round(256 * dropout.p)
    if not dropout.training or lost == 0:
        return features
    count, channels, height, width = features.shape
    draw = torch.empty(features.numel() // 8 + 1, dtype=torch.int64).random_(-(2**63), None)
    kept = draw.view(torch.uint8)[: features.numel()].view(count, height, width, channels) >= lost
    return features * kept.permute(0, 3, 1, 2) * (256 / (256 - lost))  # channels last, as the features are


class _FrnTlu(torch.autograd.Function):
    """FRN then TLU, y = max(gamma x r + beta, tau) with r = 1 / sqrt(mean(x^2) + eps), keeping x and r alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, eps: Tensor, tau: Tensor) -> Tensor:
        r = torch.rsqrt(x.square().mean((2, 3), keepdim=True) + eps)  # (N, C, 1, 1)
        ctx.save_for_backward(x, gamma, beta, tau, r)
        return torch.maximum(x * (gamma * r) + beta, tau)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, gamma, beta, tau, r = ctx.saved_tensors
        passed = torch.where(x * (gamma * r) + beta > tau, gradient, 0)  # what TLU lets through
        along, through, all_of_it = (part.sum((2, 3), keepdim=True) for part in (passed * x, passed, gradient))
        dx = gamma * r * passed - x * (along * gamma * r**3 / (x.shape[2] * x.shape[3]))
        d_gamma, d_beta, d_tau = (part.sum(0, keepdim=True) for part in (along * r, through, all_of_it - through))
        return dx, d_gamma, d_beta, None, d_tau


def _in_bfloat16(convolution: nn.Conv2d, x: Tensor, native: bool) -> Tensor:
    """The convolution of numbers rounded to bfloat16, added up in float32, as such processors do it; backward too.

    Elsewhere the rounded numbers are multiplied in float32: the same rounding, and no gain.
    """
    kind = torch.bfloat16 if native else torch.float32
    weight = convolution.weight.bfloat16().to(kind)
    bias = None if convolution.bias is None else convolution.bias.bfloat16().to(kind)
    y = nn.functional.conv2d(x.bfloat16().to(kind), weight, bias, convolution.stride, convolution.padding)
    return y.bfloat16().float()


def _fused(layers: list[nn.Module], convolve: Convolve) -> Work:
    """The layers one after the other, each FRN with the TLU that follows it as one."""
    parts = [part for layer in layers for part in (layer if isinstance(layer, nn.Sequential) else [layer])]

    def run(x: Tensor) -> Tensor:
        for before, part, following in zip([None, *parts[:-1]], parts, [*parts[1:], None], strict=True):
            if isinstance(part, FRN) and isinstance(following, TLU):
                x = _FrnTlu.apply(x, part.weight, part.bias, part.eps, following.tau)
            elif isinstance(part, nn.Conv2d):
                x = convolve(part, x)
            elif not (isinstance(part, TLU) and isinstance(before, FRN)):  # which is done with the FRN
                x = part(x)
        return x

    return run


def _split(network: Network) -> tuple[list[nn.Module], nn.Sequential | None]:
    """The layers that work on each patch by itself, and the last one where that sees the whole batch."""
    layers, last = network.patch_by_patch()
    if not any(map(_looks_across, layers)):
        return layers, last
    return [], None


def _looks_across(module: nn.Module) -> bool:
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())
