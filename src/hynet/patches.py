"""Photo + keypoints -> patches. The one file that knows support width, orientation and anti-aliasing."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

from .errors import BadInput
from .types import Array, Keypoints

# Full width of a patch in detector sigmas; every model here is trained and used with it.
SUPPORT_SIGMAS = 24.0

MAX_SIDE = 32_766  # of the photo and of a table of positions, for cv2.remap
TILE_ROWS = 16_384  # of the patches of one call under each other: memory is bounded whatever their number


def cut(image: Array, keypoints: Keypoints, size: int = 32, support: float = SUPPORT_SIGMAS) -> Array:
    """Patches (N, size, size) uint8, each turned and scaled by its frame. Beyond the photo its border goes on."""
    if image.ndim != 2 or image.dtype != np.uint8 or image.size == 0:
        raise BadInput(f"patches are cut from (H, W) uint8 grey, got {image.shape} {image.dtype}; use images.read.")
    if max(image.shape) > MAX_SIDE:
        raise BadInput(
            f"patches are cut from photos of at most {MAX_SIDE} pixels a side, got {image.shape}; shrink it."
        )
    frames = keypoints.frames.astype(np.float64)
    if not np.isfinite(frames).all():
        raise BadInput("keypoint frames hold NaN or infinity; leave those keypoints out.")
    frames[:, :, :2] *= support / size  # the unit is now one pixel of the patch
    patches = np.empty((len(frames), size, size), np.uint8)
    levels, per_tile = _levels(frames, image.shape), max(1, TILE_ROWS // size)
    for level, pixels in enumerate(_pyramid(image, levels.max(initial=0))):
        rows = np.flatnonzero(levels == level)
        for start in range(0, len(rows), per_tile):
            tile = rows[start : start + per_tile]
            patches[tile] = _sample(pixels, frames[tile] / 2**level, size)
    return patches


def _levels(frames: Array, shape: tuple[int, ...]) -> Array:
    """The pyramid level (N,) whose pixels are nearest in size to those of the patch along its longer axis."""
    (a, b), (c, d) = frames[:, :, :2].transpose(1, 2, 0)
    squares, area = a * a + b * b + c * c + d * d, a * d - b * c
    step = np.sqrt((squares + np.sqrt(np.maximum(squares**2 - 4 * area**2, 0))) / 2)  # the larger singular value
    smallest = int(np.log2(min(shape)))  # halving goes no further
    return np.clip(np.rint(np.log2(np.maximum(step, 1e-9))), 0, smallest).astype(np.int64)


def _pyramid(image: Array, top: int) -> Iterator[Array]:
    """Level 0 as it is; the others in floats, since rounding every level would add up."""
    yield image
    if not top:
        return
    pixels: Array = image.astype(np.float32)
    for _ in range(top):
        # Pixel (0, 0) stays where it is, so a position at level k is the position in the photo divided by 2^k.
        pixels = cv2.pyrDown(pixels, borderType=cv2.BORDER_REPLICATE)
        yield pixels


def _sample(pixels: Array, frames: Array, size: int) -> Array:
    """Bilinear, one call for all patches: (n, 2, 3) -> (n, size, size) uint8."""
    along = np.arange(size) - (size - 1) / 2
    columns = (frames[:, :, 0, None] * along + frames[:, :, 2, None]).astype(np.float32)  # (n, 2, size)
    rows = (frames[:, :, 1, None] * along).astype(np.float32)
    x, y = (columns[:, axis, None, :] + rows[:, axis, :, None] for axis in (0, 1))  # (n, size, size)
    sampled = cv2.remap(
        pixels, x.reshape(-1, size), y.reshape(-1, size), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    if sampled.dtype != np.uint8:
        sampled = np.rint(sampled, out=sampled).astype(np.uint8)
    return sampled.reshape(-1, size, size)
