"""R2D2 (Revaud et al., NeurIPS 2019), written from its paper and the names and shapes in its published weights.

L2-Net's layout without strides: where L2-Net halves the picture, every later convolution is dilated twice as much, and
its last 8 x 8 convolution is three of 2 x 2. So each pixel has a descriptor, a repeatability and a reliability.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ... import images
from ...errors import BadWeights
from ...types import Array, Features, Keypoints
from ..descriptors.weights import state_or_nothing

# Convolutions as (channels out, kernel, whether L2-Net would halve the picture, normalised, rectified)
LAYERS = [
    (32, 3, False, True, True),
    (32, 3, False, True, True),
    (64, 3, True, True, True),
    (64, 3, False, True, True),
    (128, 3, True, True, True),
    (128, 3, False, True, True),
    (128, 2, True, True, False),
    (128, 2, True, True, False),
    (128, 2, True, False, False),
]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colours
STEP = 2**0.25  # from one scale to the next
LARGEST, SMALLEST = 1024, 256  # longer side in pixels of the scales that are looked at
RELIABLE = REPEATABLE = 0.7  # below, a keypoint is none
KEY = "sal.weight"  # by which its weights are recognised
SIGMA = 32 / 24  # its descriptor looks at 32 pixels of a scale; patches of 24 sigmas would be as wide


class R2D2Network(nn.Module):
    """(1, 3, H, W) normalised RGB -> descriptors (1, 128, H, W), repeatability and reliability (H, W) from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels, dilation = 3, 1
        for outputs, kernel, halves, normalised, rectified in LAYERS:
            padding = (kernel - 1) * dilation // 2
            layers.append(nn.Conv2d(channels, outputs, kernel, padding=padding, dilation=dilation))
            layers += [nn.BatchNorm2d(outputs, affine=False)] if normalised else []
            layers += [nn.ReLU()] if rectified else []
            channels, dilation = outputs, dilation * 2 if halves else dilation
        self.ops = nn.Sequential(*layers)
        self.clf = nn.Conv2d(channels, 2, 1)
        self.sal = nn.Conv2d(channels, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.ops(x)
        salience = functional.softplus(self.sal(x.square()))[0, 0]
        reliability = self.clf(x.square()).softmax(1)[0, 1]
        return functional.normalize(x, dim=1), salience / (1 + salience), reliability


class R2D2:
    """Maxima of repeatability at many scales, ranked by repeatability times reliability."""

    ratio: float | None = None  # its authors match by mutual nearest neighbours alone

    def __init__(self, weights: Mapping[str, Any], max_keypoints: int) -> None:
        self._network = R2D2Network().eval()
        self._max_keypoints = max_keypoints
        try:
            self._network.load_state_dict(weights)
        except RuntimeError:
            raise BadWeights("these weights look like R2D2's, but not all layers of r2d2_WA*_N16 are there.") from None

    @classmethod
    def from_file(cls, path: Path, max_keypoints: int) -> R2D2 | None:
        weights = state_or_nothing(path)
        return cls(weights, max_keypoints) if KEY in weights else None

    @torch.inference_mode()
    def __call__(self, photo: Any) -> Features:
        held = images.at_hand(photo)
        picture = images.read_colour(held)
        height, width = picture.shape[:2]
        found = [self._at_scale(level) for level in _levels(picture)]
        xy, sigma, scores, descriptors = (torch.cat(column).numpy() for column in zip(*found, strict=True))
        order = np.argsort(-scores, kind="stable")[: self._max_keypoints]
        keypoints = Keypoints.from_circles(xy[order], sigma[order], np.zeros(len(order)), scores[order])
        return Features(keypoints, descriptors[order], (width, height), self.ratio, photo=images.remembered(held))

    def _at_scale(self, level: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Positions (N, 2) and sigmas (N,) in pixels of the photo, scores (N,), descriptors (N, 128)."""
        picture, step = level
        descriptors, repeatability, reliability = self._network(picture)
        highest = functional.max_pool2d(repeatability[None, None], 3, stride=1, padding=1)[0, 0]
        peak = (repeatability == highest) & (repeatability >= REPEATABLE) & (reliability >= RELIABLE)
        y, x = torch.nonzero(peak, as_tuple=True)
        # Their own extraction leaves out the half pixel by which the centre of the first pixel moves.
        xy = (torch.stack([x, y], 1) + 0.5) * step - 0.5
        sigma = SIGMA * step.prod().sqrt().expand(len(x))
        return xy, sigma, repeatability[y, x] * reliability[y, x], descriptors[0, :, y, x].T


def _levels(picture: Array) -> Iterator[tuple[Tensor, Tensor]]:
    """The photo at ever smaller scales, normalised, each with the photo's pixels in one of its own: (x, y)."""
    height, width = picture.shape[:2]
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    pixels = ((torch.tensor(picture).permute(2, 0, 1) / 255 - mean) / std)[None]
    scale, longest = 1.0, max(height, width)
    while True:
        if scale * longest <= LARGEST * 1.001:
            yield pixels, torch.tensor([width / pixels.shape[3], height / pixels.shape[2]])
        scale /= STEP
        if scale * longest < SMALLEST * 0.999:
            return
        size = max(1, round(height * scale)), max(1, round(width * scale))
        pixels = functional.interpolate(pixels, size, mode="bilinear", align_corners=False)
