"""Photo + keypoints -> patches. The only file that knows support width, orientation and anti-aliasing."""

from __future__ import annotations

import cv2
import numpy as np

from ..errors import BadInput
from ..types import Array, Keypoints

# Full width of a patch in detector sigmas; every model here is trained and used with it.
SUPPORT_SIGMAS = 24.0

MAX_SIDE = 32_766  # of the photo and of a table of positions, for cv2.remap
TILE_ROWS = 16_384  # of the patches of one call under each other: memory is bounded whatever their number


def cut(image: Array, keypoints: Keypoints, size: int = 32, support: float = SUPPORT_SIGMAS) -> Array:
    """Cut patches (N, size, size) uint8, each turned and scaled by its frame; its border continues outside."""
    return Pyramid(image).cut(keypoints.frames.astype(np.float64), size, support)


class Pyramid:
    """A photo and smaller copies of it, each half of the one before: made once, however often patches are cut."""

    def __init__(self, image: Array) -> None:
        if image.ndim != 2 or image.dtype != np.uint8 or image.size == 0:
            raise BadInput(f"patches are cut from (H, W) uint8 grey, got {image.shape} {image.dtype}; use images.read.")
        if max(image.shape) > MAX_SIDE:
            raise BadInput(
                f"patches are cut from photos of at most {MAX_SIDE} pixels a side, got {image.shape}; shrink it."
            )
        self._copies = [image]

    def shows(self, places: Array) -> Array:
        """True for pixels (N, 2) inside the photo: (N,) bool."""
        height, width = self._copies[0].shape
        x, y = places.T
        return (x >= -0.5) & (y >= -0.5) & (x <= width - 0.5) & (y <= height - 0.5)

    def cut(self, frames: Array, size: int, support: float, levels: Array | None = None) -> Array:
        """Cut patches (N, size, size) uint8 of frames (N, 2, 3); levels: by default those of `levels`."""
        if not np.isfinite(frames).all():
            raise BadInput("keypoint frames hold NaN or infinity; leave those keypoints out.")
        if levels is None:
            levels = self.levels(frames, size, support)
        frames = _in_patch_pixels(frames, size, support)
        patches = np.empty((len(frames), size, size), np.uint8)
        per_tile = max(1, TILE_ROWS // size)
        for level in range(levels.max(initial=-1) + 1):
            rows = np.flatnonzero(levels == level)
            for start in range(0, len(rows), per_tile):
                tile = rows[start : start + per_tile]
                patches[tile] = _sample(self._copy(level), frames[tile] / 2**level, size)
        return patches

    def levels(self, frames: Array, size: int, support: float) -> Array:
        """The copy (N,) whose pixels are nearest in size to those of the patch along its longer axis."""
        return self.nearest_level(np.log2(np.maximum(_step(_in_patch_pixels(frames, size, support)), 1e-9)))

    def nearest_level(self, level: Array) -> Array:
        """Round real levels (N,) to existing ones: 0 is the photo, 1 its half; halving goes no further than a pixel."""
        smallest = int(np.log2(min(self._copies[0].shape)))
        return np.clip(np.rint(level), 0, smallest).astype(np.int64)

    def _copy(self, level: int) -> Array:
        """Level 0 is the photo; the others are in floats, since rounding every one of them would add up."""
        while len(self._copies) <= level:
            larger = self._copies[-1].astype(np.float32, copy=False)
            # Pixel (0, 0) stays where it is, so a position at level k is the position in the photo divided by 2^k.
            self._copies.append(cv2.pyrDown(larger, borderType=cv2.BORDER_REPLICATE))
        return self._copies[level]


def _step(frames: Array) -> Array:
    """The larger singular value (N,) of frames (N, 2, 3): how far apart neighbours in a patch are."""
    (a, b), (c, d) = frames[:, :, :2].transpose(1, 2, 0)
    squares, area = a * a + b * b + c * c + d * d, a * d - b * c
    return np.sqrt((squares + np.sqrt(np.maximum(squares**2 - 4 * area**2, 0))) / 2)


def _in_patch_pixels(frames: Array, size: int, support: float) -> Array:
    """Frames whose unit is one pixel of the patch, instead of one sigma."""
    frames = frames.copy()
    frames[:, :, :2] *= support / size
    return frames


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
