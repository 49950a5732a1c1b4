"""Photo -> Keypoints. ADD A DETECTOR: a file in this folder and a row in DETECTORS.

Every detector takes `max_keypoints` and `upright` when it is made, and a grey photo when it is called.
"""

from __future__ import annotations

from collections.abc import Callable

from ..types import Detector
from .dog import DoG
from .keynet import KeyNet

DETECTORS: dict[str, Callable[..., Detector]] = {"dog": DoG, "keynet": KeyNet}
