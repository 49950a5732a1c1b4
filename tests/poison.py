"""What tests of clusters have workers do: plain numbers, and an extractor that some photos are too much for."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from hynet.runtime.processes import one_by_one

ENTRY_POINTS = "[hynet.extractors]\ntouchy = poison:Touchy\n"


def squares(context: Any, items: tuple[Any, ...]) -> list[int]:
    """Of numbers; words are what can go wrong."""
    return [_square(item) for item in one_by_one(items)]


def _square(item: Any) -> int:
    if item == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "hang":
        time.sleep(100)
    if item in ("slow", "slower"):
        time.sleep(1)
        return 0
    if item == "eat":
        bytearray(1 << 44)
    if item == "full":
        from hynet.errors import CannotWrite

        raise CannotWrite("cannot write anywhere; make room.")
    return item * item


class Touchy:
    """A few corners, each described by the pixels around it; photos are known by their names, until they are cured."""

    ratio = None

    def __init__(self, max_keypoints: int) -> None:
        self.max_keypoints = max_keypoints

    def __call__(self, photo: Any) -> Any:
        import numpy as np

        from hynet import images
        from hynet.types import Features, Keypoints

        name = "harmless" if Path(photo).with_suffix(".cured").exists() else Path(photo).stem
        time.sleep(0.05)
        if name.startswith("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        if name.startswith("hangs"):
            time.sleep(100)
        if name.startswith("eats"):
            np.ones(1 << 40)
        pixels = images.read(photo).astype(np.float32)
        rows, columns = np.unravel_index(
            np.argsort(-pixels[8:-8, 8:-8].ravel())[:20], (pixels.shape[0] - 16, pixels.shape[1] - 16)
        )
        around = np.stack(
            [pixels[y + 4 : y + 12, x + 4 : x + 12].ravel() + 1 for y, x in zip(rows, columns, strict=True)]
        )
        descriptors = around / np.linalg.norm(around, axis=1, keepdims=True)
        ones = np.ones(len(rows), np.float32)
        keypoints = Keypoints.from_circles(
            np.stack([columns + 8, rows + 8], 1).astype(np.float32), ones, 0 * ones, ones
        )
        return Features(keypoints, descriptors, (pixels.shape[1], pixels.shape[0]))
