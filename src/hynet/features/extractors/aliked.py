"""ALIKED (Zhao et al., 2023), by kornia, with published weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ... import images
from ...errors import BadWeights, need
from ...types import Features, Keypoints
from ..descriptors.weights import state_or_nothing

LONGEST = 1024  # pixels of the longer side, as in LightGlue and hloc
SIGMA = 1.0  # it has no scale
KEY = "desc_head.agg_weights"  # by which its weights are recognised
KINDS = ("aliked-n16", "aliked-n32", "aliked-t16")


class ALIKED:
    """The strongest local maxima of its score map, however weak: every method here is given the same number."""

    ratio: float | None = None  # its authors match by mutual nearest neighbours alone

    def __init__(self, weights: Mapping[str, Any], max_keypoints: int) -> None:
        feature = need("kornia.feature", "baselines", "ALIKED")
        for kind in KINDS:
            network = feature.ALIKED(kind, max_num_keypoints=max_keypoints, detection_threshold=0.0)
            try:
                # What detects has no weights, only a table of offsets that kornia keeps beside them.
                missing, unexpected = network.load_state_dict(weights, strict=False)
            except RuntimeError:
                continue  # layers of another size
            if not unexpected and all(key.startswith("dkd.") for key in missing):
                self._network = network.eval()
                return
        raise BadWeights(f"these weights look like ALIKED's, but are none of {', '.join(KINDS)}.")

    @classmethod
    def from_file(cls, path: Path, max_keypoints: int) -> ALIKED | None:
        weights = state_or_nothing(path)
        return cls(weights, max_keypoints) if KEY in weights else None

    @torch.inference_mode()
    def __call__(self, photo: Any) -> Features:
        held = images.at_hand(photo)
        picture = images.read_colour(held)
        height, width = picture.shape[:2]
        small, scale = images.shrink(picture, LONGEST)
        found = self._network(torch.tensor(small).permute(2, 0, 1)[None] / 255)[0]
        xy = images.unshrink(found.keypoints.numpy(), scale)
        sigma = np.full(len(xy), SIGMA / scale)
        keypoints = Keypoints.from_circles(xy, sigma, np.zeros(len(xy)), found.keypoint_scores.numpy())
        return Features(
            keypoints, found.descriptors.numpy(), (width, height), self.ratio, photo=images.remembered(held)
        )
