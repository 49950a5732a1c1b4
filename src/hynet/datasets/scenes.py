"""Photos of one scene whose cameras are known: the Image Matching Challenge's layout, and Strecha's.

    SCENE/ANY/calibration_NAME.h5    K, R, T (camera from world), beside a folder with NAME.jpg
    SCENE/ANY/NAME.jpg.camera        text, for the original size of a photo that may be smaller here
    SCENE/**/keys-th-0.1.npy         optional: the pairs "NAME-OTHER" that see enough of the same
    SCENE/**/5bag_000.txt ...        optional: photos to reconstruct from, five (ten, ...) in a bag, one a line

The challenge's K goes with pixels as detectors give them: its benchmark adds no half pixel, and neither do we.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from ..errors import BadData, DataNotFound
from ..geometry.two_views import Pose, scale_camera
from ..images import list_photos, read
from ..types import Array

CALIBRATION, STRECHA = "calibration_*.h5", "*.camera"
LARGEST = 1e12  # of any number of a camera: products of larger ones overflow
COVISIBLE = "keys-th-0.1.npy"  # pairs with a co-visibility of at least 0.1: the challenge's stereo task


@dataclass(frozen=True)
class View:
    """A photo and its camera: x_camera = rotation @ x_world + translation, pixels = K @ x_camera."""

    photo: Path
    K: Array  # (3, 3)
    cam_from_world: Pose

    def to_list(self) -> list[list[float]]:
        """Return the camera in plain numbers, to tell whether it changed."""
        values = (self.K, self.cam_from_world.rotation, self.cam_from_world.translation)
        return [each.ravel().tolist() for each in values]


@dataclass(frozen=True)
class Scene:
    """Views by name, and the pairs to compare: those listed as co-visible, or all."""

    name: str
    views: Mapping[str, View]
    pairs: Sequence[tuple[str, str]]
    all_pairs: bool
    bags: Mapping[int, Sequence[tuple[str, ...]]]  # photos in a bag -> the bags that are listed


def load(root: str | Path) -> list[Scene]:
    """Every scene in a folder, or the folder's own."""
    root = Path(root)
    files = sorted({*root.rglob(CALIBRATION), *root.rglob(STRECHA)})
    homes = list(dict.fromkeys(file.parent for file in files))
    if not homes:
        raise DataNotFound(f"no {CALIBRATION} and no {STRECHA} in {root}; give a folder of scenes with their cameras.")
    return [_scene(root, home, [file for file in files if file.parent == home]) for home in homes]


def recognise(root: Path) -> bool:
    """Whether a folder has one of these layouts."""
    return any(any(root.rglob(name)) for name in (CALIBRATION, STRECHA))


def second_from_first(first: Pose, second: Pose) -> Pose:
    """Pose of the second camera relative to the first; both are cam_from_world."""
    rotation = second.rotation @ first.rotation.T
    return Pose(rotation, second.translation - rotation @ first.translation)


def _scene(root: Path, home: Path, files: Sequence[Path]) -> Scene:
    folder = home if home == root else home.parent
    photos: dict[str, list[Path]] = {}
    for path in list_photos(folder):
        photos.setdefault(path.stem, []).append(path)
    views = {}
    for file in files:
        strecha = file.suffix == ".camera"
        stem = Path(file.stem).stem if strecha else file.stem.removeprefix("calibration_")
        named = photos.get(stem, [])
        if len(named) != 1:
            raise BadData(f"{file} needs one photo {stem} in {folder}, found {len(named)}; give the folder of both.")
        views[stem] = _strecha_view(file, named[0]) if strecha else _challenge_view(file, named[0])
    listed = sorted(folder.rglob(COVISIBLE))
    pairs = _listed_pairs(listed[0], views) if listed else list(combinations(views, 2))
    if not pairs:
        raise BadData(f"{folder} has no pair of photos with cameras.")
    parts = [part for part in folder.relative_to(root).parts if not part.startswith("set_")]
    return Scene("/".join(parts) or root.resolve().name, views, pairs, not listed, _listed_bags(folder, views))


def _challenge_view(file: Path, photo: Path) -> View:
    import h5py

    try:
        with h5py.File(file) as stored:
            K, rotation, translation = (np.asarray(stored[key], np.float64) for key in ("K", "R", "T"))
        return _view(photo, K.reshape(3, 3), Pose(rotation.reshape(3, 3), translation.reshape(3)))
    except (OSError, KeyError, ValueError, TypeError, RuntimeError):
        raise BadData(f"{file} is not a calibration of the challenge: it needs K, R (3 x 3) and T (3).") from None


def _view(photo: Path, K: Array, cam_from_world: Pose) -> View:
    numbers = np.concatenate([K.ravel(), cam_from_world.rotation.ravel(), cam_from_world.translation])
    R = cam_from_world.rotation
    if (
        not (np.abs(numbers) < LARGEST).all()
        or not K[0, 0] * K[1, 1] > 0
        or not np.allclose(R @ R.T, np.eye(3), atol=1e-2)
    ):
        raise ValueError("not a camera")
    return View(photo, K, cam_from_world)


def _strecha_view(file: Path, photo: Path) -> View:
    """K, a line of distortion, the rotation world_from_cam, the centre of the camera, and the size of the photo."""
    try:
        numbers = np.array(file.read_text(encoding="utf-8").split(), np.float64)
        K, distortion, world_from_cam, centre, size = np.split(numbers, [9, 12, 21, 24])
        K, world_from_cam = K.reshape(3, 3), world_from_cam.reshape(3, 3)
        width, height = size
        _view(photo, K, Pose(world_from_cam, centre))
        if not (1 <= width < LARGEST and 1 <= height < LARGEST):
            raise ValueError
    except (ValueError, OSError):
        raise BadData(f"{file} is no .camera file: it needs K, three zeros, rotation, centre and size.") from None
    if distortion.any():
        raise BadData(f"{file} describes a lens with distortion; undistort the photos first.")
    down, across = read(photo).shape
    scale = across / width
    if abs(down / height - scale) > 0.01 * scale:
        raise BadData(f"{photo} is {across} x {down} pixels, of another shape than {file.name} says.")
    rotation = world_from_cam.T
    return View(photo, scale_camera(K, scale), Pose(rotation, -rotation @ centre))


def _listed_pairs(path: Path, views: Mapping[str, View]) -> list[tuple[str, str]]:
    """Read the listed pairs whose photos are here: a part of a scene keeps its list."""
    try:
        keys = np.load(path)
        pairs = [tuple(str(key).split("-")) for key in keys]
        return [(first, second) for first, second in pairs if first in views and second in views]
    except (OSError, ValueError, EOFError, TypeError):
        raise BadData(f"{path} is not a list of pairs NAME-OTHER.") from None


def _listed_bags(folder: Path, views: Mapping[str, View]) -> dict[int, list[tuple[str, ...]]]:
    """Read the listed bags whose photos are all here."""
    bags: dict[int, list[tuple[str, ...]]] = {}
    for path in sorted(folder.rglob("*bag_*.txt")):
        names = tuple(Path(line.strip()).stem for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
        if len(names) > 1 and set(names) <= set(views):
            bags.setdefault(len(names), []).append(names)
    return bags
