"""See a reconstruction: its points and cameras in one web page that needs no network.

Example: hynet view model/ --out view.html
         hynet view model/ --rerun                (view.rrd, for people who have Rerun)
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from .. import pages
from ..pages import view
from ..sfm.colmap.reading import read_model
from ..sfm.run_folder import folder_of_photos
from . import Report


def run(
    model: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path | None = None,
    photos: Path | None = None,
    max_points: int = view.MOST_POINTS,
    rerun: bool = False,
) -> Report:
    """Show a model.

    Args:
        model: A folder with a COLMAP model: cameras, images and points3D.
        out: The file to write; view.html, or view.rrd with --rerun.
        photos: The folder of the photos, for thumbnails at the cameras; by default the one used by `hynet reconstruct`.
        max_points: Maximum number of points on the page, drawn at random.
        rerun: Write a Rerun recording of all points in place of the page.
    """
    found = read_model(model)
    out = out or Path("view.rrd" if rerun else "view.html")
    if rerun:
        view.record(found, str(model), out)
    else:
        folder = photos or folder_of_photos(model)
        named = None if folder is None else {photo.name: folder / photo.name for photo in found.photos}
        pages.write(out, view.page(found, str(model), most=max_points, photos=named))
    data = {"photos": len(found.photos), "points": len(found.xyz), "page": str(out)}
    how = f"`rerun {out}` opens it" if rerun else "open it in a browser"
    return Report(f"{len(found.photos)} photos, {len(found.xyz):,} points -> {out} ({how})", data)
