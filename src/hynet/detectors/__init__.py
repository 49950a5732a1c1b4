"""Photo -> Keypoints. ADD A DETECTOR: a file in this folder and a row in DETECTORS.

Every detector takes `max_keypoints` and `upright` when it is made, and a grey photo when it is called.
"""

from __future__ import annotations

from .dog import DoG

DETECTORS = {"dog": DoG}
