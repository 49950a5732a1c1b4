"""The weights of a run as a file to share, with a model card beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..features.descriptors import DESCRIPTORS, weights
from ..runtime.arrays import write_safetensors
from ..runtime.files import atomic_write
from . import checkpoints, materials

WARPED = ("shape", "joint")  # recipes whose validation is under random warps


@dataclass(frozen=True)
class Shared:
    """The exported weights of a run: the card written beside them, and their recipe, steps and validation."""

    card: Path | None
    recipe: str
    steps: int
    validation: Mapping[str, float]  # set -> FPR@95 in percent


def share(
    run_folder: Path, file: Path, sources: Path | None = None, *, checkpoint: Path | None = None, card: bool = True
) -> Shared:
    """Write the best weights of a run, or its last where none were validated, as .safetensors, and the card.

    sources: a CSV of scenes, their source and licence, for the card's bill of materials.
    checkpoint: of the run, in place of its best.
    """
    if file.suffix != ".safetensors":
        raise BadInput(f"shared weights are .safetensors, got {file}.")
    usual = (run_folder / checkpoints.BEST, run_folder / checkpoints.LAST)
    source = checkpoint or next((path for path in usual if path.exists()), None)
    if source is None:
        raise BadInput(f"no best.pt or last.pt in {run_folder}; give the folder of a training run.")
    content = checkpoints.read(source)
    if content["about"]["recipe"] == "keynet":
        raise BadInput(f"the detector of this run is {run_folder}/keynet.onnx; share that file.")
    about, position = content["about"], content["position"]
    bill = [] if sources is None else _bill(about, sources)
    state = content["network"]
    if about["recipe"] == "joint":
        network = weights.network(source)
        state = network.state_dict()
        about = about | {"dim": network.dim, "config": about["config"] | {"network": type(network).__name__}}
    write_safetensors(file, state, recipe=about["recipe"])
    page = file.with_suffix(".md") if card else None
    if page:
        with atomic_write(page) as temporary:
            temporary.write_text(_card(file.name, about, position, bill), encoding="utf-8")
    return Shared(page, about["recipe"], position["step"], position["validation"])


def _purpose(name: str, about: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return one line on the purpose of the weights, and lines of code or a command that use them."""
    if about["recipe"] == "shape":
        return "network for affine shapes: 32 x 32 grey patches to ellipses", [
            f"    hynet match a.jpg b.jpg --shape {name}"
        ]
    if about["recipe"] == "joint":
        return f"descriptor: 32 x 32 grey patches to unit vectors of {about['dim']} numbers", [
            f"    hynet match a.jpg b.jpg --model {name} --shape shape.onnx",
            "",
            "`shape.onnx` is the network for affine shapes trained with it, in the folder of the run: share it, too.",
        ]
    described = f"    vectors = descriptor.describe(patches)  # (N, S, S) uint8 -> (N, {about.get('dim', 128)})"
    use = [*_loading(name, about["config"]["network"]), described]
    return "descriptor: 32 x 32 grey patches to unit vectors", use


def _loading(name: str, network: str) -> list[str]:
    """Write the code that loads these weights; a network that is in none of our tables has to be given."""
    if ":" in network:
        module, _, made = network.rpartition(":")
        if module == "__main__" or not made.isidentifier():  # cannot be imported
            return [f'    descriptor = hynet.load("{name}", network=...)  # a new {made}']
        return [f"    from {module} import {made}", "", f'    descriptor = hynet.load("{name}", network={made}())']
    row = DESCRIPTORS.get(network)
    needed = [f"The network comes with the package `{row.package}`.", ""] if row and row.package else []
    return [*needed, f'    descriptor = hynet.load("{name}")']


def _bill(about: Mapping[str, Any], sources: Path) -> list[str]:
    """Every scene; other models that the run learnt from have scenes of their own."""
    sets = {Path(root): one["patches"] for root, one in about["data"].items()}
    lines = materials.bill_of_materials(materials.training_scenes(sets), materials.read_sources(sources))
    others = [about["config"].get(role) for role in ("start_from", "teacher", "descriptor", "shape")]
    more = [f"It learnt from `{name}` as well, whose own data belong to this bill." for name in others if name]
    return ["## Bill of materials", "", *lines, "", *more, *([""] if more else [])]


def _card(name: str, about: Mapping[str, Any], position: Mapping[str, Any], bill: Sequence[str]) -> str:
    """The model card: what a reader needs to know about the weights."""
    config = about["config"]
    what, use = _purpose(name, about)
    errors = [f"| {Path(path).name} | {error:.2f} |" for path, error in position["validation"].items()]
    data = [f"| {Path(path).name} | {one['patches']} | {one['points']} |" for path, one in about["data"].items()]
    warped = ", under random warps, in the shapes that are predicted" if about["recipe"] in WARPED else ""
    settings = [f"| {key} | {value} |" for key, value in config.items() if value is not None]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"Weights of a `{config.get('network', 'affnet')}` {what}. Trained with the "
            f"recipe `{about['recipe']}` of hynet {about['environment']['hynet']} for {position['step']} steps, "
            f"{position['seconds'] / 60:.0f} minutes.",
            "",
            *use,
            "",
            *(
                [f"## Error on validation sets{warped}", "", "| set | FPR@95 in % |", "|---|---|", *errors, ""]
                if errors
                else []
            ),
            "These sets chose the checkpoint: they are no test." if errors else "Not validated.",
            "",
            *["## Training data", "", "| set | patches | points |", "|---|---|---|", *data, ""],
            *bill,
            *["## Settings", "", "| | |", "|---|---|", *settings, ""],
            *["## Environment", "", *(f"- {key}: {value}" for key, value in about["environment"].items()), ""],
        ]
    )
