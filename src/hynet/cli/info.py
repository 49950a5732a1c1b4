"""What is installed and what there is to choose from: versions, models, descriptors, losses.

Example: hynet info
"""

from __future__ import annotations

import ast
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__
from ..descriptors import DESCRIPTORS
from ..descriptors.loading import models
from ..descriptors.onnx import OnnxEngine
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
    losses = _losses()
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


def _losses() -> dict[str, str]:
    """Loss -> the first line of its docstring, read from the source: importing it would load torch, for seconds."""
    tree = ast.parse(Path(__file__).parents[1].joinpath("losses.py").read_text())
    functions = {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}
    assigned = {ast.unparse(node.target): node.value for node in tree.body if isinstance(node, ast.AnnAssign)}
    table = assigned["LOSSES"]
    assert isinstance(table, ast.Dict)
    names = [str(key.value) for key in table.keys if isinstance(key, ast.Constant)]
    return {name: functions[name].split("\n")[0] for name in names}
