"""See why photos are missing from a model: how far keypoints and pairs got, and what to try.

Example: hynet doctor model/
         hynet doctor model/ --out doctor.html
         hynet doctor model-sift/ --compare model-hynet/     (two descriptors on the same keypoints)
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from .. import pages
from ..pages.doctor.comparison import ModelComparison, compare
from ..pages.doctor.examination import Examination, examine
from ..pages.doctor.page import page
from . import Report


def run(
    model: Annotated[Path, tyro.conf.Positional],
    *,
    compare_with: Annotated[Path | None, tyro.conf.arg(name="compare")] = None,
    database: Path | None = None,
    out: Path | None = None,
) -> Report:
    """Examine a model.

    Args:
        model: A folder from `hynet reconstruct --out`, or any COLMAP model, with its database.db in it or above it.
        compare_with: A second folder, to compare both side by side.
        database: The database, if it has another name or is elsewhere.
        out: A web page to write, with a graph of the pairs.
    """
    found = examine(model, database)
    if compare_with is None:
        return _report(found, out)
    return _report(compare(found, examine(compare_with)), out)


def _report(found: Examination | ModelComparison, out: Path | None) -> Report:
    if out is None:
        return Report(found.text(), found.data())
    pages.write(out, page(found))
    return Report(f"{found.text()}\n\nThe page is {out}.", {**found.data(), "page": str(out)})
