"""A finished model: photos, cameras and points, in COLMAP's files and as arrays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.files import atomic_write
from ...types import Array
from .cameras import Camera, from_colmap
from .package import HALF, pycolmap

MODEL_FILES = ("cameras.bin", "images.bin", "points3D.bin", "frames.bin", "rigs.bin")


@dataclass(frozen=True)
class ModelPhoto:
    """One registered photo."""

    name: str
    camera: Camera
    cam_from_world: Array  # (3, 4)
    xy: Array  # (N, 2) keypoints
    points: Array  # (N,) row in Model.xyz of each keypoint, -1 where it was not triangulated

    @property
    def centre(self) -> Array:
        """(3,) place of the camera in the world."""
        return -self.cam_from_world[:, :3].T @ self.cam_from_world[:, 3]


@dataclass(frozen=True)
class Model:
    """A reconstruction: registered photos, sorted by name, and points."""

    photos: tuple[ModelPhoto, ...]
    xyz: Array  # (M, 3) in the world
    colours: Array  # (M, 3) uint8 RGB
    track_lengths: Array  # (M,) keypoints that see the point
    errors: Array  # (M,) mean reprojection error in pixels

    @property
    def observations(self) -> int:
        return int(self.track_lengths.sum())

    @property
    def track_length(self) -> float:
        return float(self.track_lengths.mean()) if len(self.xyz) else 0.0

    @property
    def reprojection_error(self) -> float:
        """Mean over points, in pixels, as COLMAP prints it."""
        return float(self.errors.mean()) if len(self.xyz) else 0.0


def write_model(model: Any, folder: Path, colours: Array | None = None) -> None:
    """Write COLMAP's files and points.ply, each whole or not at all. colours: (M, 3) uint8 RGB, a row a point."""
    if colours is not None:
        for number, colour in zip(sorted(model.points3D), colours, strict=True):
            model.points3D[number].color = colour
    scratch = folder / ".model"
    shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed here
    scratch.mkdir()
    model.write_binary(scratch)
    for file in scratch.iterdir():
        os.replace(file, folder / file.name)
    scratch.rmdir()
    with atomic_write(folder / "points.ply") as file:
        model.export_PLY(file)


def open_model(folder: Path) -> Any:
    """Open a model that we wrote ourselves, as pycolmap.Reconstruction."""
    return pycolmap().Reconstruction(folder)


def registered(model: Any) -> list[str]:
    """Names of the photos of a pycolmap.Reconstruction that have a pose."""
    return [model.images[number].name for number in model.reg_image_ids()]


def move(model: Any, name: str, rows: Array, xy: Array) -> None:
    """Move keypoints (K,) of a photo of a pycolmap.Reconstruction to other places (K, 2)."""
    keypoints = next(image for image in model.images.values() if image.name == name).points2D
    for row, place in zip(rows.tolist(), xy + HALF, strict=True):
        keypoints[row].xy = place


def as_arrays(model: Any) -> Model:
    """Convert a pycolmap.Reconstruction."""
    rows = {number: row for row, number in enumerate(sorted(model.points3D))}
    points = [model.points3D[number] for number in rows]
    cameras = {number: from_colmap(camera) for number, camera in model.cameras.items()}
    registered = sorted((model.images[number] for number in model.reg_image_ids()), key=lambda image: image.name)
    return Model(
        photos=tuple(_photo(image, cameras[image.camera_id], rows) for image in registered),
        xyz=np.array([point.xyz for point in points]).reshape(-1, 3),
        colours=np.array([point.color for point in points], np.uint8).reshape(-1, 3),
        track_lengths=np.array([point.track.length() for point in points], np.int64),
        errors=np.array([point.error for point in points], np.float64),
    )


def _photo(image: Any, camera: Camera, rows: Mapping[int, int]) -> ModelPhoto:
    xy = np.array([point.xy for point in image.points2D]).reshape(-1, 2) - HALF
    points = np.array([rows.get(point.point3D_id, -1) for point in image.points2D], np.int64)
    return ModelPhoto(image.name, camera, image.cam_from_world().matrix(), xy, points)
