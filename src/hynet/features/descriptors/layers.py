"""The parts that networks share: FRN and TLU, each under its equation, and the way from patches to unit vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import BadInput
from ...types import Array
from .resizing import resized

# L2-Net's 3x3 convolutions as (channels in, channels out, stride); an 8x8 convolution to 128 numbers follows.
L2NET_LAYERS = [(1, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]

# Patches at once: activations of more than this no longer fit a CPU's cache, and fewer than that leave a GPU idle.
DESCRIBE_BATCH, DESCRIBE_BATCH_GPU = 128, 4096


class FRN(nn.Module):
    """Filter response normalisation: y = gamma * x / sqrt(mean(x^2) + eps) + beta, per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.register_buffer("eps", torch.tensor([1e-6]))  # a buffer, because the released weights carry it
        self.eps: Tensor

    def forward(self, x: Tensor) -> Tensor:
        # Trained scale and bias nearly cancel, and squares of activations overflow half precision.
        x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        y = self.weight * (x * torch.rsqrt(x.square().mean((2, 3), keepdim=True) + self.eps)) + self.bias
        return y.to(self.weight.dtype)


class TLU(nn.Module):
    """Thresholded linear unit: y = max(x, tau), per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.tau = nn.Parameter(-torch.ones(1, channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, self.tau)


class Network(nn.Module):
    """A network from (N, 1, 32, 32) grey 0-255 to raw (N, 128), that can `describe` patches as unit rows.

    BatchNorm needs two or more patches in training mode; in evaluation mode one is enough.
    """

    patch_size: int = 32
    dim: int = 128
    support: float | None = None  # as in types.Descriptor
    ratio: float | None = None

    def patch_by_patch(self) -> tuple[list[nn.Module], nn.Sequential | None]:
        """Layers that follow each other and see one patch at a time, trained in tiles, and what follows them.

        A network that says nothing here is trained whole.
        """
        return [], None

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, 128) float32 unit rows; in evaluation mode, whatever mode the network is in."""
        return self._rows(patches, partial(nn.functional.normalize, dim=1))

    def raw(self, patches: Array) -> Array:
        """Describe patches by raw rows, before their lengths are made one."""
        return self._rows(patches, nn.Identity())

    @torch.inference_mode()
    def _rows(self, patches: Array, ending: Callable[[Tensor], Tensor]) -> Array:
        patches = resized(patches, self.patch_size)
        was_training, like = self.training, next(self.parameters())
        self.eval()
        try:
            rows = [np.zeros((0, self.dim), np.float32)]
            size = DESCRIBE_BATCH if like.device.type == "cpu" else DESCRIBE_BATCH_GPU
            for start in range(0, len(patches), size):
                batch = torch.tensor(patches[start : start + size], device=like.device)  # bytes, the least to move
                # TF32 would be faster and say something else: its products keep three digits.
                with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                    raw = self(batch[:, None].to(like.dtype)).float()
                rows.append(ending(raw).cpu().numpy())
        finally:
            self.train(was_training)
        return np.concatenate(rows)


class Adapted(Network):
    """Any module from (N, 1, S, S) grey 0-255 to raw (N, D), made one of ours; S is its `patch_size`, or 32."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.adapted_module = module  # loading strips this prefix, once: no name that the module's own layers may have
        self.patch_size = int(getattr(module, "patch_size", Network.patch_size))
        self.dim = self._outputs()

    def forward(self, x: Tensor) -> Tensor:
        return self.adapted_module(x)

    @torch.no_grad()
    def _outputs(self) -> int:
        """Count the numbers a module gives for a patch, by running it."""
        was_training, like = self.adapted_module.training, next(self.adapted_module.parameters())
        self.adapted_module.eval()
        try:
            raw = self.adapted_module(torch.zeros(1, 1, self.patch_size, self.patch_size).to(like))
        except RuntimeError as error:
            why = str(error).splitlines()[0]
            raise BadInput(
                f"{type(self.adapted_module).__name__} does not take patches (N, 1, S, S) of floats: {why}"
            ) from None
        finally:
            self.adapted_module.train(was_training)
        if raw.ndim != 2 or len(raw) != 1:
            raise BadInput(
                f"{type(self.adapted_module).__name__} must give raw descriptors (N, D), got {tuple(raw.shape)}."
            )
        return raw.shape[1]


def as_network(module: nn.Module) -> Network:
    """The module as one of our networks, which can `describe`."""
    return module if isinstance(module, Network) else Adapted(module)


def as_rows(x: Tensor) -> Tensor:
    """(N, D, 1, 1), what is left of a patch -> (N, D); never squeeze(), so a batch of one stays a batch."""
    if x.shape[2:] != (1, 1):
        raise BadInput("the network takes patches of 32 x 32 pixels; `describe` resizes others.")
    return x.flatten(1)


def standardise(x: Tensor, unbiased: bool = True) -> Tensor:
    """Each patch to mean 0 and standard deviation 1. (N, 1, H, W) -> same."""
    if unbiased:  # as HardNet does
        std, mean = torch.std_mean(x, dim=(1, 2, 3), keepdim=True)
        return (x - mean) / (std + 1e-6)
    return nn.functional.instance_norm(x)  # as TFeat and SOSNet do


def start_orthogonal(network: nn.Module, gain: float = 0.6) -> None:
    """Orthogonal weights and small biases; the gain is HardNet's."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, gain=gain)
            if layer.bias is not None:
                nn.init.constant_(layer.bias, 0.01)
