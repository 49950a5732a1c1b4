"""One scene of a patch set: photos -> SET/.parts/NAME, which appears whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import images
from ..datasets import ubc
from ..errors import DataNotFound
from ..features.detectors.affine_network import SHIPPED, AffineNetwork
from ..geometry.two_views import rotations
from ..images.patches import SUPPORT_SIGMAS, cut
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..sfm.colmap import NotReconstructed
from ..types import Array, Keypoints
from . import correspondence
from .scenes import Scene, reconstruct_scene

Files = list[list[str | None]]  # name and fingerprint of each photo


@dataclass(frozen=True)
class PatchSettings:
    """Options of a scene; scenes made with different ones do not mix in one set."""

    support: float = SUPPORT_SIGMAS  # width of a patch in detector sigmas
    max_keypoints: int = 6000  # a photo
    elliptic: float = 0.0  # share of the points whose regions are elliptic, as `hynet match` has them


def make_part(
    name: str, folder: Path, parts: Path, settings: PatchSettings, threads: int, mapper_threads: int = 1
) -> None:
    """Make SET/.parts/NAME from the photos of a scene, whole. A scene that cannot be made says why."""
    files = files_of(folder)  # before they are read: a change in between is noticed next time
    work = _work_folder(name, files, parts, settings)
    try:
        scene = reconstruct_scene(
            images.list_photos(folder),
            work,
            max_keypoints=settings.max_keypoints,
            threads=threads,
            mapper_threads=mapper_threads,
        )
        tracks = correspondence.tracks(scene)
        if len(tracks.photo) == 0:
            raise NotReconstructed("no keypoint was seen twice.")
    except (NotReconstructed, DataNotFound) as error:
        _write_part(parts, _about(name, files, settings, str(error)))
    else:
        note = {
            **_about(name, files, settings),
            "registered": len(scene.photos),
            "registered_by": scene.registered_by,
            "points": int(tracks.point[-1]) + 1,
            "patches": len(tracks.point),
            "correspondences": len(tracks.hard),
            "hard": int(tracks.hard.sum()),
            "unreadable": scene.unreadable,
        }
        _write_part(parts, note, _columns(scene, tracks), _patches(scene, tracks, settings))
    shutil.rmtree(work, ignore_errors=True)


def _work_folder(name: str, files: Files, parts: Path, settings: PatchSettings) -> Path:
    """Folder in which a run that was cut off goes on, if photos and settings are those it began with."""
    work = parts / f".work-{name}"
    key = json.dumps([files, noted(settings)])
    if not (work / "key.json").exists() or (work / "key.json").read_text(encoding="utf-8") != key:
        shutil.rmtree(work, ignore_errors=True)
        with atomic_write(work / "key.json") as temporary:
            temporary.write_text(key, encoding="utf-8")
    return work


def noted(settings: PatchSettings) -> dict[str, Any]:
    """Settings as a part notes them; where regions are elliptic, with their network."""
    return asdict(settings) | ({"shape_network": fingerprints.files(SHIPPED)[:8]} if settings.elliptic else {})


def _about(name: str, files: Files, settings: PatchSettings, skipped: str | None = None) -> dict[str, Any]:
    """Describe a part. skipped: why."""
    return {
        "name": name,
        "settings": noted(settings),
        "photos": len(files),
        "skipped": skipped,
        "files": files,
        "registered_by": None,
    }


def _columns(scene: Scene, tracks: correspondence.Tracks) -> dict[str, Array]:
    """Columns of interest.txt: the point of each row as its reference photo sees it."""
    reference = np.searchsorted(tracks.point, tracks.point)  # the first row of the same point
    photo, keypoint = tracks.photo[reference], tracks.keypoint[reference]
    frames = np.stack([scene.photos[p].keypoints.frames[k] for p, k in zip(photo, keypoint, strict=True)])
    seen = Keypoints(frames, np.ones(len(frames)))
    return {
        "point": tracks.point,
        "image": photo,
        "xy": seen.xy,
        "angle": seen.angle,
        "log2_scale": np.log2(seen.sigma),
        "first": tracks.first,
        "second": tracks.second,
        "hard": tracks.hard,
    }


def _patches(scene: Scene, tracks: correspondence.Tracks, settings: PatchSettings) -> Array:
    patches = np.empty((len(tracks.point), ubc.TILE, ubc.TILE), np.uint8)
    before, after = (np.floor(settings.elliptic * (tracks.point + step)) for step in (0, 1))
    elliptic = after > before  # of 0.5, every second point
    shapes = AffineNetwork() if settings.elliptic else None
    for number, photo in enumerate(scene.photos):
        rows = np.flatnonzero(tracks.photo == number)
        image, keypoints = images.read(photo.path), photo.keypoints[tracks.keypoint[rows]]
        if shapes is not None:
            some, frames = keypoints[elliptic[rows]], keypoints.frames.copy()
            frames[elliptic[rows]] = _rotated_like(shapes(image, some), some).frames
            keypoints = Keypoints(frames, keypoints.scores)
        patches[rows] = cut(image, keypoints, ubc.TILE, settings.support)
    return patches


def _rotated_like(upright: Keypoints, keypoints: Keypoints) -> Keypoints:
    """Rotate upright ellipses until what lies to the right in the patches of these keypoints does so in theirs."""
    shapes, places = np.split(upright.frames, [2], axis=2)
    x, y = np.linalg.solve(shapes, keypoints.frames[:, :, :1])[:, :, 0].T  # to the right, in each ellipse
    return Keypoints(np.concatenate([shapes @ rotations(np.arctan2(y, x)), places], 2), keypoints.scores)


def _write_part(
    parts: Path, note: Mapping[str, Any], columns: Mapping[str, Array] | None = None, patches: Array | None = None
) -> None:
    part, temporary = parts / note["name"], parts / f".new-{note['name']}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    if columns is not None and patches is not None:
        np.save(temporary / "patches.npy", patches)
        np.savez(temporary / "columns.npz", **columns)  # type: ignore[arg-type]
    (temporary / "part.json").write_text(json.dumps(note), encoding="utf-8")
    shutil.rmtree(part, ignore_errors=True)
    temporary.rename(part)


def write_failed(name: str, folder: Path, parts: Path, settings: PatchSettings, why: str) -> None:
    """Note a failure, without files, so that it does not count as done: the next run tries again."""
    _write_part(parts, {**_about(name, files_of(folder), settings, f"failed: {why}"), "files": None})


def photos_of(folder: Path) -> list[Path]:
    try:
        return images.list_photos(folder)
    except DataNotFound:
        return []


def files_of(folder: Path) -> Files:
    """List names and contents of the photos: when they change, the scene is made again."""
    return [[str(path.relative_to(folder)), fingerprints.photo(path)] for path in photos_of(folder)]
