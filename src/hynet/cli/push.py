"""Write the weights of a run as a file to share, with a model card beside it.

Example: hynet push runs/mine model.safetensors
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from ..errors import BadInput, need
from ..system.files import whole
from . import Report


def run(
    run_folder: Annotated[Path, tyro.conf.Positional],
    file: Annotated[Path, tyro.conf.Positional] = Path("model.safetensors"),
) -> Report:
    """Write safetensors and a card in Markdown, which say how the weights were trained and how good they are.

    Args:
        run_folder: what `hynet train --out` wrote; its best weights are taken, or its last where none were validated.
        file: the file to write; the card gets the same name with .md.
    """
    need("torch", "train", "reading a run")
    save_file = need("safetensors.torch", "train", "writing .safetensors").save_file
    from ..training import checkpoints

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
    data = {"weights": str(file), "card": str(card), "steps": position["step"], "validation": position["validation"]}
    return Report(f"{file} and {card}: {about['recipe']} after {position['step']} steps", data)


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
