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
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, losses
    from . import evaluation as benchmarks
    from .errors import HynetError
    from .features import descriptors, detectors
    from .features.descriptors.loading import load
    from .features.extractors.patchwise import Extractor
    from .features.folder import extract_all
    from .geometry import metrics
    from .images.drawing import draw
    from .losses import mining, similarity
    from .matching.nearest import match
    from .matching.refinement import refine
    from .matching.two_photos import match_photos
    from .matching.verification import verify
    from .sfm.localisation import localize
    from .sfm.reconstruct import reconstruct
    from .training.train import train
    from .types import Features, Keypoints, Matches, PatchPairs, PatchSet, Table

__version__ = "0.2.0"

# ONNX Runtime collects telemetry from its import on, if this is not set before. Where it is too late for that,
# runtime/onnx_runtime.py does what is left.
if "onnxruntime" not in sys.modules:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# public name -> the module it lives in
_HOMES = {
    "load": "features.descriptors.loading",
    "Extractor": "features.extractors.patchwise",
    "extract_all": "features.folder",
    "draw": "images.drawing",
    "match": "matching.nearest",
    "match_photos": "matching.two_photos",
    "refine": "matching.refinement",
    "verify": "matching.verification",
    "reconstruct": "sfm.reconstruct",
    "localize": "sfm.localisation",
    "train": "training.train",
    "Features": "types",
    "Keypoints": "types",
    "Matches": "types",
    "PatchPairs": "types",
    "PatchSet": "types",
    "Table": "types",
    "HynetError": "errors",
}
# public module -> where it lies; `import hynet.descriptors` works as `hynet.descriptors` does
_MODULES = {
    "benchmarks": "evaluation",
    "datasets": "datasets",
    "descriptors": "features.descriptors",
    "detectors": "features.detectors",
    "losses": "losses",
    "metrics": "geometry.metrics",
    "mining": "losses.mining",
    "similarity": "losses.similarity",
}

__all__ = [
    "Extractor",
    "Features",
    "HynetError",
    "Keypoints",
    "Matches",
    "PatchPairs",
    "PatchSet",
    "Table",
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
        return importlib.import_module(f".{_MODULES[name]}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


class _PublicModules(MetaPathFinder, Loader):
    """Import finder that gives the modules of `_MODULES`, and what they hold, under their public names."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        home = self._home(fullname)
        return None if home == fullname else ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._home(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it ran under its own name, whose spec the import system has just overwritten."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state

    @staticmethod
    def _home(fullname: str) -> str:
        package, _, name = fullname.partition(".")
        public, dot, rest = name.partition(".")
        return f"{package}.{_MODULES[public]}{dot}{rest}" if package == __name__ and public in _MODULES else fullname


sys.meta_path.insert(0, _PublicModules())
