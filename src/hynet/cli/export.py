"""Write a network as one file that runs without torch, and check that its output is the same; or weights to share.

Example: hynet export --model run/best.pt --to mine.onnx --ratio 0.9
         hynet export --model run/best.pt --to mine-int8.onnx --ratio 0.9 --int8 sets/liberty
         hynet match a.jpg b.jpg --model mine.onnx
         hynet export --model default --to m.openvino
         hynet export --model affnet.pth --to affnet.onnx      (for --shape affnet.onnx; with --int8, twice as fast)
         hynet export --model keynet --to keynet.pt2
         hynet export --model run/ --to model.safetensors --card              the best weights, with a model card
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

from ..errors import BadInput, need, plural
from ..features.detectors.affine_network import learnt_from
from ..images.patches import SUPPORT_SIGMAS
from ..types import Array, silent
from . import Report


def run(
    *,
    model: Path,
    to: Path,
    int8: Path | None = None,
    support: float | None = None,
    ratio: float | None = None,
    trained_on: str = "",
    licence: str = "",
    card: bool = False,
    sources: Path | None = None,
) -> Report:
    """Export a checkpoint or published weights: of descriptors, of AffNet for `--shape`, or of the detector Key.Net.

    Args:
        model: the weights; for .safetensors the folder of a training run, whose best weights are written.
        to: the file to write: .onnx, .pt2 for torch.export, .openvino, a folder with model.xml and model.bin, or
            .safetensors.
        int8: quantise to 8-bit integers (int8), at least twice as fast (HyNet, LightNet, DesDis or AffNet); the ranges
            come from patches of this set.
        support: patch width, in detector sigmas, that the weights were trained with; by default the usual one, or the
            one recorded in weights of `hynet train shape`.
        ratio: the ratio for the ratio test that suits the weights.
        trained_on: what the weights were trained on, for `hynet info`.
        licence: the licence of the weights, for `hynet info`.
        card: with .safetensors, write a card beside it, MODEL.md: how the weights were trained and how good they are.
        sources: a CSV with the columns scene, source and licence and one row per scene of the training sets, for the
            bill of materials of the card.
    """
    to = Path("model.safetensors") if str(to) == "safetensors" else to
    if to.suffix == ".safetensors":
        if any((int8, support, ratio, trained_on, licence)):
            raise BadInput("weights to share keep what the run noted; leave out all options but --card and --sources.")
        return _share(model, to, card, sources)
    if card or sources:
        raise BadInput("a card goes with weights to share; give --to a name that ends in .safetensors.")
    return _without_torch(model, to, int8, support, ratio, {"trained on": trained_on, "licence": licence})


def _without_torch(
    model: Path, to: Path, int8: Path | None, support: float | None, ratio: float | None, noted: dict[str, str]
) -> Report:
    """Write a file that runs without torch, check it, and report its size."""
    if ratio is not None and not 0 < ratio <= 1:
        raise BadInput(f"the ratio must be above 0 and at most 1, got {ratio:g}; 0.9 is usual.")
    if support is not None and not 0 < support < inf:
        raise BadInput(f"the support must be more than 0 sigmas, got {support:g}; {SUPPORT_SIGMAS:g} is usual.")
    need("torch", "train", "exporting")
    from ..features.export import export_weights, export_weights_int8

    if support is None:
        support = learnt_from(model) or SUPPORT_SIGMAS
    told = {"support": support, "ratio": ratio, **noted}
    about = {key: str(value) for key, value in told.items() if value}
    found: dict[str, Any]
    if int8 is None:
        kind, difference = export_weights(model, to, about)
        said, found = f"{kind}, says the same as {model} to {difference:.1g}", {"difference": difference}
    else:
        from ..datasets import find_patches

        def patches() -> Array:
            return find_patches(int8).load(int8, 32, silent).patches

        kind, measure, value = export_weights_int8(model, to, patches, about)
        said, found = f"{kind}, agrees with {model} to a {measure} of {value:.5f}", {measure: value}
    if to.suffix == ".onnx":
        opset = need("onnx", "train", "reading ONNX").load(to).opset_import[0].version
        said, found = f"{said}, ONNX opset {opset}", found | {"opset": opset}
    files = to.rglob("*") if to.is_dir() else [to]
    size = sum(file.stat().st_size for file in files) / 1e6
    return Report(f"{to} ({size:.1f} MB): {said}.", {"file": str(to), **found})


def _share(run_folder: Path, to: Path, card: bool, sources: Path | None) -> Report:
    """Write the weights of a run, with a card if one is wanted."""
    need("torch", "train", "reading a run")
    from ..training.card import share

    if sources and not card:
        raise BadInput("--sources are for the card; add --card.")
    shared = share(run_folder, to, sources, card=card)
    written = f"{to} and {shared.card}" if shared.card else str(to)
    card_file = None if shared.card is None else str(shared.card)
    data = {"file": str(to), "card": card_file, "steps": shared.steps, "validation": shared.validation}
    return Report(f"{written}: {shared.recipe} after {plural(shared.steps, 'step')}", data)
