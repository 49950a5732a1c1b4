"""COLMAP's binary models from anywhere, checked before COLMAP reads them: it believes every count in them, so a few
wrong bytes make it ask for gigabytes, run for ever, or abort."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from ...errors import BadData
from .package import installed, pycolmap

# COLMAP's numbers, names and counts of parameters of the lenses that are known without pycolmap, too.
USUAL_LENSES = {
    0: ("SIMPLE_PINHOLE", 3),
    1: ("PINHOLE", 4),
    2: ("SIMPLE_RADIAL", 4),
    3: ("RADIAL", 5),
    4: ("OPENCV", 8),
}
NO_POINT = 2**64 - 1


def check_model(folder: Path) -> None:
    """A model in binary files: counts fit the files, numbers are finite, and what refers to something finds it."""
    if not all((folder / f"{name}.bin").is_file() for name in ("cameras", "images", "points3D")):
        return  # as text, which COLMAP reads line by line
    cameras = _walked(folder / "cameras.bin", _cameras)
    images = _walked(folder / "images.bin", _images)
    points = _walked(folder / "points3D.bin", _points)
    if not {camera for camera, _, _ in images.values()} <= cameras.keys():
        raise _broken(folder / "images.bin", "names cameras that are not there")
    for _, _, seen in images.values():
        if not seen <= points.keys():
            raise _broken(folder / "images.bin", "names points that are not there")
    for track in points.values():  # (n, 2) image and row of its keypoint
        for image, row in track.tolist():
            if image not in images or row >= images[image][1]:
                raise _broken(folder / "points3D.bin", "names keypoints that are not there")
    if (folder / "rigs.bin").is_file() and (folder / "frames.bin").is_file():
        rigs = _walked(folder / "rigs.bin", _rigs)
        frames = _walked(folder / "frames.bin", _frames)
        if not set(frames.values()) <= rigs.keys():
            raise _broken(folder / "frames.bin", "names rigs that are not there")


class Bytes:
    """A file, read on and on, and never past its end."""

    def __init__(self, path: Path) -> None:
        self._bytes, self._at = path.read_bytes(), 0

    def numbers(self, form: str) -> tuple:
        size = struct.calcsize(f"<{form}")
        return struct.unpack(f"<{form}", self.take(size))

    def take(self, size: int) -> bytes:
        if size > len(self._bytes) - self._at:
            raise ValueError("is cut short, or counts more than it holds")
        self._at += size
        return self._bytes[self._at - size : self._at]

    def name(self) -> str:
        end = self._bytes.index(b"\0", self._at)
        return self.take(end - self._at + 1)[:-1].decode()

    def finite(self, count: int) -> None:
        if not np.isfinite(np.frombuffer(self.take(8 * count), "<f8")).all():
            raise ValueError("holds numbers that are NaN or infinite")


Walk = Callable[[Bytes, dict], None]


def _walked(path: Path, walk: Walk) -> dict:
    found: dict = {}
    try:
        file = Bytes(path)
        (count,) = file.numbers("Q")
        for k in range(count):
            walk(file, found)
            if len(found) != k + 1:
                raise ValueError("has two entries of one number")
    except UnicodeDecodeError:
        raise _broken(path, "names photos in other letters than UTF-8") from None
    except (ValueError, OSError) as error:
        raise _broken(path, str(error)) from None
    return found


def _cameras(file: Bytes, found: dict[int, int]) -> None:
    number, model, width, height = file.numbers("IiQQ")
    if model not in (sizes := _parameters(installed())) or not 0 < width < 2**31 or not 0 < height < 2**31:
        known = "COLMAP does not know" if installed() else "only pycolmap knows (hynet-features[sfm])"
        raise ValueError(f"holds a camera that {known}")
    file.finite(sizes[model])
    found[number] = model


def _images(file: Bytes, found: dict[int, tuple[int, int, set[int]]]) -> None:
    (number,) = file.numbers("I")
    file.finite(7)
    (camera,) = file.numbers("I")
    file.name()
    (count,) = file.numbers("Q")
    rows = np.frombuffer(file.take(24 * count), [("xy", "<f8", 2), ("point", "<u8")])
    if not np.isfinite(rows["xy"]).all():
        raise ValueError("holds keypoints that are NaN or infinite")
    found[number] = camera, count, set(rows["point"].tolist()) - {NO_POINT}


def _points(file: Bytes, found: dict[int, np.ndarray]) -> None:
    (number,) = file.numbers("Q")
    file.finite(3)
    file.take(3)  # its colour
    file.finite(1)
    (length,) = file.numbers("Q")
    found[number] = np.frombuffer(file.take(8 * length), "<u4").reshape(-1, 2)


def _rigs(file: Bytes, found: dict[int, int]) -> None:
    number, sensors = file.numbers("II")
    if sensors:
        file.take(8)  # the sensor that the others refer to
    for _ in range(sensors - 1):
        file.take(8)
        if file.take(1) != b"\0":
            file.finite(7)
    found[number] = sensors


def _frames(file: Bytes, found: dict[int, int]) -> None:
    number, rig = file.numbers("II")
    file.finite(7)
    (count,) = file.numbers("I")
    file.take(16 * count)
    found[number] = rig


@cache
def _parameters(by_colmap: bool) -> dict[int, int]:
    """COLMAP's camera models by number, and how many parameters each has."""
    if not by_colmap:
        return {number: count for number, (_, count) in USUAL_LENSES.items()}
    colmap = pycolmap()
    make = getattr(colmap.Camera, "create_from_model_id", colmap.Camera.create)  # its name since pycolmap 4
    kinds = [kind for kind in colmap.CameraModelId.__members__.values() if int(kind) >= 0]
    return {int(kind): len(make(0, kind, 1.0, 2, 2).params) for kind in kinds}


def _broken(path: Path, why: str) -> BadData:
    return BadData(f"{path} {why}; give a whole COLMAP model.")
