"""Find where new photos were taken in an existing reconstruction: the pose of each, or that it is not of this place.

Example: hynet localize query.jpg --map model/
         hynet localize queries/ --map model/ --out poses/ --json
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from ..errors import BadInput
from ..sfm.localisation import NEIGHBOURS, Map, locate_all
from . import Report
from .progress import bar


def run(
    queries: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="QUERY...")],
    *,
    map: Path,
    out: Path | None = None,
    features: Path | None = None,
    extractor: str | None = None,
    camera: str = "auto",
    neighbours: int = NEIGHBOURS,
) -> Report:
    """Localise photos.

    Args:
        queries: Photos, or folders of them.
        map: The folder of a reconstruction, as written by `hynet reconstruct`.
        out: A folder for NAME.json with the pose of each photo, and NAME.jpg with the map's points drawn into it;
            existing results of the same photo and map are not computed again.
        features: The map's features file, if another program made the map.
        extractor: What describes the queries, if the map's features were not made by `hynet extract`: weights, or a
            features file.
        camera: auto takes focal lengths from EXIF, or else from similar photos of the map; or a known camera as COLMAP
            writes it, MODEL,NUMBER,NUMBER...
        neighbours: Number of map photos to match each query with, the most similar ones.
    """
    if not queries:
        raise BadInput("no photos were given; name photos, or the folder that holds them.")
    here = Map(map, features=features, extractor=extractor, camera=camera, neighbours=neighbours)
    with bar() as progress:
        told = locate_all(queries, here, out, progress=progress)
    lines = [f"{name}: {_said(each)}" for name, each in told.items()]
    located = sum(each["located"] for each in told.values())
    return Report("\n".join([*lines, f"{located} of {len(told)} photos are of this place."]), {"queries": told})


def _said(each: dict[str, Any]) -> str:
    if not each["located"]:
        return each.get("why", f"not of this place ({each['inliers']} inliers)")
    pose = each["cam_from_world"]
    centre = [-sum(pose[row][axis] * pose[row][3] for row in range(3)) for axis in range(3)]
    place = ", ".join(f"{number:.3f}" for number in centre)
    return f"at ({place}), {each['inliers']} inliers, confidence {each['confidence']:.2f}"
