"""Affine warps of patches: drawn at random, and sampled together with a predicted shape, in one step. In torch."""

from __future__ import annotations

from math import log, pi

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from ..features.detectors.affine_network import FLATTEST, REGION, SIDE


def random_warps(count: int, generator: torch.Generator, tilt: float, turn: float) -> Tensor:
    """Warps as of surfaces seen at an angle: up to `tilt` times as long as wide in any direction, area 1. (M, 2, 2).

    The vertical stays vertical, so that upright shapes can undo them, but for a turn of up to `turn` radians.
    """
    draw = torch.rand(3, count, generator=generator)
    stretch, axis, angle = draw[0] * log(tilt) / 2, 2 * pi * draw[1], turn * (2 * draw[2] - 1)
    round_part, long_part = stretch.cosh(), stretch.sinh()
    across = long_part * axis.sin()
    tilted = _matrices(round_part + long_part * axis.cos(), across, across, round_part - long_part * axis.cos())
    return _matrices(angle.cos(), -angle.sin(), angle.sin(), angle.cos()) @ upright(tilted)


def shapes_of(numbers: Tensor) -> Tensor:
    """The network's numbers (M, 3) as upright shapes (M, 2, 2), as `AffineNetwork` reads them."""
    a, b, c = numbers.T
    a, c = (each.clamp(min=FLATTEST - 1) for each in (a, c))
    return upright(_matrices(1 + a, 0 * a, b, 1 + c))


def upright(A: Tensor) -> Tensor:
    """Make affine shapes (M, 2, 2) upright, of area one, as `features.detectors.shape.upright` does, with gradients."""
    (a, b), (c, d) = A.permute(1, 2, 0)
    first, area = torch.hypot(a, b), (a * d - b * c).abs()
    return _matrices(first, 0 * a, (a * c + b * d) / first, area / first) / area.sqrt()[:, None, None]


def sampled(patches: Tensor, frames: Tensor, region: float = REGION) -> Tensor:
    """The middle of patches (M, 1, S, S), `region` of their width, seen in frames (M, 2, 2): (M, 1, 32, 32)."""
    theta = torch.cat([region * frames, torch.zeros_like(frames[:, :, :1])], 2)
    grid = affine_grid(theta, [len(patches), 1, SIDE, SIDE], align_corners=False)
    return grid_sample(patches, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _matrices(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """[[a, b], [c, d]]: (M,) each -> (M, 2, 2)."""
    return torch.stack([a, b, c, d], 1).view(-1, 2, 2)
