"""LighterGlue (Potje et al., 2024): a small learned matcher for XFeat's features, by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadInput
from ..runtime.machine import cores
from ..runtime.onnx_runtime import run, session
from ..types import Array, Features, Matches

INPUTS = ["kpts0", "kpts1", "desc0", "desc1"]
DIM = 64  # of XFeat's descriptors
LEAST_SCORE = 0.1  # the authors' threshold


class LighterGlue:
    """Matcher that has learnt which of XFeat's descriptors belong together, and where."""

    def __init__(self, network: Any) -> None:
        """network: its session of ONNX Runtime."""
        self._session = network

    @classmethod
    def from_file(cls, path: Path) -> LighterGlue | None:
        network = session(path, threads=len(cores()))
        recognised = [each.name for each in network.get_inputs()] == INPUTS
        return cls(network) if recognised else None

    def __call__(self, a: Features, b: Features) -> Matches:
        if not len(a) or not len(b):
            return Matches(np.zeros((0, 2), np.int64), np.zeros(0, np.float32))
        if not a.descriptors.shape[1] == b.descriptors.shape[1] == DIM:
            raise BadInput("LighterGlue matches XFeat's features only; give XFeat's weights as the extractor.")
        values = [_centred(a), _centred(b), a.descriptors[None], b.descriptors[None]]
        found, scores = run(self._session, ["matches", "scores"], dict(zip(INPUTS, values, strict=True)))
        indices = found[scores > LEAST_SCORE].astype(np.int64)
        apart = a.descriptors[indices[:, 0]] - b.descriptors[indices[:, 1]]
        return Matches(indices, np.linalg.norm(apart, axis=1).astype(np.float32))


def _centred(features: Features) -> Array:
    """Positions (1, N, 2) with the centre of the photo at 0 and half of its longer side as 1."""
    size = np.array(features.image_size, np.float32)
    return ((features.keypoints.xy - size / 2) / (size.max() / 2)).astype(np.float32)[None]
