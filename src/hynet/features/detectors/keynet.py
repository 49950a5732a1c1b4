"""Key.Net: corners that a small network learnt to find again, over a pyramid of the photo. Needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ...errors import BadWeights, need
from ...runtime.machine import cores
from ...runtime.onnx_runtime import run, session
from ...types import Array, Keypoints
from ..models import shipped
from . import orientation
from .orientation import vertex
from .selection import best, check, masked

SHIPPED = shipped("detector")["keynet"]

STEP = 2**0.5  # from one level of the pyramid to the next
LEVELS_UP, LEVELS = 1, 6
NMS = 15  # a keypoint is the best of this many pixels a side
BORDER = 15  # pixels of each level: patches there would be mostly outside
# Key.Net's patch is 44 pixels wide in its level; images/patches.py cuts SUPPORT_SIGMAS = 24 sigmas. A test ties both.
SIGMA = 44 / 24
FLAT = 1e-3  # a maximum that stands out less, relative to itself, is none: an all-black photo has no keypoints

GRID = 72  # sides that the network is given are multiples of it: 72, 60 and 50 pixels at its inner levels, all even
TILE = 13 * GRID  # pixels a side that go through the network at once: memory is bounded whatever the photo's size
MARGIN = GRID // 2  # pixels: more than the network sees around one

Scores = Callable[[Array], Array]  # grey (H, W) float32 from 0 to 1, sides multiples of GRID -> (H, W) float32


@dataclass(frozen=True)
class KeyNet:
    """Corners and blobs at six scales; each level may hold twice as many as the next."""

    max_keypoints: int = 2048
    weights: str | Path | None = None  # .onnx of ours; or published ones (.pth), which need torch
    score_threshold: float = 0.0
    upright: bool = False  # as Key.Net itself; otherwise each is turned to where its surroundings get brighter
    spread: bool = True  # over the photo, instead of the strongest anywhere

    def __post_init__(self) -> None:
        check(self.max_keypoints, self.score_threshold)
        network(self.weights or SHIPPED)  # fails now on a file that cannot be used

    @classmethod
    def from_file(cls, path: Path, **options: Any) -> KeyNet | None:
        """With the weights of a file, if they are those of a Key.Net."""
        try:
            return cls(weights=path, **options)
        except BadWeights:
            return None

    def __call__(self, image: Array, mask: Array | None = None) -> Keypoints:
        """(H, W) grey uint8 -> Keypoints, highest score first. Only where the mask (H, W) is not zero."""
        score = network(self.weights or SHIPPED)
        found = [Keypoints(np.zeros((0, 2, 3)), np.zeros(0))]
        budget = 0.0
        for level, pixels in enumerate(_pyramid(image)):
            budget += self.max_keypoints * 2.0 ** (LEVELS - 1 - level) / (2**LEVELS - 1)
            if min(pixels.shape) <= 2 * BORDER or round(budget) < 1:
                continue
            scale = STEP ** (level - LEVELS_UP)  # photo pixels a pixel of the level
            xy, scores = _peaks(score_map(score, pixels), self.score_threshold)
            sigma, angle = np.full(len(xy), SIGMA * scale), np.zeros(len(xy))
            keypoints = Keypoints.from_circles((xy + 0.5) * scale - 0.5, sigma, angle, scores)
            keypoints = masked(keypoints, mask, image.shape)
            keypoints = best(keypoints, round(budget), spread_over=image.shape if self.spread else None)
            budget -= len(keypoints)  # what a level leaves goes to the next
            found.append(keypoints)
        frames, scores = (np.concatenate([getattr(some, name) for some in found]) for name in ("frames", "scores"))
        keypoints = best(Keypoints(frames, scores), self.max_keypoints)
        return keypoints if self.upright else orientation.oriented(image, keypoints)[: self.max_keypoints]


def network(weights: str | Path) -> Scores:
    """Open the network that scores pictures: an .onnx file, or a file of weights in torch."""
    try:
        status = Path(weights).stat()
    except OSError:
        return _network(weights, None)  # which says what is wrong
    return _network(weights, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=4)
def _network(weights: str | Path, written: tuple[int, ...] | None) -> Scores:
    """Opened once, until the file is written again."""
    if Path(weights).suffix != ".onnx":
        torch = need("torch", "train", "Key.Net from a file that is not .onnx")
        from .keynet_network import load

        net = load(weights)

        def by_torch(image: Array) -> Array:
            with torch.inference_mode():
                return net(torch.from_numpy(image)[None, None])[0, 0].numpy()

        return by_torch

    opened = session(weights, threads=len(cores()))
    if [some.name for some in (*opened.get_inputs(), *opened.get_outputs())] != ["image", "scores"]:
        raise BadWeights(f"{weights} is another network than Key.Net; `hynet train keynet` writes one.")
    return lambda image: run(opened, ["scores"], {"image": image})[0]


def score_map(score: Scores, pixels: Array) -> Array:
    """The score of every pixel, in overlapping tiles: the same as in one piece. (h, w) -> (h, w)."""
    height, width = pixels.shape
    padded = cv2.copyMakeBorder(pixels, 0, -height % GRID, 0, -width % GRID, cv2.BORDER_REPLICATE)
    scores = np.empty_like(padded)
    for top in range(0, max(1, padded.shape[0] - GRID), TILE - GRID):
        for left in range(0, max(1, padded.shape[1] - GRID), TILE - GRID):
            tile = score(np.ascontiguousarray(padded[top : top + TILE, left : left + TILE]))
            y, x = MARGIN * (top > 0), MARGIN * (left > 0)  # later tiles write over the seams of earlier ones
            scores[top + y : top + TILE, left + x : left + TILE] = tile[y:, x:]
    return scores[:height, :width]


def _pyramid(image: Array) -> Iterator[Array]:
    """The photo from 0 to 1: larger, as it is, and ever smaller."""
    pixels: Array = image.astype(np.float32) / 255
    # By factor, not by size: rounding the size would give the two axes slightly different scales.
    yield cv2.resize(pixels, None, fx=STEP, fy=STEP, interpolation=cv2.INTER_LINEAR)
    yield pixels
    binomial = np.array([1, 4, 6, 4, 1], np.float32) / 16
    for _ in range(LEVELS - LEVELS_UP - 1):
        if min(pixels.shape) <= 2 * BORDER:
            return
        blurred = cv2.sepFilter2D(pixels, -1, binomial, binomial)
        pixels = cv2.resize(blurred, None, fx=1 / STEP, fy=1 / STEP, interpolation=cv2.INTER_LINEAR)
        yield pixels


def _peaks(scores: Array, threshold: float) -> tuple[Array, Array]:
    """Positions (N, 2) between pixels, and scores (N,), of the maxima that stand out from what is around them."""
    window = np.ones((NMS, NMS), np.uint8)
    inner = np.zeros_like(scores)
    inside = slice(BORDER, -BORDER), slice(BORDER, -BORDER)
    inner[inside] = scores[inside]
    highest, lowest = cv2.dilate(inner, window), cv2.erode(scores, window)
    y, x = np.nonzero((inner == highest) & (inner > threshold) & (inner - lowest > FLAT * inner))
    at = scores[y, x]
    xy = np.column_stack(
        [
            x + vertex(scores[y, x - 1], at, scores[y, x + 1]),
            y + vertex(scores[y - 1, x], at, scores[y + 1, x]),
        ]
    )
    return xy, at
