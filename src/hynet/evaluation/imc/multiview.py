"""Models from small bags of photos: the multi-view task of the Image Matching Challenge 2020.

Matches are those of the stereo task; COLMAP verifies them and makes models of at least
three photos, without knowing the cameras. Every pair of the bag counts by the error of its relative pose in the largest
model; a photo that is not in it fails all its pairs, and so does a bag without a model.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ... import geometry
from ... import matching as matchers
from ...datasets.scenes import Scene, second_from_first
from ...errors import BadData
from ...geometry import metrics
from ...geometry.two_views import Pose, pose_error
from ...runtime import cache, fingerprints
from ...types import Array
from ..methods import Method, key
from . import stereo
from .stereo import FAILED, matches_of

SIZES = {5: 100, 10: 50, 25: 25}  # photos in a bag -> how many such bags of a scene, as in the challenge
SMALLEST = 3  # photos of a model: the challenge's option min_model_size

Bag = tuple[str, ...]


def chosen_bags(scene: Scene, most: int | None) -> dict[int, list[Bag]]:
    """The challenge's own where they are listed, else random ones, none twice; at most `most` of each size."""
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


def bag_credits(method: Method, scene: Scene, bag: Bag, ratio: float) -> float:
    """The mAA(10) of one bag, in percent."""

    def measure() -> Array:
        found = _poses(method, scene, bag, ratio)
        errors = [_pose_error(scene, pair, found) for pair in combinations(bag, 2)]
        return np.array([100 * metrics.mean_average_accuracy(np.array(errors))])

    if method.fingerprint is None:
        return float(measure()[0])
    return float(cache.array(_key(method, scene, bag, ratio), measure)[0])


def pairs_to_match(scene: Scene, bag: Bag) -> list[tuple[str, str]]:
    """Pairs of a bag that the challenge lists as co-visible, or all where it has no list."""
    listed = {frozenset(pair) for pair in scene.pairs}
    return [pair for pair in combinations(bag, 2) if scene.all_pairs or frozenset(pair) in listed]


def _poses(method: Method, scene: Scene, bag: Bag, ratio: float) -> dict[str, Pose]:
    """Photo -> cam_from_world, of those in the largest model: verified and mapped as COLMAP does by default."""
    from ...sfm import colmap

    seen = {name: method.features(scene.views[name].photo) for name in bag}
    with tempfile.TemporaryDirectory(prefix="hynet-bag-") as place:
        database = Path(place) / "database.db"
        with colmap.opened(database) as store:
            for name, features in seen.items():
                camera = store.add_camera(colmap.guess_camera(features.image_size, scene.views[name].photo))
                store.add_photo(name, camera, features.keypoints.frames)
            for first, second in pairs_to_match(scene, bag):
                matches = matches_of(method, seen[first], seen[second], ratio)
                geometry = colmap.verify_pair(store.verifiable(first), store.verifiable(second), matches)
                store.add_pair(first, second, matches, geometry)
        try:
            task = colmap.MappingTask(smallest=SMALLEST, threads=1)  # not deterministic with several threads
            model = colmap.as_arrays(colmap.map_photos(database, asked=task))
        except colmap.NotReconstructed:
            return {}
    return {photo.name: Pose(photo.cam_from_world[:, :3], photo.cam_from_world[:, 3]) for photo in model.photos}


def _pose_error(scene: Scene, pair: tuple[str, str], found: Mapping[str, Pose]) -> float:
    if not found.keys() >= set(pair):
        return FAILED
    first, second = pair
    true = second_from_first(scene.views[first].cam_from_world, scene.views[second].cam_from_world)
    return pose_error(second_from_first(found[first], found[second]), true)


def need_colmap() -> None:
    """Raise the sentence that says how to install it, where pycolmap is missing."""
    from ...sfm import colmap

    colmap.pycolmap()


def _key(method: Method, scene: Scene, bag: Bag, ratio: float) -> dict[str, Any]:
    from ...sfm import colmap

    views = [scene.views[name] for name in bag]
    return {
        "what": "imc-multiview",
        "features": [key(method, view.photo) for view in views],
        "cameras": [view.to_list() for view in views],
        "pairs": pairs_to_match(scene, bag),
        "ratio": ratio,
        "code": fingerprints.code(sys.modules[__name__], stereo, colmap, matchers, geometry),
    }
