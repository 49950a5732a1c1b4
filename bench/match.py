"""Matching 10,000 x 10,000 descriptors, mutual + ratio: ours against OpenCV's brute-force matcher.

Bits are as many features, described by 128 or 256 signs.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

import cv2
import numpy as np

from bench import Measurement, milliseconds
from hynet.features.descriptors.compressed.hamming import Hamming
from hynet.matching.nearest import match
from hynet.types import Array, Features, Keypoints

COUNT = 10_000
DIM = 128
BITS = (128, 256)
RATIO = 0.9
ROUNDS = 3


def measure(*, count: int = COUNT, rounds: int = ROUNDS) -> list[Measurement]:
    a, b = _views(count)
    bits = {size: [_signs(each, size) for each in (a, b)] for size in BITS}
    rivals: dict[str, Callable[[], object]] = {
        "cv2.BFMatcher": lambda: by_opencv(a, b),
        "hynet.match": lambda: match(a, b, RATIO).indices,
    }
    rivals |= {f"hamming, {size} bits": partial(Hamming(RATIO), *pair) for size, pair in bits.items()}
    times = milliseconds(rivals, rounds)
    tracemalloc.start()  # NumPy reports its arrays to it
    found = match(a, b, RATIO).indices
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [
        *(Measurement(name, value, "ms") for name, value in times.items()),
        Measurement("hynet.match, extra memory", peak / 2**20, "MB"),
        Measurement("matches in common", 100 * _common(found, by_opencv(a, b)), "%"),
    ]


def by_opencv(a: Features, b: Features) -> Array:
    """The same question to OpenCV: two nearest one way, one nearest the other. -> (K, 2)."""
    matcher = cv2.BFMatcher(cv2.NORM_L2)
    back = {reverse.queryIdx: reverse.trainIdx for reverse in matcher.match(b.descriptors, a.descriptors)}
    return np.array(
        [
            (best.queryIdx, best.trainIdx)
            for best, second in matcher.knnMatch(a.descriptors, b.descriptors, k=2)
            if back[best.trainIdx] == best.queryIdx and best.distance < RATIO * second.distance
        ]
    )


def _common(ours: Array, theirs: Array) -> float:
    ours_set, theirs_set = {tuple(pair) for pair in ours}, {tuple(pair) for pair in theirs}
    return len(ours_set & theirs_set) / len(ours_set | theirs_set)


def _views(count: int) -> tuple[Features, Features]:
    """Half the features of the second are noisy copies of the first's, the others unrelated."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, count, DIM))
    second[: count // 2] = first[: count // 2] + 0.5 * second[: count // 2]
    return _features(first), _features(rng.permutation(second))


def _signs(features: Features, size: int) -> Features:
    """On which side of `size` random planes each row lies."""
    planes = np.random.default_rng(1).normal(size=(DIM, size))
    return _features(np.where(features.descriptors @ planes > 0, 1.0, -1.0))


def _features(rows: Array) -> Features:
    unit = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    origin = np.zeros(len(unit))
    return Features(Keypoints.from_circles(np.zeros((len(unit), 2)), origin + 1, origin, origin), unit, (1, 1))
