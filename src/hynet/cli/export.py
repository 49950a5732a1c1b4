"""Write a network as one file that runs without torch, checked to say the same.

Example: hynet export --model run/best.pt --to mine.onnx --ratio 0.9
         hynet export --model run/best.pt --to mine-int8.onnx --ratio 0.9 --int8 sets/liberty
         hynet match a.jpg b.jpg --model mine.onnx
         hynet export --model affnet.pth --to affnet.onnx      (for --shape affnet.onnx)
"""

from __future__ import annotations

from pathlib import Path

from ..errors import need
from ..patches import SUPPORT_SIGMAS
from ..types import silent
from . import Report


def run(
    *,
    model: Path,
    to: Path,
    int8: Path | None = None,
    support: float = SUPPORT_SIGMAS,
    ratio: float | None = None,
    trained_on: str = "",
    licence: str = "",
) -> Report:
    """Export a checkpoint or published weights: of descriptors, or of AffNet for `--shape`.

    Args:
        model: the weights.
        to: the file to write: .onnx, or .pt2 for torch.export.
        int8: write 8-bit integers, twice as fast on a CPU, with ranges from the patches of this set.
        support: the width of a patch, in detector sigmas, that the weights were trained with.
        ratio: the ratio test that suits them.
        trained_on: what they were trained on, for `hynet info`.
        licence: under which they may be used, for `hynet info`.
    """
    need("torch", "train", "exporting")
    from ..descriptors.loading import models, network, read_state
    from ..detectors import affnet
    from ..export import affine_network
    from ..export.descriptors import export, export_int8

    told = {"support": support, "ratio": ratio, "trained on": trained_on, "licence": licence}
    about = {key: str(value) for key, value in told.items() if value}
    if str(model) not in models() and affnet.recognised(state := read_state(model)):
        difference = affine_network.export(affnet.from_state(state, str(model)), to, about)
        said, found = f"says the same as {model} to {difference:.1g}", {"difference": difference}
    elif int8 is None:
        difference = export(network(model), to, about)
        said, found = f"says the same as {model} to {difference:.1g}", {"difference": difference}
    else:
        from ..datasets import find_patches

        cosine = export_int8(network(model), to, find_patches(int8).load(int8, 32, silent).patches, about)
        said, found = f"agrees with {model} to a cosine of {cosine:.5f}", {"cosine": cosine}
    return Report(f"{to} ({to.stat().st_size / 1e6:.1f} MB) {said}.", {"file": str(to), **found})
