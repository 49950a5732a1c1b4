"""Show what is installed and what there is to choose from: versions, models, and all tables, including plug-ins.

Example: hynet info
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .. import __version__
from ..datasets import DATASETS
from ..evaluation import BENCHMARKS
from ..features.descriptors import DESCRIPTORS, ENGINES
from ..features.detectors import DETECTORS
from ..features.extractors import EXTRACTORS
from ..features.models import KINDS, shipped
from ..losses import LOSSES
from ..matching import MATCHERS
from ..runtime.machine import cache_folder, settings_folder
from ..runtime.onnx_runtime import session
from ..runtime.plugins import BrokenPlugin, Part
from ..types import Table
from . import Report, terminal_width

# Every table, with the rows that packages add
TABLES: dict[str, Mapping[str, Part[Any]]] = {
    "descriptors": DESCRIPTORS,
    "losses": LOSSES,
    "detectors": DETECTORS,
    "extractors": EXTRACTORS,
    "matchers": MATCHERS,
    "engines": ENGINES,
    "datasets": DATASETS,
    "benchmarks": BENCHMARKS,
}

# package -> the extra that brings it, None for the core
PACKAGES = {
    "numpy": None,
    "opencv-contrib-python-headless": None,
    "onnxruntime": None,
    "pydegensac": None,
    "poselib": None,
    "torch": "train",
    "pycolmap": "sfm",
    "pillow-heif": "heic",
    "distributed": "cluster",
    "pyarrow": "cluster",
    "faiss-cpu": "faiss",
}


def run() -> Report:
    """Print versions and tables."""
    versions = {"hynet": __version__, "python": platform.python_version()} | {p: _version(p) for p in PACKAGES}
    shown = {
        name: {"version": number or f"not installed: pip install '{_bringing(name)}'"}
        for name, number in versions.items()
    }
    models = _models()
    places = {"cache": str(cache_folder()), "settings": str(settings_folder())}
    parts = {group: {name: _summary(row) for name, row in table.items()} for group, table in TABLES.items()}
    tables = [
        Table("Versions", ["version"], shown),
        Table("Places", ["folder"], {name: {"folder": folder} for name, folder in places.items()}),
        Table("Models", ["kind", "dimension", "trained on", "licence", "file"], models),
        *(
            Table(group.capitalize(), ["what"], {name: {"what": about} for name, about in rows.items()})
            for group, rows in parts.items()
        ),
    ]
    text = "\n\n".join(table.markdown(terminal_width()) for table in tables)
    return Report(text, {"versions": versions, "places": places, "models": models, **parts})


def _summary(row: Part[Any]) -> str:
    """Return the summary of a row; a plug-in that cannot be imported is called broken, and stops nothing."""
    try:
        return row.summary()
    except BrokenPlugin as error:
        return f"broken: {error}"


def _models() -> dict[str, dict[str, Any]]:
    """The models that ship, with what their files say of themselves."""
    told = {}
    for kind in dict.fromkeys(KINDS.values()):
        for name, path in shipped(kind).items():
            opened = session(path, threads=1)
            dimension = opened.get_outputs()[0].shape[-1] if kind == "descriptor" else None
            about = opened.get_modelmeta().custom_metadata_map
            told[name] = {"kind": kind, "dimension": dimension, **about, "file": str(path)}
    return told


def _bringing(package: str) -> str:
    extra = PACKAGES[package]
    return f"hynet-features[{extra}]" if extra else "hynet-features"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
