"""Peers that find and describe in one go: photo -> Features. ADD ONE: a file in this folder and a row in END_TO_END.

They take part in benchmarks beside detector + patch descriptor. Two are ready by name; the others are networks whose
published weights are given by path and recognised by their keys. Nothing here downloads, or ships with the package.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..descriptors.loading import models, read_state
from ..errors import BadWeights

if TYPE_CHECKING:
    from ..types import Array, Features


class EndToEnd(Protocol):
    """Photo to features, in pixels of the original photo, the strongest first."""

    ratio: float | None  # the ratio test that suits it

    def __call__(self, photo: str | Path | Array) -> Features: ...


@dataclass(frozen=True)
class Row:
    """Calling it makes one that finds at most so many keypoints."""

    file: str  # in this folder
    name: str  # of the class
    about: str
    key: str = ""  # of the published weights, by which they are recognised; none: it needs no weights

    def __call__(self, max_keypoints: int = 2048, weights: Mapping[str, Any] | None = None) -> EndToEnd:
        make = getattr(importlib.import_module(f".{self.file}", __package__), self.name)
        return make(max_keypoints) if weights is None else make(weights, max_keypoints)


END_TO_END = {
    "opencv-sift": Row("sift", "SIFT", "OpenCV's SIFT as it comes"),
    "opencv-rootsift": Row("sift", "RootSIFT", "the same under Hellinger's distance"),
    "r2d2": Row("r2d2", "R2D2", "repeatable and reliable (Revaud 2019), our own extraction", key="sal.weight"),
    "aliked": Row("aliked", "ALIKED", "deformable descriptors (Zhao 2023), by kornia", key="desc_head.agg_weights"),
}


def find(name: str, max_keypoints: int = 2048) -> EndToEnd | None:
    """What that name or path of weights stands for, or None where it is no end-to-end method."""
    path = Path(name)
    if name in END_TO_END and not END_TO_END[name].key:
        return END_TO_END[name](max_keypoints)
    if name in models() or path.suffix == ".onnx" or not path.is_file():
        return None
    try:
        weights = read_state(path)
    except BadWeights:
        return None  # `hynet.load` knows more kinds, and says what is wrong with the others
    row = next((row for row in END_TO_END.values() if row.key and row.key in weights), None)
    return None if row is None else row(max_keypoints, weights)
