"""How photos are turned, and what that does to each orientation.

Usage: python research/choosing.py PATH/TO/data/train OUT
       python research/turning.py OUT/stereo [PAIRS_A_SCENE]

First, of each scene, the share of pairs turned by more than some degrees: by the true cameras, and as
hynet.features.standing sees it. Then inliers of the fundamental matrix over the angle, summed over pairs whose second
photo was turned about its centre, nothing cut off.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np

import hynet
from hynet import images
from hynet.datasets import scenes
from hynet.features.standing import better_oriented, looks, matches_by_orientation, turns_between
from hynet.types import Array

SHARES = (10, 15, 25)  # degrees
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


def standing(found: list[scenes.Scene]) -> None:
    print(
        f"| scene | truly beyond {SHARES} degrees | as seen | of how many pairs | matches, oriented and upright "
        "| orientation |\n|---|---|---|---|---|---|"
    )
    for scene in found:
        true = []
        for pair in scene.pairs:
            R = scenes.second_from_first(*(scene.views[name].cam_from_world for name in pair)).rotation
            true.append(np.arctan2(R[1, 0] - R[0, 1], R[0, 0] + R[1, 1]))  # the nearest turn about the line of sight
        photos = [scene.views[name].photo for name in sorted(scene.views)]
        looked = looks(photos)
        seen = turns_between(looked)
        shares = [
            ", ".join(f"{np.mean(np.abs(np.degrees(each)) > angle):.2f}" for angle in SHARES) if len(each) else "none"
            for each in (true, seen)
        ]
        counts = "{}, {}".format(*matches_by_orientation(looked))
        orientation = "gradient" if better_oriented(looked) else "upright"
        print(f"| {scene.name} | {shares[0]} | {shares[1]} | {len(seen)} | {counts} | {orientation} |", flush=True)


def main(data: Path, most: int = 3) -> None:
    standing(scenes.load(data))
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
                        model="default",
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("most", type=int, nargs="?", default=3, metavar="pairs_a_scene")
    main(**vars(parser.parse_args()))
