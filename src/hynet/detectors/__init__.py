"""Photo -> Keypoints. ADD A DETECTOR: a file in this folder and a row in DETECTORS.

Every detector takes `max_keypoints` and `upright` when it is made, and `score_threshold` and `spread` where those are
asked for; a grey photo, and perhaps a mask, when it is called.
"""

from __future__ import annotations

from collections.abc import Callable

from ..types import Detector
from .dog import DoG
from .keynet import KeyNet

DETECTORS: dict[str, Callable[..., Detector]] = {"dog": DoG, "keynet": KeyNet}
