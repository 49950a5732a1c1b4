"""A photo's camera as one of COLMAP's camera models, and the lens behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import images
from ...errors import BadInput
from ...geometry.two_views import FOCAL_OVER_LONGEST_SIDE
from ...types import Array
from .package import HALF, installed, pycolmap

# COLMAP's numbers, names and counts of parameters of the lenses that are known without pycolmap, too.
USUAL_LENSES = {
    0: ("SIMPLE_PINHOLE", 3),
    1: ("PINHOLE", 4),
    2: ("SIMPLE_RADIAL", 4),
    3: ("RADIAL", 5),
    4: ("OPENCV", 8),
}


@dataclass(frozen=True)
class Camera:
    """`params` are COLMAP's own, in its pixels; K is in ours."""

    model: str  # "SIMPLE_RADIAL", "PINHOLE" ...
    size: tuple[int, int]  # width, height
    params: tuple[float, ...]
    known_focal: bool = False  # by EXIF or by the user, not guessed

    @property
    def K(self) -> Array:  # noqa: N802
        """(3, 3), without distortion."""
        K = np.array(_lens(self).calibration_matrix())
        K[:2, 2] -= HALF
        return K

    @property
    def focal(self) -> float:
        """Focal length in pixels; the mean where the two directions differ."""
        return float(_lens(self).mean_focal_length())

    def pixels(self, rays: Array) -> Array:
        """Project (N, 2) points at depth one to (N, 2) our pixels, distorted as by the lens."""
        return _lens(self).img_from_cam(np.column_stack([rays, np.ones(len(rays))])) - HALF

    def rays(self, pixels: Array) -> Array:
        """Return the (N, 2) points at depth one that (N, 2) of our pixels show."""
        return _lens(self).cam_from_img(np.asarray(pixels, np.float64) + HALF)


def guess_camera(size: tuple[int, int], photo: Path | None = None) -> Camera:
    """Guess SIMPLE_RADIAL, with the focal length of the photo's EXIF if it has one. size: (width, height), upright."""
    focal = None if photo is None else _exif_focal(photo)
    params = ((focal or FOCAL_OVER_LONGEST_SIDE) * max(size), size[0] / 2, size[1] / 2, 0.0)
    return Camera("SIMPLE_RADIAL", size, params, known_focal=focal is not None)


def parse_camera(text: str, size: tuple[int, int]) -> Camera:
    """Parse a model and its parameters as COLMAP writes them, such as PINHOLE,1380,1382,760,503."""
    model, *numbers = text.split(",")
    try:
        camera = Camera(model.upper(), size, tuple(float(number) for number in numbers), known_focal=True)
        usable = _lens(camera).verify_params() and np.isfinite(camera.params).all() and camera.params[0] > 0
    except (ValueError, RuntimeError, AttributeError):  # no number, or no such model
        usable = False
    if not usable:
        forms = "such as PINHOLE,fx,fy,cx,cy or SIMPLE_RADIAL,f,cx,cy,k"
        raise BadInput(f"camera {text!r} cannot be used; say auto, shared, or what COLMAP writes, {forms}.")
    return camera


def pinhole_text(K: Array) -> str:
    """Write a known K, in our pixels, as `parse_camera` reads it."""
    numbers = K[0, 0], K[1, 1], K[0, 2] + HALF, K[1, 2] + HALF
    return "PINHOLE," + ",".join(repr(float(number)) for number in numbers)


def _exif_focal(photo: Path) -> float | None:
    """Read the focal length from EXIF, in longer sides of the photo. COLMAP also knows sensors by their names."""
    if not installed():
        return _own_focal(photo)
    try:
        camera = pycolmap().infer_camera_from_image(photo)
    except (ValueError, RuntimeError):  # a format that COLMAP does not read
        return _own_focal(photo)
    return camera.mean_focal_length() / max(camera.width, camera.height) if camera.has_prior_focal_length else None


def _own_focal(photo: Path) -> float | None:
    focal = images.focal(photo)
    return None if focal is None else focal / max(images.size(photo))


def _lens(camera: Camera) -> Any:
    return to_colmap(camera) if installed() else Lens(camera.model, camera.size, camera.params)


class Lens:
    """The methods of a pycolmap.Camera that we use, by PoseLib where pycolmap is not installed."""

    def __init__(self, model: str, size: tuple[int, int], params: tuple[float, ...]) -> None:
        import poselib

        if dict(USUAL_LENSES.values()).get(model) != len(params):  # PoseLib would read past their end
            raise ValueError(f"{model} is not one of the lenses that are known without pycolmap")
        self._camera = poselib.Camera(model, list(params), *size)

    def verify_params(self) -> bool:
        return True

    def calibration_matrix(self) -> Array:
        across, down = self._camera.principal_point()
        return np.array([[self._camera.focal_x(), 0, across], [0, self._camera.focal_y(), down], [0, 0, 1.0]])

    def mean_focal_length(self) -> float:
        return (self._camera.focal_x() + self._camera.focal_y()) / 2

    def img_from_cam(self, xyz: Array) -> Array:
        return np.asarray(self._camera.project(xyz[:, :2] / xyz[:, 2:])).reshape(-1, 2)

    def cam_from_img(self, xy: Array) -> Array:
        return np.asarray(self._camera.unproject(np.asarray(xy, np.float64))).reshape(-1, 2)


def to_colmap(camera: Camera) -> Any:
    width, height = camera.size
    made = pycolmap().Camera(model=camera.model, width=width, height=height, params=list(camera.params))
    made.has_prior_focal_length = camera.known_focal
    return made


def from_colmap(camera: Any) -> Camera:
    size = (int(camera.width), int(camera.height))
    return Camera(camera.model.name, size, tuple(camera.params.tolist()), bool(camera.has_prior_focal_length))
