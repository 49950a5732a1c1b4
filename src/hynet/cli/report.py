"""Make one web page of results and training runs: sortable tables beside the paper's, with 95% intervals, and curves.

Example: hynet report results/ --out report.html
         hynet report runs/a runs/b --out curves.html        loss, similarities and FPR@95 over the minutes
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import tyro

from .. import pages
from ..errors import plural
from ..pages.report.page import page
from ..pages.report.training import sentences
from . import Report


def run(
    places: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RESULT_OR_RUN...]")] = (
        Path("results"),
    ),
    *,
    out: Path = Path("report.html"),
) -> Report:
    """Make the page.

    Args:
        places: Folders that `hynet evaluate --out` wrote into, single JSON files of them, or run folders that
            `hynet train --out` wrote; by default results/.
        out: The page to write.
    """
    made = page(places, shlex.join(["hynet", "report", *map(str, places), "--out", str(out)]))
    pages.write(out, made.html)
    shown = [plural(len(made.files), "result")] if made.files or not made.trained else []
    shown += [plural(len(made.trained), "run")] if made.trained else []
    lines = [
        f"{' and '.join(shown)} -> {out}",
        *sentences(made.trained),
        *(f"left out: {path} {why}" for path, why in made.skipped.items()),
    ]
    data = {"page": str(out), "results": list(made.files), "skipped": dict(made.skipped), "runs": dict(made.trained)}
    return Report("\n".join(lines), data)
