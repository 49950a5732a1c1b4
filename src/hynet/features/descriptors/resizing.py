"""Checking patches and resizing them to a descriptor's own size, once."""

from __future__ import annotations

import cv2
import numpy as np

from ...errors import BadInput
from ...types import Array


def resized(patches: Array, size: int) -> Array:
    """(N, S, S) uint8 of any S -> (N, size, size) uint8, anti-aliased."""
    if not isinstance(patches, np.ndarray):
        raise BadInput(
            f"patches must be a NumPy array (N, S, S), got {type(patches).__name__}; numpy.asarray makes one."
        )
    if patches.ndim != 3 or patches.shape[1] != patches.shape[2] or patches.dtype != np.uint8:
        raise BadInput(f"patches must be (N, S, S) uint8, grey 0 to 255, got {patches.shape} {patches.dtype}.")
    if patches.shape[1] == size or len(patches) == 0:
        return np.ascontiguousarray(patches).reshape(-1, size, size) if len(patches) else _none(size)
    # Area averaging is the anti-aliasing filter of any shrink (64 to 32: the mean of 2x2); it does not enlarge well.
    how = cv2.INTER_AREA if patches.shape[1] > size else cv2.INTER_CUBIC
    return np.stack([cv2.resize(patch, (size, size), interpolation=how) for patch in patches])


def _none(size: int) -> Array:
    return np.zeros((0, size, size), np.uint8)
