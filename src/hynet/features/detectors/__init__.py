"""Photo -> Keypoints. ADD A DETECTOR: a file in this folder and a row in DETECTORS.

Every detector takes `max_keypoints` and `upright` when it is made, and `score_threshold` and `spread` where those are
asked for; a grey photo, and perhaps a mask, when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runtime.parts import FilePart, open_part
from ...runtime.plugins import with_plugins
from ...types import Detector

if TYPE_CHECKING:
    from .dog import DoG as DoG
    from .keynet import KeyNet as KeyNet

DETECTORS: dict[str, FilePart[Detector]] = with_plugins(
    "detectors",
    {
        "dog": FilePart("hynet.features.detectors.dog:DoG", "differences of Gaussians (Lowe 2004)"),
        "keynet": FilePart(
            "hynet.features.detectors.keynet:KeyNet",
            "learnt corners over a pyramid (Barroso-Laguna 2019)",
            files=("onnx", "torch"),
        ),
    },
    FilePart[Detector],
)


def open_detector(name_or_path: str | Path, **options: Any) -> Detector:
    """A detector by name, or by the path of its weights, such as a Key.Net of one's own."""
    return open_part(DETECTORS, name_or_path, "detector", **options)


def __getattr__(name: str) -> Any:
    """`hynet.detectors.DoG` and the other classes, imported when asked for."""
    for row in DETECTORS.values():
        if not row.package and row.where.endswith(f":{name}"):
            return row.imported()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
