"""Augmentation of training patches: flips, turns, jitter, light, night.

Every change is drawn from the generator given, so a batch looks the same whenever it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, affine_grid, avg_pool2d, grid_sample

# The most that `jitter=1` does to a patch: about what detectors get wrong between two photos.
MOST_SHIFT, MOST_TURN, MOST_SCALE, MOST_STRETCH = 0.3, pi / 9, 1.28, 1.2  # half-widths, radians, factors


def augment(
    patches: Tensor,
    generator: torch.Generator,
    *,
    size: int = 32,
    flips: bool = True,
    jitter: float = 0.0,
    light: float = 0.0,
    night: float = 0.0,
    blur: float = 0.0,
    noise: float = 0.0,
    jpeg: float = 0.0,
) -> Tensor:
    """Pairs (N, 2, S, S) uint8 -> what the network sees, (N, 2, size, size) float 0-255. Strengths from 0 to 1."""
    if flips:
        patches = flip_and_turn(patches, generator)
    flat = patches.flatten(0, 1)[:, None].float()  # (2N, 1, S, S): from here on, each patch for itself
    flat = warp(flat, generator, size, jitter) if jitter else shrink(flat, size)
    if blur:
        flat = soften(flat, generator, blur)
    if night:
        flat = darken(flat, generator, night)
    if light:
        flat = relight(flat, generator, light)
    if noise:
        flat = flat + 12 * noise * _uniform(flat, generator, 0, 1) * torch.empty_like(flat).normal_(generator=generator)
    if jpeg:
        flat = quantise(flat, generator, jpeg)
    changed = blur or night or light or noise or jpeg
    return (flat.clamp(0, 255) if changed else flat).view(*patches.shape[:2], size, size)


def flip_and_turn(patches: Tensor, generator: torch.Generator) -> Tensor:
    """Half of the pairs turned by 90, 180 or 270 degrees, half flipped; the same for both patches. (N, 2, S, S)."""
    count = len(patches)
    draw = torch.rand(3, count, generator=generator, device=generator.device)
    turns = torch.where(draw[0] < 0.5, 0, 1 + (3 * draw[1]).long())
    kind = (2 * turns + (draw[2] < 0.5)).to(patches.device)  # (N,) one of eight
    turned = torch.empty_like(patches)
    for number in range(8):
        chosen = (kind == number).nonzero()[:, 0]
        some = torch.rot90(patches[chosen], number // 2, (2, 3))
        turned[chosen] = some.flip(2) if number % 2 else some
    return turned


def warp(patches: Tensor, generator: torch.Generator, size: int, strength: float) -> Tensor:
    """A detector's errors: each patch shifted, turned, scaled and stretched by its own amount, edges replicated.

    (M, 1, S, S) -> (M, 1, size, size). Where nothing moves, 64 to 32 is the mean of 2 x 2.
    """
    level = strength * _uniform(patches, generator, 0, 1)[:, 0, 0, 0]
    x, y, turn, zoom, stretch = (
        level * _uniform(patches, generator, -1, 1)[:, 0, 0, 0] * most
        for most in (MOST_SHIFT, MOST_SHIFT, MOST_TURN, log(MOST_SCALE), log(MOST_STRETCH))
    )
    axis = _uniform(patches, generator, 0, pi)[:, 0, 0, 0]
    along, across = (zoom + stretch / 2).exp(), (zoom - stretch / 2).exp()
    to_axis, from_axis = _rotation(-axis), _rotation(axis + turn)
    scaled = to_axis * torch.stack([along, across], 1)[:, :, None]
    theta = torch.cat([from_axis @ scaled, torch.stack([x, y], 1)[:, :, None]], 2)  # (M, 2, 3)
    grid = affine_grid(theta, [len(patches), 1, size, size], align_corners=False)
    return grid_sample(patches, grid, mode="bilinear", padding_mode="border", align_corners=False)


def shrink(patches: Tensor, size: int) -> Tensor:
    """(M, 1, S, S) -> (M, 1, size, size) by area."""
    return patches if patches.shape[-1] == size else adaptive_avg_pool2d(patches, size)


def soften(patches: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    """Between a little sharper and the mean of 3 x 3, each patch its own."""
    mean = avg_pool2d(patches, 3, stride=1, padding=1, count_include_pad=False)
    return torch.lerp(patches, mean, strength * _uniform(patches, generator, -0.3, 1))


def relight(patches: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    """Contrast from a half to double, brightness by 50 grey levels, each patch its own."""
    contrast = (strength * log(2) * _uniform(patches, generator, -1, 1)).exp()
    mean = patches.mean((2, 3), keepdim=True)
    return (patches - mean) * contrast + mean + 50 * strength * _uniform(patches, generator, -1, 1)


def darken(patches: Tensor, generator: torch.Generator, share: float) -> Tensor:
    """Day meets night: this share of the patches gets another gamma, half as many a shadow, half as many night."""
    patches = _some(patches, generator, share, bend)
    patches = _some(patches, generator, share / 2, shade)
    return _some(patches, generator, share / 2, nightfall)


def bend(patches: Tensor, generator: torch.Generator) -> Tensor:
    """Gamma from a half to two: black and white stay, what is between becomes brighter or darker."""
    gamma = (log(2) * _uniform(patches, generator, -1, 1)).exp()
    return 255 * (patches.clamp(0, 255) / 255) ** gamma


def shade(patches: Tensor, generator: torch.Generator) -> Tensor:
    """A straight, soft edge somewhere across the patch, with 20% to 70% of the light on its dark side."""
    x, y = _coordinates(patches)
    angle = _uniform(patches, generator, 0, 2 * pi)
    beyond = angle.cos() * x + angle.sin() * y - _uniform(patches, generator, -0.7, 0.7)
    dark = torch.sigmoid(beyond / _uniform(patches, generator, 0.02, 0.2))
    return patches * (1 - dark * _uniform(patches, generator, 0.3, 0.8))


def nightfall(patches: Tensor, generator: torch.Generator) -> Tensor:
    """A seventh to half of the light, in whole grey levels, with grain; half have a lamp, where highlights saturate."""
    x, y = _coordinates(patches)
    left = _uniform(patches, generator, 0.15, 0.5)
    distance = (x - _uniform(patches, generator, -1, 1)) ** 2 + (y - _uniform(patches, generator, -1, 1)) ** 2
    glow = (-distance / _uniform(patches, generator, 0.1, 1)).exp()
    lamp = _uniform(patches, generator, -2, 2).clamp(0)
    grain = _uniform(patches, generator, 0.05, 0.3) * left * patches.std((2, 3), keepdim=True)
    noise = grain * torch.empty_like(patches).normal_(generator=generator)
    return (patches * (left + lamp * glow) + noise).round().clamp(0, 255)


def quantise(patches: Tensor, generator: torch.Generator, strength: float) -> Tensor:
    """Degrade patches as JPEG does: round the cosine transform of 8 x 8 blocks, high frequencies more coarsely."""
    side = patches.shape[-1] // 8
    frequency = torch.arange(8, device=patches.device)
    cosine = torch.cos(pi / 8 * frequency[:, None] * (frequency + 0.5)) / 2  # (8, 8), orthonormal but for row 0
    cosine[0] = 8**-0.5
    step = strength * _uniform(patches, generator, 0.2, 6)[..., None] * (1 + frequency + frequency[:, None])
    blocks = patches.view(-1, side, 8, side, 8).transpose(2, 3)  # (M, side, side, 8, 8)
    kept = torch.round(cosine @ blocks @ cosine.T / step) * step
    return (cosine.T @ kept @ cosine).transpose(2, 3).reshape(patches.shape)


def _some(
    patches: Tensor, generator: torch.Generator, share: float, change: Callable[[Tensor, torch.Generator], Tensor]
) -> Tensor:
    """The patches with this share of them changed, each chosen for itself."""
    chosen = (_uniform(patches, generator, 0, 1)[:, 0, 0, 0] < share).nonzero()[:, 0]
    return patches.index_copy(0, chosen, change(patches[chosen], generator))


def _coordinates(patches: Tensor) -> tuple[Tensor, Tensor]:
    """x as a row and y as a column, -1 to 1."""
    along = torch.linspace(-1, 1, patches.shape[-1], device=patches.device)
    return along, along[:, None]


def _rotation(angle: Tensor) -> Tensor:
    """(M,) -> (M, 2, 2)."""
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)


def _uniform(patches: Tensor, generator: torch.Generator, low: float, high: float) -> Tensor:
    """(M, 1, 1, 1): one number a patch."""
    draw = torch.rand(len(patches), 1, 1, 1, generator=generator, device=generator.device)
    return (low + (high - low) * draw).to(patches.device)
