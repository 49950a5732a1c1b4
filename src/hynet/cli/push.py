"""Write the weights of a run as a file to share, with a model card beside it.

Example: hynet push runs/mine model.safetensors
         hynet push runs/mine model.safetensors --sources sources.csv      a bill of materials in the card
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ..errors import need
from . import Report


def run(
    run_folder: Annotated[Path, tyro.conf.Positional],
    file: Annotated[Path, tyro.conf.Positional] = Path("model.safetensors"),
    *,
    sources: Path | None = None,
) -> Report:
    """Write safetensors and a card in Markdown that says how the weights were trained and how good they are.

    Args:
        run_folder: the folder given to `hynet train --out`; its best weights are used, or its last if none were
            validated.
        file: the file to write; the card gets the same name with .md.
        sources: a CSV with the columns scene, source and licence (others are shown as they are) and one row per scene
            of the training sets; the card then lists every scene with its photos, source and licence.
    """
    need("torch", "train", "reading a run")
    from ..training import card

    shared = card.share(run_folder, file, sources)
    data = {"weights": str(file), "card": str(shared.card), "steps": shared.steps, "validation": shared.validation}
    return Report(f"{file} and {shared.card}: {shared.recipe} after {shared.steps} steps", data)
