"""Planar sequences for choosing: photos of the scenes set aside, under made-up views, blur, light and JPEG.

Usage: python research/planar_choosing.py PATH/TO/data/train OUT
       hynet evaluate hpatches --data OUT --model default,other.safetensors

Each scene of scenes_for_choosing.txt gives one photo and five copies of it, the later ones changed more, in the way of
Oxford's affine set: a plane seen from the side, zoomed and turned, out of focus, in less light, or saved as
a poor JPEG. The changes are made up, so the numbers say which weights are better, not how good they are on real photos.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import cv2
import numpy as np
from choosing import scenes

from hynet import images
from hynet.types import Array

VIEWS = 5
NOISE = 2.0  # grey levels, in every copy: no two photos are the same but for what differs
View = tuple[Array, Array]  # a photo, and (3, 3) view_from_photo


def seen_from_the_side(photo: Array, strength: float, random: np.random.Generator) -> View:
    height, width = photo.shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    inwards = random.uniform(0, 0.35 * strength, (4, 2)) * [width, height]
    inwards *= np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    H = cv2.getPerspectiveTransform(corners, (corners + inwards).astype(np.float32))
    return cv2.warpPerspective(photo, H, (width, height), borderMode=cv2.BORDER_REFLECT), H


def zoomed_and_turned(photo: Array, strength: float, random: np.random.Generator) -> View:
    height, width = photo.shape
    turn, zoom = random.uniform(-180, 180) * strength, 2.5**-strength
    H = np.eye(3)
    H[:2] = cv2.getRotationMatrix2D((width / 2, height / 2), turn, zoom)
    softer = cv2.GaussianBlur(photo, (0, 0), 0.5 / zoom)  # what is made smaller must not alias
    return cv2.warpPerspective(softer, H, (width, height), borderMode=cv2.BORDER_REFLECT), H


def out_of_focus(photo: Array, strength: float, random: np.random.Generator) -> View:
    return cv2.GaussianBlur(photo, (0, 0), 0.5 + 4 * strength), np.eye(3)


def in_less_light(photo: Array, strength: float, random: np.random.Generator) -> View:
    return (photo / 255) ** (1 + 0.5 * strength) * 255 * (1 - 0.8 * strength), np.eye(3)


def as_a_poor_jpeg(photo: Array, strength: float, random: np.random.Generator) -> View:
    quality = round(40 - 36 * strength)
    return cv2.imdecode(cv2.imencode(".jpg", photo, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], 0), np.eye(3)


CHANGES: list[Callable[[Array, float, np.random.Generator], View]] = [
    seen_from_the_side,
    zoomed_and_turned,
    out_of_focus,
    in_less_light,
    as_a_poor_jpeg,
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    train, out = asked.train, asked.out
    if not train.is_dir():
        parser.error(f"no folder {train}; give data/train.")
    for number, (name, change) in enumerate(zip(scenes(), cycle(CHANGES), strict=False)):
        random = np.random.default_rng(number)
        photos = images.list_photos(train / name)
        photo = images.shrink(images.read(photos[len(photos) // 2]), 800)[0]  # Oxford's size
        folder = out / f"{change.__name__}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(folder / "1.png"), photo)
        for view in range(1, VIEWS + 1):
            seen, H = change(photo, view / VIEWS, random)
            noisy = np.clip(seen + random.normal(0, NOISE, seen.shape), 0, 255)
            cv2.imwrite(str(folder / f"{view + 1}.png"), noisy.round().astype(np.uint8))
            np.savetxt(folder / f"H_1_{view + 1}", H)
        print(folder.name, flush=True)


if __name__ == "__main__":
    main()
