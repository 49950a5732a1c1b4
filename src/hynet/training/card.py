"""The weights of a run as a file to share, with a model card beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadInput, need
from ..system.files import whole
from . import checkpoints


@dataclass(frozen=True)
class Shared:
    """What was written, and from which point of the run."""

    card: Path
    recipe: str
    steps: int
    validation: Mapping[str, float]  # set -> FPR@95 in percent


def share(run_folder: Path, file: Path) -> Shared:
    """Write the best weights of a run, or its last where none were validated, as .safetensors, and the card."""
    save_file = need("safetensors.torch", "train", "writing .safetensors").save_file
    if file.suffix != ".safetensors":
        raise BadInput(f"shared weights are .safetensors, got {file}.")
    source = next((path for path in _checkpoints(run_folder) if path.exists()), None)
    if source is None:
        raise BadInput(f"no best.pt or last.pt in {run_folder}; give the folder of a training run.")
    content = checkpoints.read(source)
    about, position = content["about"], content["position"]
    weights = {name: value.contiguous() for name, value in content["network"].items()}
    with whole(file) as temporary:
        save_file(weights, temporary, metadata={"format": "pt", "recipe": about["recipe"]})
    card = file.with_suffix(".md")
    with whole(card) as temporary:
        temporary.write_text(_card(file.name, about, position))
    return Shared(card, about["recipe"], position["step"], position["validation"])


def _checkpoints(folder: Path) -> list[Path]:
    return [folder / "best.pt", folder / "last.pt"]


def _card(name: str, about: Mapping[str, Any], position: Mapping[str, Any]) -> str:
    """What a stranger needs to know about the weights."""
    config = about["config"]
    errors = [f"| {Path(path).name} | {error:.2f} |" for path, error in position["validation"].items()]
    data = [f"| {Path(path).name} | {one['patches']} | {one['points']} |" for path, one in about["data"].items()]
    settings = [f"| {key} | {value} |" for key, value in config.items() if value is not None]
    return "\n".join(
        [
            f"# {name}",
            "",
            f"Weights of a `{config['network']}` descriptor: 32 x 32 grey patches to unit vectors. Trained with the "
            f"recipe `{about['recipe']}` of hynet {about['environment']['hynet']} for {position['step']} steps, "
            f"{position['seconds'] / 60:.0f} minutes.",
            "",
            f'    descriptor = hynet.load("{name}")',
            "    vectors = descriptor.describe(patches)  # (N, S, S) uint8 -> (N, 128)",
            "",
            *(["## Error on validation sets", "", "| set | FPR@95 in % |", "|---|---|", *errors, ""] if errors else []),
            "These sets chose the checkpoint: they are no test." if errors else "Not validated.",
            "",
            *["## Training data", "", "| set | patches | points |", "|---|---|---|", *data, ""],
            *["## Settings", "", "| | |", "|---|---|", *settings, ""],
            *["## Environment", "", *(f"- {key}: {value}" for key, value in about["environment"].items()), ""],
        ]
    )
