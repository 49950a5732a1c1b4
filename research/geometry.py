"""A reconstructed scene as arrays: cameras, keypoints, points, and its pairs of photos.

Pixels are as in features.h5: the centre of the first pixel is (0, 0). COLMAP's are half a pixel larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pycolmap

Array = np.ndarray
HALF = 0.5  # pixel, between COLMAP's coordinates and ours


@dataclass(frozen=True)
class Photo:
    """One registered photo."""

    name: str
    camera: Any  # pycolmap.Camera
    R: Array  # (3, 3) world to camera
    t: Array  # (3,)
    detected: Array  # (N, 3) x, y, scale as extracted; NaN scales in a model without features.h5
    xy: Array  # (N, 2) the same keypoints as the model has them, which may be refined
    points: Array  # (N,) row of Scene.xyz, -1 where nothing was triangulated

    @property
    def centre(self) -> Array:
        """(3,) in the world."""
        return -self.R.T @ self.t

    def rays(self, xy: Array) -> Array:
        """(N, 2) pixels -> (N, 2) undistorted, at depth one; NaN where the camera cannot tell."""
        return self.camera.cam_from_img(np.ascontiguousarray(xy, np.float64) + HALF)

    def pixels(self, inside: Array) -> Array:
        """(N, 3) in the camera's frame -> (N, 2); NaN behind it."""
        xy = self.camera.img_from_cam(np.ascontiguousarray(inside, np.float64)) - HALF
        return np.where(inside[:, 2:] > 0, xy, np.nan)


@dataclass(frozen=True)
class Scene:
    """The registered photos by name, and the points."""

    name: str
    photos: dict[str, Photo]
    xyz: Array  # (M, 3)


@dataclass(frozen=True)
class Pair:
    """Two photos with common points."""

    a: str
    b: str
    shared: int  # points that both see
    share: float  # of the points of the photo that sees fewer
    angle: float  # median over these, degrees between the two rays to a point


def load(folder: Path | str) -> Scene:
    """The model in a folder of `hynet reconstruct` or of COLMAP."""
    folder = Path(folder)
    model = pycolmap.Reconstruction(folder)
    rows = {number: row for row, number in enumerate(sorted(model.points3D))}
    xyz = np.array([model.points3D[number].xyz for number in rows]).reshape(-1, 3)
    detected = _detected(folder / "features.h5")
    photos = {}
    for image in sorted((model.images[number] for number in model.reg_image_ids()), key=lambda image: image.name):
        pose = image.cam_from_world()
        xy = np.array([point.xy for point in image.points2D]).reshape(-1, 2) - HALF
        points = np.array([rows.get(point.point3D_id, -1) for point in image.points2D], int)
        found = detected.get(image.name)
        if found is None or len(found) != len(xy):
            found = np.column_stack([xy, np.full(len(xy), np.nan)])
        camera = model.cameras[image.camera_id]
        photos[image.name] = Photo(image.name, camera, pose.rotation.matrix(), pose.translation, found, xy, points)
    return Scene(folder.name, photos, xyz)


def _detected(features: Path) -> dict[str, Array]:
    if not features.exists():
        return {}
    with h5py.File(features) as file:
        return {name: np.column_stack([group["keypoints"], group["scales"]]) for name, group in file.items()}


def pairs(scene: Scene, least: int = 1) -> list[Pair]:
    """All pairs of photos that share at least so many points, in the order of their names."""
    seen = {name: np.unique(photo.points[photo.points >= 0]) for name, photo in scene.photos.items()}
    found = []
    for a, b in combinations(scene.photos, 2):
        common = np.intersect1d(seen[a], seen[b], assume_unique=True)
        if len(common) >= least:
            angle = float(np.median(angles(scene.xyz[common], scene.photos[a].centre, scene.photos[b].centre)))
            share = len(common) / max(1, min(len(seen[a]), len(seen[b])))
            found.append(Pair(a, b, len(common), share, angle))
    return found


def angles(xyz: Array, first: Array, second: Array) -> Array:
    """Degrees between the rays from each point to two centres."""
    one, two = first - xyz, second - xyz
    cosine = np.sum(one * two, 1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1) + 1e-300)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def relative(a: Photo, b: Photo) -> tuple[Array, Array]:
    """Rotation and translation from a's camera to b's."""
    R = b.R @ a.R.T
    return R, b.t - R @ a.t


def turn(R: Array) -> float:
    """Degrees a rotation turns by."""
    sine = np.linalg.norm([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    return float(np.degrees(np.arctan2(sine, np.trace(R) - 1)))


def between(one: Array, two: Array) -> float:
    """Degrees between two directions."""
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(one, two)), one @ two)))
