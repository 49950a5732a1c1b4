"""The matches in the database of a run folder -> a COLMAP model, a table and a point cloud there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import images
from ..errors import UnreadableImage
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..types import Array, Progress, Table, silent
from . import colmap
from .colmap import Funnel, Model, NotReconstructed
from .exact_tracks import SCRATCH, exact
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
    aligned: Mapping[str, Path] | None = None,
) -> Reconstructed:
    """From disk, where the model there was made from the same matches.

    aligned: photos with which the model is refined once it is mapped and written; None: it is not.
    """
    shutil.rmtree(out / SCRATCH, ignore_errors=True)  # of a run that was killed while it refined
    funnel = colmap.read_funnel(out / "database.db")
    mapped_from = _digest(funnel, mapper, known_cameras)
    made_from = mapped_from if aligned is None else f"{mapped_from}, refined"
    there = _earlier_table(out / "table.json") if all((out / name).exists() for name in colmap.MODEL_FILES) else {}
    known_as = there.pop("made_from", None)
    if known_as == made_from:
        return Reconstructed(**{**there, "model": str(out), "photos": len(photos), "unreadable": dict(unreadable)})

    def write(model: Any, made_from: str) -> Reconstructed:
        arrays = colmap.as_arrays(model)
        done = replace(Reconstructed.of(arrays, funnel, out, len(photos)), unreadable=dict(unreadable))
        (out / "table.json").unlink(missing_ok=True)  # killed in between, it would vouch for files of two models
        colmap.write_model(model, out, _colours(arrays, photos))
        with atomic_write(out / "table.md") as file:
            file.write_text(done.table().markdown() + "\n", encoding="utf-8")
        write_json(out / "table.json", {**asdict(done), "made_from": made_from})  # last: it vouches for the rest
        return done

    if aligned is None or known_as != mapped_from:
        done = write(_mapped(out, mapper, known_cameras, threads, funnel, progress), mapped_from)
    if aligned is not None:
        refined = exact(
            out, out / "database.db", aligned, known_cameras=known_cameras, threads=threads, progress=progress
        )
        done = write(refined, made_from)
    return done


def _earlier_table(path: Path) -> dict[str, Any]:
    """What the table of an earlier run says; one that was cut short says nothing, and the model is made again."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        names = {each.name for each in fields(Reconstructed)}
        return told if isinstance(told, dict) and told.keys() - {"made_from"} == names else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _mapped(out: Path, mapper: str, known_cameras: bool, threads: int, funnel: Funnel, progress: Progress) -> Any:
    """Points that only two photos see are left out, as COLMAP does, except where nothing can be mapped without."""
    asked = colmap.MappingTask(known_cameras=known_cameras, adjusted=True, threads=threads)
    photos, database = len(funnel.keypoints), out / "database.db"
    try:
        try:
            return colmap.map_photos(database, mapper, asked, photos=photos, progress=progress)
        except NotReconstructed:
            again = replace(asked, two_view_tracks=True)
            return colmap.map_photos(database, mapper, again, photos=photos, progress=progress)
    except NotReconstructed:
        verified = sum(count > 0 for count in funnel.inliers.values())
        raise NotReconstructed(
            f"the {photos} photos overlap too little to be reconstructed, or show the scene from one "
            f"spot only: {verified} of {len(funnel.matches)} pairs agree on a geometry; `hynet doctor {out}` says "
            "more."
        ) from None


def _digest(funnel: Funnel, mapper: str, known_cameras: bool) -> str:
    pairs = sorted((*pair, count, funnel.inliers[pair]) for pair, count in funnel.matches.items())
    return fingerprints.values([list(funnel.keypoints.items()), pairs, mapper, known_cameras])


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
