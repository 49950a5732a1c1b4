"""Two photos -> the error of their relative pose, as the Image Matching Challenge 2020 measures it.

A ratio test in both directions, DEGENSAC with the challenge's parameters, E = K2' F K1, the pose that puts most inliers
in front of both cameras; the error is the larger of rotation and direction of translation, whose sign is unknown. Every
pose is scored, also where OpenCV finds no inlier nearer than 50 baselines: the challenge does not look at that count.
What is not the challenge's way has a keyword: refined places, fitted F, known cameras.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache as remember
from typing import Any

import numpy as np

from ... import geometry, images
from ... import matching as matchers
from ...datasets import scenes
from ...datasets.scenes import Scene, View, second_from_first
from ...geometry import estimators, two_views
from ...images import patches
from ...matching.nearest import nearest
from ...matching.settings import THRESHOLDS
from ...runtime import cache, fingerprints
from ...types import Array, Features, Matches, Progress, silent
from ..methods import Method, key

# The challenge's, which `estimators.fundamental` need not share
THRESHOLD, CONFIDENCE, ITERATIONS, FEWEST = 0.5, 0.999999, 100_000, 8  # pixels, -, -, matches and inliers
CALIBRATED_THRESHOLD = THRESHOLDS["essential"]  # pixels, of known cameras
FAILED = 180.0  # degrees
BLOCK = 50  # pairs whose errors are stored at a time: what a kill costs


def scene_errors(
    method: Method,
    scene: Scene,
    ratio: float,
    seeds: int,
    progress: Progress = silent,
    *,
    known_cameras: bool = False,
    refined: bool = False,
) -> Array:
    """(pairs, seeds) degrees.

    known_cameras: as `pose_errors` has it; refined: matches are located exactly and F is fitted to all near it, as
    `hynet match` does. Neither is the challenge's way.
    """

    @remember  # 2,048 features are a megabyte; a scene of the challenge has 100 photos
    def features(name: str) -> Features:
        return method.features(scene.views[name].photo)

    def places(first: str, second: str) -> tuple[Array, Array]:
        a, b = features(first), features(second)
        rows = matches_of(method, a, b, ratio)
        matches = Matches(rows, np.zeros(len(rows), np.float32))
        if refined:
            from ...matching.refinement import refine_external

            matches = refine_external(scene.views[first].photo, scene.views[second].photo, a, b, matches)
        return matches.places(a, b)

    def errors(first: str, second: str) -> list[float]:
        views = scene.views[first], scene.views[second]
        return pose_errors(*places(first, second), views, seeds, known_cameras=known_cameras, fitted=refined)

    blocks = []
    for start in range(0, len(scene.pairs), BLOCK):
        progress(start, len(scene.pairs), f"{method.name} on {scene.name}")
        some = scene.pairs[start : start + BLOCK]

        def measure(some: Sequence[tuple[str, str]] = some) -> Array:
            return np.array([errors(a, b) for a, b in some])

        depends_on = _key(method, scene, some, ratio, seeds) | {"known_cameras": known_cameras, "refined": refined}
        blocks.append(measure() if method.fingerprint is None else cache.array(depends_on, measure))
    return np.concatenate(blocks)


def pose_errors(
    first: Array,
    second: Array,
    views: tuple[View, View],
    seeds: int,
    *,
    known_cameras: bool = False,
    fitted: bool = False,
) -> list[float]:
    """Degrees by which the poses found from matches, (K, 2) pixels of each photo, are wrong, one a seed.

    known_cameras: the essential matrix is fitted, by PoseLib, with the true cameras; else they are only used to take
    the pose from the fundamental matrix.
    fitted: DEGENSAC's fundamental matrix is fitted to all matches near it, unlike in the challenge. Known cameras need
    none.
    """
    a, b = first.astype(np.float64), second.astype(np.float64)
    true = second_from_first(*(view.cam_from_world for view in views))
    if known_cameras:
        found = [_calibrated_pose(a, b, views, seed) for seed in range(seeds)]
    else:
        found = [_pose(a, b, views, seed, fitted) for seed in range(seeds)]
    return [FAILED if pose is None else two_views.pose_error(pose, true) for pose in found]


def matches_of(method: Method, first: Features, second: Features, ratio: float) -> Array:
    """(K, 2) rows: by the method's own matcher where it has one, else nearest neighbours; of equal positions one."""
    if method.matcher is None:
        return matches_both_ways(first, second, ratio)
    return _each_place_once(first, second, method.matcher(first, second).indices)


def matches_both_ways(first: Features, second: Features, ratio: float) -> Array:
    """(K, 2) rows that choose each other, both by d1 <= ratio * d2; of equal positions one."""
    if not len(first) or not len(second):
        return np.zeros((0, 2), np.int64)
    forth, back = _one_way(first, second, ratio), _one_way(second, first, ratio)
    rows = np.flatnonzero((forth >= 0) & (back[forth] == np.arange(len(first))))
    return _each_place_once(first, second, np.column_stack([rows, forth[rows]]))


def _each_place_once(first: Features, second: Features, matches: Array) -> Array:
    places = np.hstack([first.keypoints.xy[matches[:, 0]], second.keypoints.xy[matches[:, 1]]])  # (K, 4)
    return matches[np.sort(np.unique(places, axis=0, return_index=True)[1])]


def _pose(a: Array, b: Array, views: tuple[View, View], seed: int, fitted: bool) -> two_views.Pose | None:
    """(K, 2), (K, 2) -> the pose, None where none is found."""
    F, inliers = challenge_fundamental(a, b, seed)
    if F is None:
        return None
    if fitted:
        F = estimators.fitted_fundamental(F, a, b, THRESHOLDS["fundamental"])
    return two_views.pose_from_fundamental(F, a[inliers], b[inliers], first_K=views[0].K, second_K=views[1].K)


def _calibrated_pose(a: Array, b: Array, views: tuple[View, View], seed: int) -> two_views.Pose | None:
    pose, inliers = estimators.relative_pose(
        a, b, CALIBRATED_THRESHOLD, first_K=views[0].K, second_K=views[1].K, seed=seed
    )
    return pose if inliers.sum() >= FEWEST else None


def _one_way(first: Features, second: Features, ratio: float) -> Array:
    """(N,) nearest of each in the second, -1 where the runner-up is too near."""
    a, b = (np.ascontiguousarray(each.descriptors, np.float32) for each in (first, second))
    best, runner_up, _ = nearest(a, b)
    near, next_near = (np.linalg.norm(a - b[column], axis=1) for column in (best, runner_up))
    return np.where((runner_up < 0) | (near <= ratio * next_near), best, -1)


def challenge_fundamental(first: Array, second: Array, seed: int) -> tuple[Array | None, Array]:
    """Fit F as the challenge does: the matrix and (K,) bool inliers."""
    if len(first) < FEWEST:
        return None, np.zeros(len(first), bool)
    F, inliers = estimators.degensac(
        first,
        second,
        px_th=THRESHOLD,
        conf=CONFIDENCE,
        max_iters=ITERATIONS,
        laf_consistensy_coef=0,
        error_type="sampson",
        symmetric_error_check=True,
        enable_degeneracy_check=True,
        seed=seed,
    )
    return (F if inliers.sum() >= FEWEST else None), inliers


def _key(method: Method, scene: Scene, pairs: Sequence[tuple[str, str]], ratio: float, seeds: int) -> dict[str, Any]:
    """Everything that the errors of some pairs depend on."""
    views = [scene.views[name] for name in sorted({name for pair in pairs for name in pair})]
    return {
        "what": "imc",
        "features": [key(method, view.photo) for view in views],
        "cameras": [view.to_list() for view in views],
        "pairs": pairs,
        "ratio": ratio,
        "seeds": seeds,
        "code": fingerprints.code(sys.modules[__name__], matchers, geometry, scenes, patches, images),
    }
