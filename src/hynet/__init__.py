"""HyNet local features: use them, train them, measure them.

    import hynet
    descriptor = hynet.load("rootsift")          # a name, or the path of a checkpoint or of published weights
    vectors = descriptor.describe(patches)       # (N, S, S) uint8 -> (N, 128) float32 unit rows

Names are imported when they are first used, so that `import hynet` costs nothing and using never loads torch.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import bench, benchmarks, datasets, descriptors, detectors, losses, metrics, mining, similarity
    from .descriptors.loading import load
    from .drawing import draw
    from .errors import HynetError
    from .extractors.folder import extract_all
    from .extractors.patchwise import Extractor
    from .matchers.nearest import match
    from .matchers.refinement import refine
    from .matchers.two_photos import match_photos
    from .matchers.verification import verify
    from .sfm.localisation import localize
    from .sfm.reconstruction import reconstruct
    from .training.run import train
    from .types import Features, Keypoints, Matches, PatchPairs, PatchSet, Table

__version__ = "0.2.0"

# ONNX Runtime collects telemetry from its import on, if this is not set before. Where it is too late for that,
# system/onnx_runtime.py does what is left.
if "onnxruntime" not in sys.modules:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Modules that moved can still be imported by the names they had.
__path__ += [f"{folder}/former" for folder in __path__]

# public name -> the module it lives in; a module itself lives in the package
_HOMES = {
    "load": "descriptors.loading",
    "Extractor": "extractors.patchwise",
    "extract_all": "extractors.folder",
    "draw": "drawing",
    "match": "matchers.nearest",
    "match_photos": "matchers.two_photos",
    "refine": "matchers.refinement",
    "verify": "matchers.verification",
    "reconstruct": "sfm.reconstruction",
    "localize": "sfm.localisation",
    "train": "training.run",
    "Features": "types",
    "Keypoints": "types",
    "Matches": "types",
    "PatchPairs": "types",
    "PatchSet": "types",
    "Table": "types",
    "HynetError": "errors",
}
_MODULES = ("bench", "benchmarks", "datasets", "descriptors", "detectors", "losses", "metrics", "mining", "similarity")

__all__ = [
    "Extractor",
    "Features",
    "HynetError",
    "Keypoints",
    "Matches",
    "PatchPairs",
    "PatchSet",
    "Table",
    "bench",
    "benchmarks",
    "datasets",
    "descriptors",
    "detectors",
    "draw",
    "extract_all",
    "load",
    "localize",
    "losses",
    "match",
    "match_photos",
    "metrics",
    "mining",
    "reconstruct",
    "refine",
    "similarity",
    "train",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if name in ("losses", "mining"):
        from .errors import need

        need("torch", "train", f"hynet.{name}")
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
