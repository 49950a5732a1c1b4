"""Models from small bags of photos: the multi-view task of the Image Matching Challenge 2020.

Each bag is reconstructed without knowing its cameras. Every pair of the bag counts by the error of its relative pose in
the largest model; a photo that is not in it fails all its pairs, and so does a bag without a model.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ... import colmap, geometry, matchers, metrics, sfm
from ...datasets.scenes import Scene, View, second_from_first
from ...errors import BadData
from ...extractors.hloc_file import write_group
from ...geometry import Pose, pose_error
from ...sfm.reconstruction import reconstruct
from ...system import cache, fingerprints
from ...types import Array, Progress, silent
from ..harness.methods import Method, key
from .stereo import FAILED

SIZES = {5: 100, 10: 50, 25: 25}  # photos in a bag -> how many such bags of a scene, as in the challenge

Bag = tuple[str, ...]


def chosen_bags(scene: Scene, most: int | None) -> dict[int, list[Bag]]:
    """The challenge's own where they are listed, else drawn by lot, none twice; at most so many of each size."""
    names = sorted(scene.views)
    bags: dict[int, list[Bag]] = {}
    for size, usual in SIZES.items():
        count = usual if most is None else min(most, usual)
        if scene.bags:
            bags[size] = list(scene.bags.get(size, []))[:count]
        elif size <= len(names):
            rng = np.random.default_rng(size)
            drawn = (tuple(sorted(rng.choice(names, size, replace=False).tolist())) for _ in range(20 * count))
            bags[size] = list(dict.fromkeys(drawn))[:count]
    bags = {size: some for size, some in bags.items() if some}
    if not bags:
        raise BadData(f"{scene.name} has {len(names)} photos; a bag needs at least {min(SIZES)}.")
    return bags


def bag_credits(method: Method, scene: Scene, bag: Bag, ratio: float, progress: Progress = silent) -> float:
    """The mAA(10) of one bag, in percent."""

    def measure() -> Array:
        return np.array([_credit(method, [scene.views[name] for name in bag], ratio, progress)])

    if method.fingerprint is None:
        return float(measure()[0])
    return float(cache.array(_key(method, scene, bag, ratio), measure)[0])


def _credit(method: Method, views: Sequence[View], ratio: float, progress: Progress) -> float:
    with tempfile.TemporaryDirectory(prefix="hynet-bag-") as place:
        photos, features = Path(place) / "photos", Path(place) / "features.h5"
        photos.mkdir()
        with h5py.File(features, "w") as file:
            for view in views:
                (photos / view.photo.name).symlink_to(view.photo.resolve())
                write_group(file, view.photo.name, method.features(view.photo))
        found = _reconstructed(photos, Path(place) / "model", features, ratio, progress)
    errors = [_pose_error(first, second, found) for first, second in combinations(views, 2)]
    return 100 * metrics.mean_average_accuracy(np.array(errors))


def _reconstructed(photos: Path, out: Path, features: Path, ratio: float, progress: Progress) -> dict[str, Pose]:
    """Photo -> cam_from_world, of those in the largest model."""
    try:
        reconstruct(photos, out, features=features, pairs="exhaustive", ratio=ratio, jobs=1, progress=progress)
    except colmap.NotReconstructed:
        return {}
    poses = {photo.name: photo.cam_from_world for photo in colmap.read_model(out).photos}
    return {name: Pose(pose[:, :3], pose[:, 3]) for name, pose in poses.items()}


def _pose_error(first: View, second: View, found: Mapping[str, Pose]) -> float:
    if first.photo.name not in found or second.photo.name not in found:
        return FAILED
    true = second_from_first(first.cam_from_world, second.cam_from_world)
    ours = second_from_first(found[first.photo.name], found[second.photo.name])
    return pose_error(ours, true)


def _key(method: Method, scene: Scene, bag: Bag, ratio: float) -> dict[str, Any]:
    views = [scene.views[name] for name in bag]
    return {
        "what": "imc-multiview",
        "features": [key(method, view.photo) for view in views],
        "cameras": [view.told() for view in views],
        "ratio": ratio,
        "code": fingerprints.code(sys.modules[__name__], colmap, matchers, sfm, geometry),
    }
