"""OpenCV's SIFT and RootSIFT end to end, with its own defaults: what people have when they do nothing."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from ... import images
from ...types import Array, Features, Keypoints

LONGEST = 1600  # pixels of the longer side in which it looks, as everything else here


class SIFT:
    """Photo -> its strongest keypoints by OpenCV's response."""

    ratio: float | None = 0.8  # Lowe's

    def __init__(self, max_keypoints: int) -> None:
        self._max_keypoints = max_keypoints
        self._sift = cv2.SIFT.create()

    def __call__(self, photo: Any) -> Features:
        held = images.at_hand(photo)
        image = images.read(held)
        small, scale = images.shrink(image, LONGEST)
        found, histograms = self._sift.detectAndCompute(small, None)
        table = np.array([(*point.pt, point.size, point.angle, point.response) for point in found]).reshape(-1, 5)
        order = np.argsort(-table[:, 4], kind="stable")[: self._max_keypoints]
        x, y, size, degrees, response = table[order].T
        xy = images.unshrink(np.column_stack([x, y]), scale)
        keypoints = Keypoints.from_circles(xy, size / 2 / scale, np.radians(degrees), response)
        rows = np.zeros((0, 128), np.float32) if histograms is None else histograms[order]
        return Features(
            keypoints,
            self._normalised(rows),
            (image.shape[1], image.shape[0]),
            self.ratio,
            photo=images.remembered(held),
        )

    def _normalised(self, histograms: Array) -> Array:
        return histograms / np.maximum(np.linalg.norm(histograms, axis=1, keepdims=True), 1e-12)


class RootSIFT(SIFT):
    ratio: float | None = 0.9  # best of those tried in the Image Matching Challenge (Jin 2020)

    def _normalised(self, histograms: Array) -> Array:
        return np.sqrt(histograms / np.maximum(histograms.sum(1, keepdims=True), 1e-12))
