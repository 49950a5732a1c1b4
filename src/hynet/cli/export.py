"""Write a network as one file that runs without torch, checked to say the same.

Example: hynet export --model run/best.pt --to mine.onnx --ratio 0.9
         hynet match a.jpg b.jpg --model mine.onnx
"""

from __future__ import annotations

from pathlib import Path

from ..errors import need
from ..patches import SUPPORT_SIGMAS
from . import Report


def run(
    *,
    model: Path,
    to: Path,
    support: float = SUPPORT_SIGMAS,
    ratio: float | None = None,
    trained_on: str = "",
    licence: str = "",
) -> Report:
    """Export a checkpoint or published weights.

    Args:
        model: the weights.
        to: the file to write: .onnx, or .pt2 for torch.export.
        support: the width of a patch, in detector sigmas, that the weights were trained with.
        ratio: the ratio test that suits them.
        trained_on: what they were trained on, for `hynet info`.
        licence: under which they may be used, for `hynet info`.
    """
    need("torch", "train", "exporting")
    from ..exporting import export
    from ..loading import network

    told = {"support": support, "ratio": ratio, "trained on": trained_on, "licence": licence}
    difference = export(network(model), to, {key: str(value) for key, value in told.items() if value})
    text = f"{to} ({to.stat().st_size / 1e6:.1f} MB) says the same as {model} to {difference:.1g}."
    return Report(text, {"file": str(to), "difference": difference})
