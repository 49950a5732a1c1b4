"""What ships: weights trained here, NAME.onnx to use and NAME.safetensors to train on, each with its card, NAME.md."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
KINDS = {"default": "descriptor", "default-int8": "descriptor", "light": "descriptor", "keynet": "detector"}


def shipped(kind: str) -> dict[str, Path]:
    """The models of one kind: name -> its .onnx file."""
    return {name: FOLDER / f"{name}.onnx" for name, each in KINDS.items() if each == kind}
