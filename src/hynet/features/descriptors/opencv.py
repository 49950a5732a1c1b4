"""Baselines of OpenCV's contrib modules, computed on whole patches, so that they see exactly what the networks see.

Each patch lies inside its own border in one larger image, with one upright keypoint in its middle whose window is the
patch. Bits become +1 and -1: the squared distance of two unit rows is then 4 h / D for Hamming distance h, so the order
of neighbours is Hamming's. A ratio r between such distances is r squared between Hamming distances.

In photos they look at 24 sigmas, as the networks do. Their authors advise 13.5 (6.75 of OpenCV's SIFT sizes), with
which they are far worse on validation pairs: FPR@95 4.0 -> 10.4 (BEBLID), 4.3 -> 9.9 (TEBLID), 5.8 -> 11.7 (BoostDesc).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

from ...types import Array, Descriptor
from .resizing import resized

BORDER = 16  # pixels of replicated border, so that one patch's window and blur never reach its neighbour
ACROSS = 8  # patches across and down one image: DAISY holds 32 floats for every pixel of it


class Baseline(Descriptor):
    """An OpenCV descriptor whose window, scaled by 1, is as wide as the keypoint's size."""

    patch_size = 32
    dim: int

    def __init__(self, extractor: Any) -> None:
        self._extractor = extractor
        self._alone = threading.Lock()  # VGG, BoostDesc and DAISY keep the image that they look at

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, dim) float32 unit rows; a flat patch may give zeros."""
        patches = resized(patches, self.patch_size)
        rows = [np.zeros((0, self.dim), np.float32)]
        with self._alone:
            rows += [_numbers(self._extractor.compute(*mosaic)[1]) for mosaic in _mosaics(patches)]
        stacked = np.concatenate(rows)
        return stacked / np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), 1e-12)


class VGG(Baseline):
    """Learnt pooling regions and a learnt projection (Simonyan 2014): 120 numbers of 64 x 64 patches."""

    patch_size = 64
    dim = 120

    def __init__(self) -> None:
        super().__init__(cv2.xfeatures2d.VGG.create(scale_factor=1.0))


class BoostDesc(Baseline):
    """BinBoost (Trzcinski 2013): 256 bits."""

    dim = 256

    def __init__(self) -> None:
        super().__init__(cv2.xfeatures2d.BoostDesc.create(scale_factor=1.0))


class BEBLID(Baseline):
    """Boosted differences of box means (Suarez 2020): 512 bits."""

    dim = 512

    def __init__(self) -> None:
        super().__init__(cv2.xfeatures2d.BEBLID.create(1.0, cv2.xfeatures2d.BEBLID_SIZE_512_BITS))


class TEBLID(Baseline):
    """BEBLID's boxes learnt with triplets (Suarez 2021): 512 bits."""

    dim = 512

    def __init__(self) -> None:
        super().__init__(cv2.xfeatures2d.TEBLID.create(1.0, cv2.xfeatures2d.TEBLID_SIZE_512_BITS))


class DAISY(Baseline):
    """Gradients under Gaussians on rings (Tola 2010): 200 numbers, each of the 25 histograms of unit length."""

    dim = 200

    def __init__(self) -> None:
        # The Gaussians of the outer ring, of sigma 5, end where the patch does.
        super().__init__(cv2.xfeatures2d.DAISY.create(radius=10, norm=cv2.xfeatures2d.DAISY_NRM_PARTIAL))


def _mosaics(patches: Array) -> Iterator[tuple[Array, list[cv2.KeyPoint]]]:
    """Images that hold up to ACROSS x ACROSS patches each, and the keypoints of those."""
    size = patches.shape[1]
    cell = size + 2 * BORDER
    # OpenCV puts the middle of an even window between its pixels size / 2 - 1 and size / 2 on the latter.
    middle = BORDER + size / 2
    for start in range(0, len(patches), ACROSS**2):
        some = np.pad(patches[start : start + ACROSS**2], ((0, 0), (BORDER, BORDER), (BORDER, BORDER)), mode="edge")
        mosaic = np.zeros((-(-len(some) // ACROSS) * cell, ACROSS * cell), np.uint8)
        keypoints = []
        for k, patch in enumerate(some):
            y, x = cell * (k // ACROSS), cell * (k % ACROSS)
            mosaic[y : y + cell, x : x + cell] = patch
            keypoints.append(cv2.KeyPoint(x + middle, y + middle, size, 0))
        yield mosaic, keypoints


def _numbers(rows: Array) -> Array:
    """Bytes of bits -> +1 and -1; floats as they are."""
    return 2 * np.unpackbits(rows, axis=1).astype(np.float32) - 1 if rows.dtype == np.uint8 else rows
