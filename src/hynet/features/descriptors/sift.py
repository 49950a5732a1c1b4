"""SIFT and RootSIFT of whole patches, so that they see exactly what the networks see."""

from __future__ import annotations

import cv2
import numpy as np

from ...types import Array, Descriptor
from .resizing import resized

BINS, BIN_SIGMAS = 4, 3.0  # SIFT's window is 4 bins of 3 sigma, wide
MARGIN = 16  # pixels of replicated border, so that one patch's window never reaches its neighbour
MOSAIC_ROWS = 64  # patches described in one image: bounds the memory


class SIFT(Descriptor):
    """Upright SIFT whose 12-sigma window is the patch itself."""

    patch_size = 32
    dim = 128
    support: float | None = BINS * BIN_SIGMAS  # in photos: the width that Lowe's own descriptor looks at
    ratio: float | None = 0.8  # Lowe's

    def __init__(self) -> None:
        self._sift = cv2.SIFT.create()

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, 128) float32 unit rows; a flat patch gives zeros."""
        patches = resized(patches, self.patch_size)
        rows = [np.zeros((0, self.dim), np.float32)]
        step = MOSAIC_ROWS**2
        rows += [self._describe_mosaic(patches[start : start + step]) for start in range(0, len(patches), step)]
        histograms = np.concatenate(rows)
        return self._normalised(histograms)

    def _describe_mosaic(self, patches: Array) -> Array:
        """One image that holds all patches, each inside its own border, and one keypoint in the middle of each."""
        cell = self.patch_size + 2 * MARGIN
        across = min(MOSAIC_ROWS, len(patches))
        down = -(-len(patches) // across)
        mosaic = np.zeros((down * cell, across * cell), np.uint8)
        padded = np.pad(patches, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)), mode="edge")
        keypoints = []
        sigma = self.patch_size / (BINS * BIN_SIGMAS)
        for k, patch in enumerate(padded):
            y, x = cell * (k // across), cell * (k % across)
            mosaic[y : y + cell, x : x + cell] = patch
            keypoint = cv2.KeyPoint(x + (cell - 1) / 2, y + (cell - 1) / 2, 2 * sigma, 0)
            keypoint.octave = 2 << 8  # octave 0, layer 2: blurred to 2.5 pixels, the level that sigma belongs to
            keypoints.append(keypoint)
        return self._sift.compute(mosaic, keypoints)[1]

    def _normalised(self, histograms: Array) -> Array:
        return _unit(histograms)


class RootSIFT(SIFT):
    """The square root of each share of the histogram: Hellinger's distance (Arandjelovic and Zisserman, 2012)."""

    ratio = 0.9  # best of those tried in the Image Matching Challenge (Jin 2020)

    def _normalised(self, histograms: Array) -> Array:
        return np.sqrt(histograms / np.maximum(histograms.sum(1, keepdims=True), 1e-12))


def _unit(rows: Array) -> Array:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
