"""How often a keypoint that is found again in a turned copy of its photo has the same angle there.

Usage: python research/orientation.py PATH/TO/data/train

One photo of each scene set aside for choosing is turned by a random angle, shrunk, dimmed and made noisy. Columns:
share of keypoints with an angle in common (within 12 degrees), and orientations a keypoint, for several widths of the
window that weighs gradients; beside OpenCV's SIFT.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np
from choosing import scenes
from scipy.spatial import cKDTree

from hynet import images
from hynet.detectors import DETECTORS
from hynet.features.detectors import orientation
from hynet.types import Array, Keypoints

SETTINGS = [(12.0, 1.5, 3.0), (12.0, 2.2, 1.5), (12.0, 2.2, 2.0), (12.0, 2.2, 3.0), (14.0, 2.2, 3.5), (16.0, 2.2, 4.0)]
SAME = np.radians(12)


def pairs(train: Path, detector: str) -> list[tuple[Array, Keypoints, Array, Keypoints, float]]:
    """Photo, its keypoints, the turned copy, the same keypoints found there, and the angle between the two."""
    rng = np.random.default_rng(0)
    found = []
    for scene in scenes():
        photo = images.read(images.list_photos(train / scene)[2])
        height, width = photo.shape
        scale = rng.uniform(0.7, 1)
        M = cv2.getRotationMatrix2D((width / 2, height / 2), rng.uniform(20, 340), scale)
        side = int(np.hypot(height, width))
        M[:, 2] += [(side - width) / 2, (side - height) / 2]
        turned = cv2.warpAffine(photo, M, (side, side)) * 0.8 + 10 + rng.normal(0, 3, (side, side))
        turned = turned.clip(0, 255).astype(np.uint8)
        first, second = DETECTORS[detector](2000, upright=True)(photo), DETECTORS[detector](3000, upright=True)(turned)
        away, twin = cKDTree(second.xy).query(first.xy @ M[:, :2].T + M[:, 2])
        same = (away < 1.5) & (np.abs(np.log(second.sigma[twin] / first.sigma / scale)) < 0.2)
        found.append((photo, first[same], turned, second[twin[same]], float(np.arctan2(M[1, 0], M[0, 0]))))
    return found


def by_opencv(image: Array, keypoints: Keypoints) -> tuple[Array, Array]:
    """As `orientation.peaks`."""
    points = cv2.SIFT.create(contrastThreshold=0.001, enable_precise_upscale=True).detect(image)
    table = np.array([(*point.pt, 5 * np.log(point.size / 2), np.radians(point.angle)) for point in points])
    places = np.column_stack([keypoints.xy, 5 * np.log(keypoints.sigma)])
    near = cKDTree(table[:, :3]).query_ball_point(places, 0.3)
    return np.repeat(np.arange(len(near)), [len(each) for each in near]), table[np.concatenate(near).astype(int), 3]


def score(peaks, made) -> tuple[float, float]:
    same, places, angles = 0, 0, 0
    for photo, first, turned, second, turn in made:
        rows, before = peaks(photo, first)
        columns, after = peaks(turned, second)
        apart = np.abs((before[:, None] + turn - after[None] + np.pi) % (2 * np.pi) - np.pi)
        agree = (rows[:, None] == columns[None]) & (apart < SAME)
        same += len(np.unique(rows[agree.any(1)]))
        places += len(first)
        angles += len(rows)
    return 100 * same / places, angles / places


def main(train: Path) -> None:
    for detector in ("dog", "keynet"):
        made = pairs(train, detector)
        if detector == "dog":
            print("dog, OpenCV's angles: {:.1f}% {:.2f}".format(*score(by_opencv, made)), flush=True)
        for setting in SETTINGS:
            orientation.SUPPORT, blur, orientation.WINDOW = setting
            orientation.gradients.__defaults__ = (blur,)
            orientation.window.cache_clear()
            told = "{:.1f}% {:.2f}".format(*score(orientation.peaks, made))
            print(f"{detector}, support {setting[0]:g}, blur {blur}, window {setting[2]}: {told}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    main(**vars(parser.parse_args()))
