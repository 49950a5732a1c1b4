"""The matches in the database of a run folder -> a COLMAP model, a table and a point cloud there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import colmap, images
from ..colmap import Funnel, Model, NotReconstructed
from ..errors import UnreadableImage
from ..system import fingerprints
from ..system.files import whole
from ..types import Array, Progress, Table, silent
from .exact_tracks import exact
from .run_folder import write_json


@dataclass(frozen=True)
class Reconstructed:
    """The largest model that the photos gave, in numbers: the columns of the ETH benchmark."""

    model: str  # the folder
    photos: int
    registered: int
    points: int
    observations: int
    track_length: float
    observations_per_photo: float
    reprojection_error: float  # pixels, mean over points
    inlier_pairs: int
    inlier_matches: int
    unreadable: Mapping[str, str] = field(default_factory=dict)  # name -> why

    @classmethod
    def of(cls, model: Model, funnel: Funnel, out: Path, photos: int) -> Reconstructed:
        """A model and the database behind it, counted."""
        verified = [count for count in funnel.inliers.values() if count]
        return cls(
            model=str(out),
            photos=photos,
            registered=len(model.photos),
            points=len(model.xyz),
            observations=model.observations,
            track_length=model.track_length,
            observations_per_photo=model.observations / len(model.photos),
            reprojection_error=model.reprojection_error,
            inlier_pairs=len(verified),
            inlier_matches=sum(verified),
        )

    def table(self) -> Table:
        """One row, the photos that could not be read left out."""
        columns = [key for key in asdict(self) if key not in ("model", "unreadable")]
        return Table("Reconstruction", columns, {Path(self.model).name: asdict(self)})


def map_folder(
    out: Path,
    photos: Mapping[str, Path],
    unreadable: Mapping[str, str],
    mapper: str,
    known_cameras: bool,
    threads: int = 1,
    progress: Progress = silent,
    *,
    refine: bool = True,
) -> Reconstructed:
    """From disk, where the model there was made from the same matches. refine: locate keypoints more exactly."""
    funnel = colmap.read_funnel(out / "database.db")
    made_from = _digest(funnel, mapper, known_cameras, refine)
    table = out / "table.json"
    if table.exists() and all((out / name).exists() for name in colmap.MODEL_FILES):
        told = _earlier_table(table)
        if told.pop("made_from", None) == made_from:
            return Reconstructed(**{**told, "model": str(out), "photos": len(photos), "unreadable": dict(unreadable)})
    verified = {pair: count for pair, count in funnel.inliers.items() if count}
    try:
        mapped = _mapped(out / "database.db", mapper, known_cameras, threads, len(funnel.keypoints), progress)
    except NotReconstructed:
        raise NotReconstructed(
            f"the {len(funnel.keypoints)} photos overlap too little to be reconstructed, or show the scene from one "
            f"spot only: {len(verified)} of {len(funnel.matches)} pairs agree on a geometry; `hynet doctor {out}` says "
            "more."
        ) from None
    if refine:
        progress(0, len(photos), "refining")
        mapped = exact(mapped, out / "database.db", photos, known_cameras=known_cameras, threads=threads)
    model = colmap.as_arrays(mapped)
    done = replace(Reconstructed.of(model, funnel, out, len(photos)), unreadable=dict(unreadable))
    table.unlink(missing_ok=True)  # killed in between, it would vouch for files of two models
    colmap.write_model(mapped, out, _colours(model, photos))
    with whole(out / "table.md") as file:
        file.write_text(done.table().markdown() + "\n")
    write_json(table, {**asdict(done), "made_from": made_from})  # last: it vouches for the rest
    return done


def _earlier_table(path: Path) -> dict[str, Any]:
    """What the table of an earlier run says; one that was cut short says nothing, and the model is made again."""
    try:
        told = json.loads(path.read_text())
        names = {each.name for each in fields(Reconstructed)}
        return told if isinstance(told, dict) and told.keys() - {"made_from"} == names else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _mapped(database: Path, mapper: str, known_cameras: bool, threads: int, photos: int, progress: Progress) -> Any:
    """Points that only two photos see are left out, as COLMAP does, except where nothing can be mapped without."""
    asked = colmap.MappingTask(known_cameras=known_cameras, adjusted=True, threads=threads)
    try:
        return colmap.map_photos(database, mapper, asked, photos=photos, progress=progress)
    except NotReconstructed:
        again = replace(asked, two_view_tracks=True)
        return colmap.map_photos(database, mapper, again, photos=photos, progress=progress)


def _digest(funnel: Funnel, mapper: str, known_cameras: bool, refine: bool) -> str:
    pairs = sorted((*pair, count, funnel.inliers[pair]) for pair, count in funnel.matches.items())
    return fingerprints.values([list(funnel.keypoints.items()), pairs, mapper, known_cameras, refine])


def _colours(model: Model, photos: Mapping[str, Path]) -> Array:
    """(M, 3) uint8 RGB, the mean over the keypoints that see a point; black where its photos cannot be read."""
    total, count = np.zeros((len(model.xyz), 3)), np.zeros((len(model.xyz), 1))
    for photo in model.photos:
        try:
            pixels = images.read_colour(photos[photo.name])  # turned upright, as the keypoints are
        except UnreadableImage:
            continue
        width, height = photo.camera.size
        if pixels.shape[:2] != (height, width):
            continue
        seen = photo.points >= 0
        x, y = np.rint(photo.xy[seen]).astype(int).clip(0, (width - 1, height - 1)).T
        np.add.at(total, photo.points[seen], pixels[y, x])
        np.add.at(count, photo.points[seen], 1)
    return np.rint(total / np.maximum(count, 1)).astype(np.uint8)
