"""Detector + patches + descriptor = photo -> Features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2

from .. import images
from ..descriptors.loading import load
from ..detectors import open_detector, orientation
from ..detectors import shape as affine_shape
from ..errors import BadInput
from ..patches import SUPPORT_SIGMAS, cut
from ..types import Array, Descriptor, Detector, Features, Keypoints
from .calibrated import Calibration, saved

# Keypoints are looked for in a photo of at most this side, as hloc does for SIFT: time and memory stay bounded.
LONGEST = 1600


class Extractor:
    """Photo -> Features, in pixels of the original photo.

    extract = Extractor(max_keypoints=2048)
    features = extract("a.jpg")

    detector, descriptor: a name, the path of weights, or an object of one's own.
    score_threshold: keypoints of a lower score are left out; None: as usual for the detector.
    spread: evenly over the photo instead of the strongest anywhere.
    affine: elliptic regions, for surfaces seen from the side.
    support: full width of a patch in detector sigmas; None: as calibrated, or as the model was trained.
    """

    def __init__(
        self,
        detector: str | Path | Detector = "dog",
        descriptor: str | Path | Descriptor = "default",
        max_keypoints: int = 2048,
        upright: bool = False,
        *,
        longest: int = LONGEST,
        score_threshold: float | None = None,
        spread: bool = False,
        affine: bool = False,
        support: float | None = None,
    ) -> None:
        if longest < 1:
            raise BadInput(f"the longest side must be at least 1 pixel, got {longest}.")
        if support is not None and not support > 0:
            raise BadInput(f"the support must be more than 0 sigmas, got {support:g}.")
        asked = {"score_threshold": score_threshold, "spread": spread or None}
        options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        calibration = Calibration()
        if isinstance(detector, str | Path):
            if isinstance(descriptor, str | Path):
                calibration = saved(descriptor, str(detector))
            # The affine shape brings its own orientation, one a place.
            detector = open_detector(detector, max_keypoints=max_keypoints, upright=upright or affine, **options)
        self.detector = detector
        self.descriptor = load(descriptor) if isinstance(descriptor, str | Path) else descriptor
        self.longest = longest
        self.upright = upright
        self.affine = affine
        # What the photos of the user were found to want, else what the model says of itself.
        trained = self.descriptor.support or SUPPORT_SIGMAS
        self.support = support or calibration.support or trained
        self.ratio: float | None = calibration.ratio or self.descriptor.ratio
        self.thresholds = calibration.thresholds  # geometry -> pixels; like the ratio, they travel with the features

    def __call__(self, photo: str | Path | Array, mask: str | Path | Array | None = None) -> Features:
        """The features of a photo, none of them where the mask, a picture of the same size, is black."""
        image = images.read(photo)
        return self.describe(image, self.detect(image, None if mask is None else images.read(mask)))

    def detect(self, image: Array, mask: Array | None = None) -> Keypoints:
        """(H, W) grey -> Keypoints, found in the photo made small enough; none where the mask (H, W) is zero."""
        if mask is not None:
            check_mask(mask, image.shape)
        small, scale = images.shrink(image, self.longest)
        if mask is not None and scale != 1:
            mask = cv2.resize(mask, small.shape[::-1], interpolation=cv2.INTER_NEAREST)
        found = self.detector(small) if mask is None else self.detector(small, mask)
        if self.affine:
            found = affine_shape.baumberg(small, found)
            found = found if self.upright else orientation.oriented(small, found)
        if scale == 1:
            return found
        frames = found.frames / scale
        frames[:, :, 2] = images.unshrink(found.xy, scale)
        return Keypoints(frames, found.scores)

    def describe(self, image: Array, keypoints: Keypoints) -> Features:
        """(H, W) grey and any keypoints in it -> Features."""
        height, width = image.shape
        descriptors = self.descriptor.describe(self.patches(image, keypoints))
        return Features(keypoints, descriptors, (width, height), self.ratio, self.thresholds)

    def patches(self, image: Array, keypoints: Keypoints) -> Array:
        """What the descriptor looks at: (N, S, S) uint8."""
        return cut(image, keypoints, self.descriptor.patch_size, self.support)


def check_mask(mask: Array, shape: tuple[int, ...]) -> None:
    """Whether it is as large as its photo: (H, W)."""
    if mask.shape != shape:
        sizes = [f"{width} x {height}" for height, width in (mask.shape, shape)]
        raise BadInput(f"the mask has {sizes[0]} pixels and its photo {sizes[1]}; make them equal.")
