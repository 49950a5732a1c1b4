"""COLMAP's models on disk -> arrays, checked before COLMAP reads them: it believes every count in them, so a few wrong
bytes make it ask for gigabytes, run for ever, or abort. Binary models can be read without pycolmap."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isfinite
from pathlib import Path
from typing import TypeVar

import numpy as np

from ...errors import BadData
from ...types import Array
from .cameras import USUAL_LENSES, Camera
from .model import Model, ModelPhoto, as_arrays
from .package import HALF, installed, pycolmap

LARGEST = 1e30  # of any number in a model: the square of a larger one is beyond what a page or a file of points holds
NO_POINT = 2**64 - 1
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class StoredPhoto:
    """A photo in images.bin."""

    name: str
    camera: int
    pose: tuple[float, ...]  # quaternion w x y z and shift, of cam_from_world
    xy: Array  # (N, 2) in COLMAP's pixels
    points: Array  # (N,) uint64 numbers of points, or NO_POINT


@dataclass(frozen=True)
class StoredPoint:
    """A point in points3D.bin."""

    place: tuple[float, float, float]
    colour: tuple[int, int, int]
    error: float
    track: Array  # (n, 2) number of a photo and row of its keypoint


@dataclass(frozen=True)
class StoredModel:
    """The contents of cameras.bin, images.bin and points3D.bin by their numbers; what refers to something finds it."""

    cameras: dict[int, Camera]
    photos: dict[int, StoredPhoto]
    points: dict[int, StoredPoint]

    def as_model(self) -> Model:
        """Convert to arrays as pycolmap's reconstructions are converted."""
        points = dict(sorted(self.points.items()))
        rows = {number: row for row, number in enumerate(points)}
        photos = [
            ModelPhoto(
                photo.name,
                self.cameras[photo.camera],
                np.column_stack([_rotation(*photo.pose[:4]), photo.pose[4:]]),
                photo.xy - HALF,
                np.array([rows.get(number, -1) for number in photo.points.tolist()], np.int64),
            )
            for photo in self.photos.values()
        ]
        return Model(
            photos=tuple(sorted(photos, key=lambda photo: photo.name)),
            xyz=np.array([point.place for point in points.values()]).reshape(-1, 3),
            colours=np.array([point.colour for point in points.values()], np.uint8).reshape(-1, 3),
            track_lengths=np.array([len(point.track) for point in points.values()], np.int64),
            errors=np.array([point.error for point in points.values()], np.float64),
        )


def read_model(folder: str | Path) -> Model:
    """Read a model that COLMAP, `hynet reconstruct` or another program wrote."""
    folder = Path(folder)
    stored = _read_binary(folder)
    try:
        if installed() or (not (folder / "images.bin").is_file() and (folder / "images.txt").is_file()):
            model = as_arrays(pycolmap().Reconstruction(folder))  # alone reads models as text, line by line
        elif stored is not None:
            model = stored.as_model()
        else:
            raise FileNotFoundError(folder)
    except (OSError, ValueError, RuntimeError, IndexError, KeyError, TypeError, MemoryError):
        raise BadData(
            f"{folder} holds no COLMAP model (cameras, images and points3D); give the folder of one."
        ) from None
    if not _is_possible(model):
        raise BadData(f"{folder} holds cameras or points that cannot be, such as NaN; reconstruct it again.")
    return model


def _is_possible(model: Model) -> bool:
    """True for numbers of a size to calculate with, proper rotations (COLMAP believes its frames) and real lenses."""
    poses = np.array([photo.cam_from_world for photo in model.photos]).reshape(-1, 3, 4)
    cameras = {photo.camera for photo in model.photos}
    numbers = [poses, model.xyz, model.errors, *(photo.xy for photo in model.photos)]
    numbers += [np.array(camera.params) for camera in cameras]
    if not all((np.abs(some) < LARGEST).all() for some in numbers):  # nor is NaN
        return False
    rotations = poses[:, :, :3]
    turned = np.allclose(rotations @ rotations.swapaxes(1, 2), np.eye(3), atol=1e-2)
    return turned and all((np.diag(camera.K) > 0).all() for camera in cameras)


# --- Binary files ---


def _read_binary(folder: Path) -> StoredModel | None:
    """Read and check a model in binary files; None where it is not in such files."""
    if not all((folder / f"{name}.bin").is_file() for name in ("cameras", "images", "points3D")):
        return None
    cameras = _entries(folder / "cameras.bin", _camera)
    photos = _entries(folder / "images.bin", _photo)
    points = _entries(folder / "points3D.bin", _point)
    if not {photo.camera for photo in photos.values()} <= cameras.keys():
        raise _broken(folder / "images.bin", "names cameras that are not there")
    if not all(set(photo.points.tolist()) - {NO_POINT} <= points.keys() for photo in photos.values()):
        raise _broken(folder / "images.bin", "names points that are not there")
    for point in points.values():
        for number, row in point.track.tolist():
            if number not in photos or row >= len(photos[number].xy):
                raise _broken(folder / "points3D.bin", "names keypoints that are not there")
    if (folder / "rigs.bin").is_file() and (folder / "frames.bin").is_file():
        rigs = _entries(folder / "rigs.bin", _rig)
        if not set(_entries(folder / "frames.bin", _frame).values()) <= rigs.keys():
            raise _broken(folder / "frames.bin", "names rigs that are not there")
    return StoredModel(cameras, photos, points)


class _Bytes:
    """The bytes of a file, taken one after the other and never past the end."""

    def __init__(self, path: Path) -> None:
        self._bytes, self._at = path.read_bytes(), 0

    def take(self, size: int) -> bytes:
        if size > len(self._bytes) - self._at:
            raise ValueError("is cut short, or counts more than it holds")
        self._at += size
        return self._bytes[self._at - size : self._at]

    def numbers(self, form: str) -> tuple:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def finite(self, form: str) -> tuple[float, ...]:
        found = self.numbers(form)
        if not all(map(isfinite, found)):
            raise ValueError("holds numbers that are NaN or infinite")
        return found

    def name(self) -> str:
        end = self._bytes.index(b"\0", self._at)
        return self.take(end - self._at + 1)[:-1].decode()


def _entries(path: Path, read: Callable[[_Bytes], tuple[int, Entry]]) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    try:
        file = _Bytes(path)
        (count,) = file.numbers("Q")
        for k in range(count):
            number, found[number] = read(file)
            if len(found) != k + 1:
                raise ValueError("has two entries of one number")
    except UnicodeDecodeError:
        raise _broken(path, "names photos in other letters than UTF-8") from None
    except (ValueError, OSError) as error:
        raise _broken(path, str(error)) from None
    return found


def _camera(file: _Bytes) -> tuple[int, Camera]:
    number, model, width, height = file.numbers("IiQQ")
    if model not in (kinds := _kinds(installed())) or not 0 < width < 2**31 or not 0 < height < 2**31:
        known = "COLMAP does not know" if installed() else "only pycolmap knows (hynet-features[sfm])"
        raise ValueError(f"holds a camera that {known}")
    name, count = kinds[model]
    return number, Camera(name, (width, height), file.finite(f"{count}d"))


def _photo(file: _Bytes) -> tuple[int, StoredPhoto]:
    (number,) = file.numbers("I")
    pose = file.finite("7d")
    (camera,) = file.numbers("I")
    name = file.name()
    (count,) = file.numbers("Q")
    rows = np.frombuffer(file.take(24 * count), [("xy", "<f8", 2), ("point", "<u8")])
    if not np.isfinite(rows["xy"]).all():
        raise ValueError("holds keypoints that are NaN or infinite")
    return number, StoredPhoto(name, camera, pose, rows["xy"], rows["point"])


def _point(file: _Bytes) -> tuple[int, StoredPoint]:
    (number,) = file.numbers("Q")
    x, y, z = file.finite("3d")
    red, green, blue = file.numbers("3B")
    (error,) = file.finite("d")
    (length,) = file.numbers("Q")
    track = np.frombuffer(file.take(8 * length), "<u4").reshape(-1, 2)
    return number, StoredPoint((x, y, z), (red, green, blue), error, track)


def _rig(file: _Bytes) -> tuple[int, int]:
    number, sensors = file.numbers("II")
    if sensors:
        file.take(8)  # the sensor that the others refer to
    for _ in range(sensors - 1):
        file.take(8)
        if file.take(1) != b"\0":
            file.finite("7d")
    return number, sensors


def _frame(file: _Bytes) -> tuple[int, int]:
    number, rig = file.numbers("II")
    file.finite("7d")
    (count,) = file.numbers("I")
    file.take(16 * count)
    return number, rig


@cache
def _kinds(by_colmap: bool) -> dict[int, tuple[str, int]]:
    """Return names and numbers of parameters of camera models, by COLMAP's numbers."""
    if not by_colmap:
        return USUAL_LENSES
    colmap = pycolmap()
    make = getattr(colmap.Camera, "create_from_model_id", colmap.Camera.create)  # its name since pycolmap 4
    kinds = [kind for kind in colmap.CameraModelId.__members__.values() if int(kind) >= 0]
    return {int(kind): (kind.name, len(make(0, kind, 1.0, 2, 2).params)) for kind in kinds}


def _rotation(w: float, x: float, y: float, z: float) -> Array:
    """Rotation (3, 3) of a quaternion."""
    w, x, y, z = np.array([w, x, y, z]) / np.linalg.norm([w, x, y, z])
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _broken(path: Path, why: str) -> BadData:
    return BadData(f"{path} {why}; give a whole COLMAP model.")
