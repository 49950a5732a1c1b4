"""What is installed and what there is to choose from: versions, models, descriptors, losses.

Example: hynet info
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .. import __version__
from ..descriptors import DESCRIPTORS
from ..descriptors.loading import models
from ..descriptors.onnx import OnnxEngine
from ..losses import LOSSES
from ..types import Table
from . import Report

# package -> the extra that brings it, None for the core
PACKAGES = {
    "numpy": None,
    "opencv-contrib-python-headless": None,
    "onnxruntime": None,
    "pydegensac": None,
    "poselib": None,
    "torch": "train",
    "pycolmap": "sfm",
}


def run() -> Report:
    """Print versions and tables."""
    versions = {"hynet": __version__, "python": platform.python_version()} | {p: _version(p) for p in PACKAGES}
    descriptors = {name: row.about for name, row in DESCRIPTORS.items()}
    losses = {name: row.summary() for name, row in LOSSES.items()}
    shown = {
        name: {"version": number or f"not installed: pip install '{_bringing(name)}'"}
        for name, number in versions.items()
    }
    shipped = _models()
    tables = [
        Table("Versions", ["version"], shown),
        Table("Models", ["dimension", "trained on", "licence", "file"], shipped),
        Table("Descriptors", ["what"], {name: {"what": about} for name, about in descriptors.items()}),
        Table("Losses", ["what"], {name: {"what": about} for name, about in losses.items()}),
    ]
    text = "\n\n".join(table.markdown() for table in tables)
    return Report(text, {"versions": versions, "models": shipped, "descriptors": descriptors, "losses": losses})


def _models() -> dict[str, dict[str, Any]]:
    """The models that ship, with what their files say of themselves."""
    told = {}
    for name, path in models().items():
        engine = OnnxEngine(path)
        told[name] = {"dimension": engine.dim, **engine.about, "file": str(path)}
    return told


def _bringing(package: str) -> str:
    extra = PACKAGES[package]
    return f"hynet-features[{extra}]" if extra else "hynet-features"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
