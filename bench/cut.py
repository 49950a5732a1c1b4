"""Cutting 2,000 patches of 32 x 32: ours against kornia's pyramid and a loop of cv2.warpAffine."""

from __future__ import annotations

import cv2
import numpy as np

from bench import Measurement, milliseconds
from hynet.datasets import synthetic
from hynet.errors import need
from hynet.images.patches import SUPPORT_SIGMAS, cut
from hynet.types import Array, Keypoints

COUNT = 2_000
SIZE = 32
ROUNDS = 7


def measure(*, count: int = COUNT, rounds: int = ROUNDS) -> list[Measurement]:
    torch = need("torch", "baselines", "the bench of cutting")
    kornia = need("kornia.feature", "baselines", "the bench of cutting")
    image, keypoints = photo(count)
    tensor = torch.from_numpy(image)[None, None].float()
    # kornia's frames end at the border of the patch, ours at one sigma.
    frames = keypoints.frames.copy()
    frames[:, :, :2] *= SUPPORT_SIGMAS / 2
    lafs = torch.from_numpy(frames)[None]
    rivals = {
        "kornia, extract_patches_from_pyramid": lambda: kornia.extract_patches_from_pyramid(tensor, lafs, SIZE),
        "cv2.warpAffine, a loop": lambda: by_opencv(image, keypoints),
        "hynet.images.patches.cut": lambda: cut(image, keypoints, SIZE),
    }
    return [Measurement(name, value, "ms") for name, value in milliseconds(rivals, rounds).items()]


def by_opencv(image: Array, keypoints: Keypoints) -> Array:
    """One warp a patch, from the photo itself: it aliases where ours goes up a pyramid."""
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    shift = np.array([[1, 0, -(SIZE - 1) / 2], [0, 1, -(SIZE - 1) / 2], [0, 0, 1]])
    patches = np.empty((len(keypoints), SIZE, SIZE), np.uint8)
    for row, frame in enumerate(keypoints.frames):
        frame = frame.astype(np.float64)
        frame[:, :2] *= SUPPORT_SIGMAS / SIZE
        patches[row] = cv2.warpAffine(image, frame @ shift, (SIZE, SIZE), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return patches


def photo(count: int) -> tuple[Array, Keypoints]:
    """A photo of 1024 x 768 with keypoints of the sizes that detectors find: many small ones."""
    rng = np.random.default_rng(0)
    xy = rng.uniform((20, 20), (1004, 748), (count, 2))
    sigma = 1.2 * 2 ** rng.exponential(1.0, count).clip(max=4)
    keypoints = Keypoints.from_circles(xy, sigma, rng.uniform(-np.pi, np.pi, count), np.ones(count))
    return synthetic.texture((1024, 768), seed=0), keypoints
