"""Files on disk -> patches, pairs and scenes. ADD A DATA SET: a file in this folder and a row in DATASETS.

`hynet.datasets.ubc` and its siblings are imported when they are first named.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any


def _lazy(module: str, function: str) -> Callable[..., Any]:
    def load(*args: Any, **kwargs: Any) -> Any:
        return getattr(__getattr__(module), function)(*args, **kwargs)

    return load


# name -> what gives its patches, sequences or scenes
DATASETS: dict[str, Callable[..., Any]] = {
    "ubc": _lazy("ubc", "load"),  # (folder, size) -> PatchSet; PhotoTour's sets and those `hynet patches` makes
    "hpatches": _lazy("hpatches", "load"),  # (folder, sequence) -> the 16 stacks of a sequence
    "synthetic": _lazy("synthetic", "patch_set"),  # (points, patches_per_point, seed) -> PatchSet
    "sequences": _lazy("sequences", "load"),  # (folder) -> photos with homographies, as Oxford's and HPatches'
    "scenes": _lazy("scenes", "load"),  # (folder) -> photos with cameras, as the Challenge's and Strecha's
}


def __getattr__(name: str) -> ModuleType:
    if name in (*DATASETS, "downloads", "example"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
