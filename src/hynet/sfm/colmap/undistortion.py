"""Models whose cameras have no distortion, and the maps that undistort their photos."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...types import Array
from .cameras import Camera, from_colmap, to_colmap
from .package import HALF, pycolmap


def pinhole_camera(camera: Camera) -> Camera:
    """Return the PINHOLE camera that sees no pixel beyond the photo of this one; itself where it has no distortion."""
    if camera.model == "PINHOLE":
        return camera
    return from_colmap(pycolmap().undistort_camera(pycolmap().UndistortCameraOptions(), to_colmap(camera)))


def bent(camera: Camera, straight: Camera) -> tuple[Array, Array]:
    """Map each pixel of the straight photo to the photo as taken: x and y (H, W) float32, in our pixels."""
    width, height = straight.size
    x, y = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    seen = camera.pixels(straight.rays(np.column_stack([x.ravel(), y.ravel()]))).astype(np.float32)
    return seen[:, 0].reshape(height, width), seen[:, 1].reshape(height, width)


def write_straight_model(folder: Path, out: Path, names: Mapping[str, str]) -> None:
    """Write the model in a folder with PINHOLE cameras, keypoints moved accordingly, and photos by other names."""
    colmap = pycolmap()
    model = colmap.Reconstruction(folder)
    as_taken = {number: from_colmap(camera) for number, camera in model.cameras.items()}
    straight = {number: pinhole_camera(camera) for number, camera in as_taken.items()}
    for number in list(model.images):
        image = model.images[number]
        image.name = names.get(image.name, image.name)
        points = np.array([point.xy for point in image.points2D]).reshape(-1, 2)
        moved = straight[image.camera_id].pixels(as_taken[image.camera_id].rays(points - HALF)) + HALF
        for point, xy in zip(image.points2D, moved, strict=True):
            point.xy = xy
    for number, camera in straight.items():
        _replace(model.cameras[number], camera)
    out.mkdir(parents=True, exist_ok=True)
    model.write_binary(out)


def _replace(camera: Any, other: Camera) -> None:
    made = to_colmap(other)
    camera.model, camera.width, camera.height = made.model, made.width, made.height
    camera.params = made.params
