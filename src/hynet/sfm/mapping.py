"""Mapping the matches in the database of a folder: a COLMAP model, a table and a point cloud there."""

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
from .run_folder import DATABASE, write_json


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
        """Count a model and the database behind it."""
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
        """Return a table of one row, without the photos that could not be read."""
        columns = [key for key in asdict(self) if key not in ("model", "unreadable")]
        return Table("Reconstruction", columns, {Path(self.model).name: asdict(self)})


def map_folder(
    out: Path,
    photos: Mapping[str, Path],
    unreadable: Mapping[str, str],
    *,
    mapper: str,
    known_cameras: bool,
    threads: int = 1,
    aligned: Mapping[str, Path] | None = None,
    progress: Progress = silent,
) -> Reconstructed:
    """Map the matches in the database of a folder and refine the model; a step whose result is there is skipped.

    aligned: photos with which the model is refined once it is mapped and written; None: it is not.
    """
    progress(0, len(photos) - len(unreadable), "mapping")
    shutil.rmtree(out / SCRATCH, ignore_errors=True)  # of a run that was killed while it refined
    folder = _ModelFolder(out, photos, unreadable, colmap.read_funnel(out / DATABASE))
    mapped = folder.stamp_of(mapper, known_cameras)
    wanted = mapped if aligned is None else f"{mapped}, refined"
    if folder.stamp not in (mapped, wanted):
        folder.write(_mapped(out, mapper, known_cameras, threads, folder.funnel, progress), mapped)
    if folder.stamp != wanted and aligned is not None:
        cameras: Any = {"known_cameras": known_cameras, "threads": threads, "progress": progress}
        folder.write(exact(out, out / DATABASE, aligned, **cameras), wanted)
    return folder.reconstructed()


@dataclass(frozen=True)
class _ModelFolder:
    """The files of a model and the table that vouches for them, with a stamp that says what they were made from."""

    out: Path
    photos: Mapping[str, Path]
    unreadable: Mapping[str, str]
    funnel: Funnel

    def stamp_of(self, mapper: str, known_cameras: bool) -> str:
        """Return the stamp of a model of these matches."""
        pairs = sorted((*pair, count, self.funnel.inliers[pair]) for pair, count in self.funnel.matches.items())
        return fingerprints.values([list(self.funnel.keypoints.items()), pairs, mapper, known_cameras])

    @property
    def stamp(self) -> str | None:
        """The stamp of the model that is there; None where one is missing or was cut short."""
        return self._table().get("made_from")

    def reconstructed(self) -> Reconstructed:
        """Return the model that is there, in numbers."""
        table = {name: value for name, value in self._table().items() if name != "made_from"}
        here = {"model": str(self.out), "photos": len(self.photos), "unreadable": dict(self.unreadable)}
        return Reconstructed(**table | here)

    def write(self, model: Any, stamp: str) -> None:
        """Write a model, its points in the colours of the photos, and its table."""
        arrays = colmap.as_arrays(model)
        done = replace(
            Reconstructed.of(arrays, self.funnel, self.out, len(self.photos)), unreadable=dict(self.unreadable)
        )
        (self.out / "table.json").unlink(missing_ok=True)  # killed in between, it would vouch for files of two models
        colmap.write_model(model, self.out, _colours(arrays, self.photos))
        with atomic_write(self.out / "table.md") as file:
            file.write_text(done.table().markdown() + "\n", encoding="utf-8")
        write_json(self.out / "table.json", {**asdict(done), "made_from": stamp})  # last: it vouches for the rest

    def _table(self) -> dict[str, Any]:
        if not all((self.out / name).exists() for name in colmap.MODEL_FILES):
            return {}
        try:
            table = json.loads((self.out / "table.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        names = {each.name for each in fields(Reconstructed)}
        return table if isinstance(table, dict) and table.keys() == names | {"made_from"} else {}


def _mapped(out: Path, mapper: str, known_cameras: bool, threads: int, funnel: Funnel, progress: Progress) -> Any:
    """Map without points that only two photos see, as COLMAP does, except where nothing can be mapped otherwise."""
    asked = colmap.MappingTask(known_cameras=known_cameras, adjusted=True, threads=threads)
    photos, database = len(funnel.keypoints), out / DATABASE
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
