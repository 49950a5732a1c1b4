"""Inliers over the angle by which the second photo of a pair was turned, for each orientation.

Usage: python studies/choosing.py PATH/TO/data/train OUT
       python studies/turning.py OUT/stereo [PAIRS_A_SCENE]

Inliers of the fundamental matrix, summed over pairs whose second photo was turned about its centre, nothing cut off.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

import hynet
from hynet import images
from hynet.datasets import scenes
from hynet.types import Array

ANGLES = (0, 5, 10, 15, 20, 30, 45, 90, 137, 180, 270)
ORIENTATIONS = ("upright", "gradient", "auto")


def turned(photo: Array, degrees: float) -> Array:
    if degrees % 90 == 0:
        return np.ascontiguousarray(np.rot90(photo, degrees // 90))
    height, width = photo.shape
    side = int(np.hypot(height, width))
    M = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1.0)
    M[:, 2] += [(side - width) / 2, (side - height) / 2]
    return cv2.warpAffine(photo, M, (side, side), borderValue=128)


def main(data: Path, most: int = 3) -> None:
    inliers = np.zeros((len(ANGLES), len(ORIENTATIONS)), int)
    pairs = 0
    for scene in scenes.load(data):
        for pair in scene.pairs[:: max(1, len(scene.pairs) // most)][:most]:
            first, second = (images.read(scene.views[name].photo) for name in pair)
            for row, angle in enumerate(ANGLES):
                for column, orientation in enumerate(ORIENTATIONS):
                    found = hynet.match_photos(
                        first,
                        turned(second, angle),
                        model="default-int8",
                        max_keypoints=1024,
                        orientation=orientation,
                        geometry="fundamental",
                    )
                    inliers[row, column] += len(found.inliers)
            pairs += 1
            print(f"{scene.name}, after {pairs} pairs:", flush=True)
            for row, angle in zip(inliers, ANGLES, strict=True):
                print(f"| {angle} | {' | '.join(str(each) for each in row)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(each) for each in sys.argv[2:]))
