"""Weights that ship: NAME.onnx to use and NAME.safetensors to train on, each with its card, NAME.md."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
KINDS = {
    "default": "descriptor",
    "default-float": "descriptor",
    "light": "descriptor",
    "commercial": "descriptor",
    "keynet": "detector",
    "shape": "shape",
}
OTHER_NAMES = {"default-int8": "default"}  # what `default` was called before it was in 8-bit integers
IN_FLOATS = "-float"  # ends the name of the same network in floats, which shares its weights for torch


def shipped(kind: str) -> dict[str, Path]:
    """The models of one kind: name -> its .onnx file, models that have a second name twice."""
    names = {name: name for name in KINDS} | OTHER_NAMES
    return {name: FOLDER / f"{own}.onnx" for name, own in names.items() if KINDS[own] == kind}


def own_name(model: str | Path) -> str:
    """Replace the second name of a model that ships by its first; anything else stays."""
    return OTHER_NAMES.get(str(model), str(model))


def weights_for_torch(onnx: Path) -> Path:
    """Path of the weights for torch of an .onnx file, whether that is in floats or in integers."""
    stem = onnx.stem.removesuffix(IN_FLOATS) if onnx.parent == FOLDER else onnx.stem
    return onnx.with_name(f"{stem}.safetensors")
