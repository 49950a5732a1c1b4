"""Draw the curves of one or more training runs in one picture: loss, similarities, FPR@95.

Example: hynet plot runs/a runs/b --out curves.png
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ..errors import BadInput
from ..training import curves, logbook
from . import Report

FORMATS = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")


def run(runs: Annotated[tuple[Path, ...], tyro.conf.Positional], out: Path = Path("curves.png")) -> Report:
    """Draw curves over the minutes of training.

    Args:
        runs: run folders written by `hynet train`.
        out: the picture to write; its suffix chooses the format.
    """
    if not runs:
        raise BadInput("give at least one run folder, as `hynet train --out` wrote it.")
    if out.suffix.lower() not in FORMATS:
        raise BadInput(f"cannot draw curves as {out.name!r}; let its name end in .png, .svg or .pdf.")
    logs = {str(folder): logbook.read(folder) for folder in runs}
    curves.draw(logs, out)
    best = {name: curves.best(lines) for name, lines in logs.items()}
    told = [f"{name}: best mean FPR@95 {error:.2f}%" for name, error in best.items() if error is not None]
    return Report("\n".join([f"curves of {len(logs)} runs -> {out}", *told]), {"picture": str(out), "best": best})
