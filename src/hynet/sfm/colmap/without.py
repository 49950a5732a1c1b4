"""What localisation needs where pycolmap is not installed: COLMAP's binary models, its usual lenses, and the pose of
one photo, by PoseLib. All in COLMAP's pixels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...types import Array
from .checks import USUAL_LENSES, Bytes
from .package import SEED


class Lens:
    """The methods of a pycolmap.Camera that we use."""

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


def pose(
    model: str, size: tuple[int, int], params: tuple[float, ...], xy: Array, xyz: Array, pixels: float
) -> tuple[Array, Array]:
    """From (K, 2) and (K, 3): cam_from_world (3, 4) and the inliers (K,) bool."""
    import poselib

    camera = {"model": model, "width": size[0], "height": size[1], "params": list(params)}
    found, told = poselib.estimate_absolute_pose(xy, xyz, camera, {"max_reproj_error": pixels, "seed": SEED}, {})
    return np.asarray(found.Rt), np.asarray(told["inliers"], bool)


@dataclass(frozen=True)
class StoredPhoto:
    """A photo of a model, as its file has it."""

    name: str
    camera: int
    cam_from_world: Array  # (3, 4)
    xy: Array  # (N, 2)
    points: Array  # (N,) uint64 numbers of points, 2^64 - 1 where there is none


StoredCamera = tuple[str, tuple[int, int], tuple[float, ...]]


def read_cameras(path: Path) -> dict[int, StoredCamera]:
    """Of cameras.bin, which was checked: model, size, parameters."""
    file, found = Bytes(path), {}
    for _ in range(*file.numbers("Q")):
        number, kind, width, height = file.numbers("IiQQ")
        model, count = USUAL_LENSES[kind]
        found[number] = model, (width, height), file.numbers(f"{count}d")
    return found


def read_images(path: Path) -> list[StoredPhoto]:
    """Of images.bin, which was checked."""
    file, found = Bytes(path), []
    for _ in range(*file.numbers("Q")):
        _, *turn_and_shift, camera = file.numbers("I7dI")
        cam_from_world = np.column_stack([_rotation(*turn_and_shift[:4]), turn_and_shift[4:]])
        name, (count,) = file.name(), file.numbers("Q")
        rows = np.frombuffer(file.take(24 * count), [("xy", "<f8", 2), ("point", "<u8")])
        found.append(StoredPhoto(name, camera, cam_from_world, rows["xy"], rows["point"]))
    return found


def read_points(path: Path) -> dict[int, tuple[Array, Array, float, int]]:
    """Of points3D.bin, which was checked, by number: place (3,), colour (3,), error, length of the track."""
    file, found = Bytes(path), {}
    for _ in range(*file.numbers("Q")):
        number, *place = file.numbers("Q3d")
        colour, (error, length) = np.frombuffer(file.take(3), np.uint8), file.numbers("dQ")
        file.take(8 * length)
        found[number] = np.array(place), colour, error, length
    return dict(sorted(found.items()))


def _rotation(w: float, x: float, y: float, z: float) -> Array:
    """(3, 3) of a quaternion."""
    w, x, y, z = np.array([w, x, y, z]) / np.linalg.norm([w, x, y, z])
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
