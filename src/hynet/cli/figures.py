"""Draw the paper's figures from live code, as SVG and PNG, each with a caption.

Figures 1, 2b, 3 and 5b need no input; 2a needs a patch set; 4, 5a, 5c and A need `hynet ablate rivals`, `grid`,
`losses` and `sosr`. For a figure that cannot be drawn, a sentence says what is missing.

Example: hynet figures --out figures/
         hynet figures --out figures/ --data liberty/ --batches 1000 --model hardnet.pth,sosnet.pth --study study/
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ..paper.figures.drawing import Sources, draw
from . import Report
from .progress import bar


def run(
    *, out: Path, model: str = "default", data: Path | None = None, study: Path | None = None, batches: int = 100
) -> Report:
    """Draw them.

    Args:
        out: the folder for fig1.svg, fig1.png and so on, and figures.md with all captions.
        model: one or more models, separated by commas, for Fig. 2a; the first network among them for Fig. 1 and 3.
        data: the patch set whose batches Fig. 2a is measured on.
        study: a folder written by `hynet ablate`.
        batches: number of batches of 1,024 patches for Fig. 2a; the paper has 1,000.
    """
    words = ["hynet", "figures", "--out", str(out)]
    words += ["--model", model] if model != "default" else []
    words += ["--data", str(data), "--batches", str(batches)] if data is not None else []
    words += ["--study", str(study)] if study is not None else []
    with bar() as progress:
        models = [name for name in model.split(",") if name] or ["default"]
        found = draw(out, Sources(models, data, study, batches, progress), shlex.join(words))
    lines = [f"{name} -> {what}" if isinstance(what, Path) else what for name, what in found.items()]
    return Report("\n".join(lines), {"figures": {name: str(what) for name, what in found.items()}})
