"""COLMAP's database as pycolmap writes it: cameras, photos with keypoints, matches and two-view geometries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import BadData
from ...types import Array, Pair
from .cameras import Camera, from_colmap, to_colmap
from .package import HALF, SEED, pycolmap
from .tables import read_funnel

# Samples at least, of which COLMAP takes 100: it goes on until it is sure anyway.
LEAST_TRIALS = 50


@dataclass(frozen=True)
class Verifiable:
    """A photo in COLMAP's own terms, ready to be verified."""

    camera: Any
    points: Array  # (N, 2) float64, in its pixels


class Store:
    """An open database. What is written is there as a whole or not at all, whenever the process is killed."""

    def __init__(self, path: Path, db: Any) -> None:
        self._colmap = pycolmap()
        self._path = path
        self._db = db
        try:
            self._numbers: dict[str, int] = {image.name: image.image_id for image in db.read_all_images()}
        except UnicodeDecodeError:
            raise BadData("the database names photos that are not UTF-8; delete it and run again.") from None
        named = set(self._numbers.values())
        if not all(data.id in named for frame in db.read_all_frames() for data in frame.image_ids):
            raise BadData(
                f"COLMAP cannot use {path}, which lacks photos that its frames name; delete it and run again."
            )
        self._rigs: dict[int, int] = {rig.ref_sensor_id.id: rig.rig_id for rig in db.read_all_rigs()}  # of cameras

    @property
    def names(self) -> list[str]:
        """The photos, in the order they were added."""
        return sorted(self._numbers, key=self._numbers.__getitem__)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all that is written inside at once, at the end."""
        with self._colmap.DatabaseTransaction(self._db):
            yield

    # --- photos ---

    def cameras(self) -> dict[int, Camera]:
        return {camera.camera_id: from_colmap(camera) for camera in self._db.read_all_cameras()}

    def add_camera(self, camera: Camera) -> int:
        """Add a camera; return its number, for `add_photo`."""
        made = to_colmap(camera)
        made.camera_id = self._db.write_camera(made)
        rig = self._colmap.Rig()
        rig.add_ref_sensor(made.sensor_id)
        self._rigs[made.camera_id] = self._db.write_rig(rig)
        return int(made.camera_id)

    def add_photo(self, name: str, camera: int, frames: Array, sift: Array | None = None) -> None:
        """Add a photo. frames: (N, 2, 3) as in Keypoints; sift: (N, 128) uint8, for COLMAP's own matching only."""
        image = self._colmap.Image(name=name, camera_id=camera)
        image.image_id = self._db.write_image(image)
        frame = self._colmap.Frame()
        frame.rig_id = self._rigs[camera]
        frame.add_data_id(image.data_id)
        self._db.write_frame(frame)
        self._db.write_keypoints(image.image_id, colmap_keypoints(frames))
        if sift is not None:
            self._db.write_descriptors(image.image_id, self._as_sift(sift))
        self._numbers[name] = image.image_id

    def _as_sift(self, rows: Array) -> Any:
        """Wrap descriptors, which name their kind since pycolmap 4."""
        if not hasattr(self._colmap, "FeatureExtractorType"):
            return rows
        return self._colmap.FeatureDescriptors(self._colmap.FeatureExtractorType.SIFT, rows)

    def frames(self, name: str) -> Array:
        """(N, 2, 3) of a photo's keypoints."""
        found = self._db.read_keypoints(self._numbers[name])
        return np.concatenate([found[:, 2:6].reshape(-1, 2, 2), found[:, :2, None] - HALF], 2)

    # --- pairs ---

    def pairs(self) -> set[Pair]:
        """The pairs that were matched and verified, with or without success; the first was added before the second."""
        return set(read_funnel(self._path).matches)

    def inliers(self) -> Mapping[Pair, int]:
        """Return the same pairs, with the number of matches that fit the geometry."""
        return read_funnel(self._path).inliers

    def matches(self, first: str, second: str) -> Array | None:
        """(K, 2) raw matches, rows of the first and of the second; None where they were not matched."""
        numbers = self._numbers[first], self._numbers[second]
        return np.asarray(self._db.read_matches(*numbers), np.int64) if self._db.exists_matches(*numbers) else None

    def verifiable(self, name: str) -> Verifiable:
        """Return a photo as `verify_pair` takes it."""
        image = self._db.read_image(self._numbers[name])
        points = np.asarray(self._db.read_keypoints(image.image_id)[:, :2], np.float64)
        return Verifiable(self._db.read_camera(image.camera_id), points)

    def add_pair(self, first: str, second: str, matches: Array, geometry: Any) -> None:
        """Add matches (K, 2), rows of the first and of the second, and their geometry."""
        numbers = self._numbers[first], self._numbers[second]
        with self.transaction():
            self._db.write_matches(*numbers, matches.astype(np.uint32))
            self._db.write_two_view_geometry(*numbers, geometry)

    def forget_pairs(self) -> None:
        """Delete all matches and geometries; photos and keypoints stay."""
        with self.transaction():
            self._db.clear_matches()
            self._db.clear_two_view_geometries()

    # --- a database that someone else made ---

    def size(self, name: str) -> tuple[int, int]:
        """Width and height of a photo."""
        camera = self._db.read_camera(self._db.read_image(self._numbers[name]).camera_id)
        return int(camera.width), int(camera.height)

    def stored_keypoints(self, name: str) -> Array:
        """Keypoints as they are in the database: (N, 2), (N, 4) or (N, 6), in COLMAP's pixels."""
        number = self._numbers[name]
        if not self._db.exists_keypoints(number):
            return np.zeros((0, 6), np.float32)
        return np.asarray(self._db.read_keypoints(number), np.float32)

    def write_stored_keypoints(self, name: str, keypoints: Array) -> None:
        """Replace the keypoints that are there."""
        number = self._numbers[name]
        write = self._db.update_keypoints if self._db.exists_keypoints(number) else self._db.write_keypoints
        write(number, np.ascontiguousarray(keypoints, np.float32))

    def replace_pair(self, first: str, second: str, matches: Array, geometry: Any) -> None:
        """Replace the matches (K, 2) of a pair and their geometry. Call it in a transaction."""
        numbers = self._numbers[first], self._numbers[second]
        self._db.delete_matches(*numbers)
        # In pycolmap 3 this deletes all of it, in 4 only its inliers.
        getattr(self._db, "delete_two_view_geometry", self._db.delete_inlier_matches)(*numbers)
        self._db.write_matches(*numbers, matches.astype(np.uint32))
        self._db.write_two_view_geometry(*numbers, geometry)


def verify_pair(first: Verifiable, second: Verifiable, matches: Array) -> Any:
    """Fit the geometry that matches (K, 2) agree on. Depends on its arguments alone; threads may call it at once."""
    colmap = pycolmap()
    options = colmap.TwoViewGeometryOptions()
    options.ransac.random_seed = SEED
    options.ransac.min_num_trials = LEAST_TRIALS
    return colmap.estimate_two_view_geometry(
        first.camera, first.points, second.camera, second.points, matches.astype(np.uint32), options
    )


def verifiable(camera: Any, frames: Array) -> Verifiable:
    """Convert a photo with COLMAP's camera and keypoints (N, 2, 3) to what the database would give back."""
    return Verifiable(camera, colmap_keypoints(frames)[:, :2].astype(np.float64))


@contextmanager
def opened(database: Path) -> Iterator[Store]:
    """Open the database, made if it is not there."""
    try:
        db = pycolmap().Database.open(database)
    except (RuntimeError, ValueError):
        raise BadData(f"{database} is not a COLMAP database; choose another, or delete it.") from None
    with db:
        yield Store(database, db)


def colmap_keypoints(frames: Array, columns: int = 6) -> Array:
    """Convert (N, 2, 3) to (N, 6): x y a11 a12 a21 a22; in 4 columns x y scale angle, in 2 x y, as older databases."""
    xy, A = frames[:, :, 2] + HALF, frames[:, :, :2]
    if columns == 4:
        scale = np.sqrt(np.abs(np.linalg.det(A)))
        return np.column_stack([xy, scale, np.arctan2(A[:, 1, 0], A[:, 0, 0])]).astype(np.float32)
    return np.concatenate([xy, A.reshape(-1, 4)], 1).astype(np.float32)[:, :columns]
