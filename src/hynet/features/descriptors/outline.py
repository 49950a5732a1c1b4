"""Outline of a network, layer by layer with shapes and parameters, taken from the module itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .layers import Network


@dataclass(frozen=True)
class LayerOutline:
    """One layer: its name, its parts in order, what comes out of it, and how many numbers it learns."""

    name: str
    parts: tuple[str, ...]
    shape: tuple[int, ...]  # (C, H, W)
    parameters: int


def outline(network: Network) -> list[LayerOutline]:
    """The network's own children, in the order in which a patch goes through them."""
    found: list[LayerOutline] = []

    def note(name: str, layer: nn.Module, output: Tensor) -> None:
        parts = layer if isinstance(layer, nn.Sequential) else [layer]
        learnt = sum(weights.numel() for weights in layer.parameters())
        found.append(LayerOutline(name, tuple(map(_part, parts)), tuple(output.shape[1:]), learnt))

    hooks = [
        layer.register_forward_hook(lambda layer, _, output, name=name: note(name, layer, output))
        for name, layer in network.named_children()
    ]
    was_training = network.training
    try:
        with torch.no_grad():
            network.eval()(torch.zeros(1, 1, network.patch_size, network.patch_size))
    finally:
        network.train(was_training)
        for hook in hooks:
            hook.remove()
    return found


def _part(module: nn.Module) -> str:
    if isinstance(module, nn.Conv2d):
        (height, width), stride = module.kernel_size, module.stride[0]
        return f"Conv {height}×{width}, {module.out_channels}" + (f", /{stride}" if stride > 1 else "")
    if isinstance(module, nn.Dropout):
        return f"Dropout {module.p:g}"
    kind = type(module).__name__
    return {"BatchNorm2d": "BN", "InstanceNorm2d": "IN"}.get(kind, kind)
