"""Difference of Gaussians: the extrema that SIFT detects, by OpenCV."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from ..errors import BadInput
from ..types import Array, Keypoints
from .selection import best, masked

LAYERS = 3  # scales in an octave, as Lowe


@dataclass(frozen=True)
class DoG:
    """Blobs, each with the sigma of the finer of the two Gaussians: a round blob's own sigma is 2^(1/6) times that.

    That is what SIFT, VLFeat and COLMAP call a keypoint's scale. OpenCV's `size` is twice it.
    """

    max_keypoints: int = 2048
    score_threshold: float = 0.02 / LAYERS  # contrast of the blob, white being 1; COLMAP's default
    upright: bool = False  # no orientation: one keypoint a place, angle 0
    spread: bool = False  # evenly over the photo instead of the strongest anywhere

    def __post_init__(self) -> None:
        if self.max_keypoints < 1:
            raise BadInput(f"max_keypoints must be at least 1, got {self.max_keypoints}.")

    def __call__(self, image: Array, mask: Array | None = None) -> Keypoints:
        """(H, W) grey uint8 -> Keypoints, highest score first. Only where the mask (H, W) is not zero."""
        sift = cv2.SIFT.create(
            nOctaveLayers=LAYERS,
            contrastThreshold=self.score_threshold * LAYERS,
            # Without it every position is 0.25 px too far right and down: a half pixel of the doubled photo.
            enable_precise_upscale=True,
        )
        found = sift.detect(image)
        table = np.array([(*point.pt, point.size, point.angle, point.response) for point in found]).reshape(-1, 5)
        if self.upright:  # a place with two orientations is still one place
            table[:, 3] = 0
            table = np.unique(table, axis=0)
        x, y, size, degrees, response = table.T
        keypoints = Keypoints.from_circles(np.column_stack([x, y]), size / 2, np.radians(degrees), np.abs(response))
        keypoints = masked(keypoints, mask, image.shape)
        return best(keypoints, self.max_keypoints, spread_over=image.shape if self.spread else None)
