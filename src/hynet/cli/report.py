"""Make one web page of many `hynet evaluate` results: sortable tables beside the paper's, with 95% intervals.

Example: hynet report results/ --out report.html
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import tyro

from .. import pages
from ..pages.report.page import page
from . import Report


def run(
    results: Annotated[tuple[Path, ...], tyro.conf.Positional] = (Path("results"),), out: Path = Path("report.html")
) -> Report:
    """Make the page.

    Args:
        results: Folders that `hynet evaluate --out` wrote into, or single JSON files.
        out: The page to write.
    """
    made = page(results, shlex.join(["hynet", "report", *map(str, results), "--out", str(out)]))
    pages.write(out, made.html)
    lines = [
        f"{len(made.files)} {'result' if len(made.files) == 1 else 'results'} -> {out}",
        *(f"left out: {path} {why}" for path, why in made.skipped.items()),
    ]
    return Report("\n".join(lines), {"page": str(out), "results": list(made.files), "skipped": dict(made.skipped)})
