"""Photo -> Keypoints. ADD A DETECTOR: a file in this folder and a row in DETECTORS.

Every detector takes `max_keypoints` and `upright` when it is made, and `score_threshold` and `spread` where those are
asked for; a grey photo, and perhaps a mask, when it is called.
"""

from __future__ import annotations

from ..system.plugins import Part, with_plugins
from ..types import Detector

DETECTORS: dict[str, Part[Detector]] = with_plugins(
    "detectors",
    {
        "dog": Part("hynet.detectors.dog:DoG", "differences of Gaussians (Lowe 2004)"),
        "keynet": Part("hynet.detectors.keynet:KeyNet", "learnt corners over a pyramid (Barroso-Laguna 2019)"),
    },
    Part[Detector],
)
