"""The model that most matches agree on, each kind fitted by the library that does it best, always with a seed.

Every function returns (model or None, (K,) bool inliers); `threshold` is in pixels. best_first: the surest matches come
first and are tried first, as PROSAC does; DEGENSAC has no such order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lgamma, log, pi
from typing import Any

import numpy as np

from ..runtime.processes import Worker
from ..types import Array, Matches
from .two_views import Pose, camera, cross_matrix, sampson_distance, transfer_error

CONFIDENCE = 0.9999
MAX_ITERATIONS = 100_000
# DEGENSAC often goes on to the last iteration although it is long sure. So a few come first, and all of them only
# where a share of inliers as small as was found could have been missed.
FEW_ITERATIONS = 2_000
HOMOGRAPHY_ITERATIONS = 10_000
# The last step of a fit minimises Cauchy's loss, so that a match several scales away hardly counts: docs/matching.md.
# Of a homography the scale is how far off its inliers are, at least FINEST pixels, looked at ROUNDS times; of a
# fundamental matrix, that and how far away matches have a say are shares of the threshold.
FINEST, ROUNDS = 0.05, 2
FUNDAMENTAL_SCALE, NEAR = 0.5, 3.0


@dataclass(frozen=True)
class Fit:
    """A geometry and the matches that agree with it. `model` is None when none was found: then none agrees."""

    inliers: Matches  # those that agree
    model: Array | None  # (3, 3): of "essential" in K^-1 pixels, else in pixels; of "shared-focal" the fundamental one
    is_inlier: Array  # (K,) bool, of all matches given
    pose: Pose | None = None  # of the second camera; only for "essential" and "shared-focal"
    name: str = "none"  # of the geometry that was fitted
    why: str = ""  # why "auto" chose this geometry
    fundamental: Array | None = None  # (3, 3) in pixels, of every geometry but "homography"
    focal: float | None = None  # pixels, that "shared-focal" found

    @property
    def matches(self) -> Matches:
        """The inliers."""
        return self.inliers

    def __len__(self) -> int:
        return len(self.inliers)


Found = tuple[Array | None, Array]


def fundamental(first: Array, second: Array, threshold: float, *, seed: int = 0) -> Found:
    """Find F by DEGENSAC, which is not fooled by a dominant plane, then fit it to all matches near it."""
    if _distinct(first, second) < 8:
        return _nothing(first)
    for iterations in (FEW_ITERATIONS, MAX_ITERATIONS):
        F, inliers = degensac(first, second, px_th=threshold, conf=CONFIDENCE, max_iters=iterations, seed=seed)
        # The chance that no sample of seven was all inliers.
        if (1 - inliers.mean() ** 7) ** iterations < 1 - CONFIDENCE:
            break
    if inliers.sum() >= 8:
        F = fitted_fundamental(F, first, second, threshold)
        return F, sampson_distance(F, first, second) < threshold
    # The same photo twice leaves F open, and DEGENSAC finds none: any epipole serves; take sideways motion.
    H, agree = homography(first, second, threshold, seed=seed)
    return _nothing(first) if H is None or agree.sum() < 8 else (cross_matrix(np.array([1.0, 0, 0])) @ H, agree)


def fitted_fundamental(
    F: Array, first: Array, second: Array, threshold: float, *, near: float = NEAR, scale: float = FUNDAMENTAL_SCALE
) -> Array:
    """Fit F to all matches near it: DEGENSAC's comes from a few of them."""
    import poselib

    close = sampson_distance(F, first, second) < near * threshold
    points = (np.asarray(each[close], np.float64) for each in (first, second))
    return poselib.refine_fundamental(*points, F, _cauchy(scale * threshold))[0]


# In a process of its own: DEGENSAC takes random numbers from libc, which every thread of a process draws from.
DEGENSAC = Worker(imports="pydegensac")


def degensac(first: Array, second: Array, **options: Any) -> tuple[Array, Array]:
    """Return F and (K,) bool inliers of `pydegensac.findFundamentalMatrix`, the same for the same seed."""
    points = (np.asarray(each, np.float64) for each in (first, second))
    F, inliers = DEGENSAC.call("pydegensac:findFundamentalMatrix", *points, **options)
    return F, np.asarray(inliers, bool)


def homography(first: Array, second: Array, threshold: float, *, seed: int = 0, best_first: bool = False) -> Found:
    """Find second_from_first by PoseLib, then fit it to all inliers; its last element is 1."""
    import poselib

    if _distinct(first, second) < 4:
        return _nothing(first)
    first, second = (np.asarray(each, np.float64) for each in (first, second))
    options = {**_poselib_options(threshold, seed, best_first), "max_iterations": HOMOGRAPHY_ITERATIONS}
    H, info = poselib.estimate_homography(first, second, options, _cauchy(1.0))
    inliers = np.asarray(info["inliers"], bool)
    for _ in range(ROUNDS):
        if inliers.sum() < 4:
            return _nothing(first)
        scale = max(FINEST, float(np.median(transfer_error(H, first[inliers], second[inliers]))))
        H = poselib.refine_homography(first[inliers], second[inliers], H, _cauchy(scale))[0]
        inliers = transfer_error(H, first, second) < threshold
    if inliers.sum() < 4 or not np.isfinite(H).all() or H[2, 2] == 0:
        return _nothing(first)
    return H / H[2, 2], inliers


def relative_pose(
    first: Array,
    second: Array,
    threshold: float,
    *,
    first_K: Array,
    second_K: Array,
    seed: int = 0,
    best_first: bool = False,
) -> tuple[Pose | None, Array]:
    """Find the pose of calibrated cameras without distortion by PoseLib, refined over all inliers."""
    import poselib

    if _distinct(first, second) < 5:
        return None, _nothing(first)[1]
    found, info = poselib.estimate_relative_pose(
        np.asarray(first, np.float64),
        np.asarray(second, np.float64),
        _poselib_camera(first_K),
        _poselib_camera(second_K),
        _poselib_options(threshold, seed, best_first),
        {},
    )
    inliers = np.asarray(info["inliers"], bool)
    return (_of_unit_length(found), inliers) if inliers.any() else (None, inliers)


def shared_focal(
    first: Array,
    second: Array,
    threshold: float,
    *,
    image_size: tuple[int, int],
    seed: int = 0,
    best_first: bool = False,
) -> tuple[Pose | None, float, Array]:
    """Find pose and focal length in pixels of one camera that took both photos, by PoseLib from six matches."""
    import poselib

    if _distinct(first, second) < 6:
        return None, 0.0, _nothing(first)[1]
    centre = camera(1.0, image_size)[:2, 2]
    found, info = poselib.estimate_shared_focal_relative_pose(
        np.asarray(first, np.float64) - centre,
        np.asarray(second, np.float64) - centre,
        np.zeros(2),
        _poselib_options(threshold, seed, best_first),
        {},
    )
    inliers, focal = np.asarray(info["inliers"], bool), float(found.camera1.focal())
    sound = inliers.any() and np.isfinite(focal) and focal > 0
    return (_of_unit_length(found.pose) if sound else None), focal, inliers


def _of_unit_length(found: Any) -> Pose:
    """PoseLib's pose, whose translation leaves unit length a little with every step of its refinement."""
    return Pose(found.R, found.t / np.linalg.norm(found.t))


def _cauchy(scale: float) -> dict[str, object]:
    """PoseLib's options of a fit that matches several scales away, in pixels, hardly move."""
    return {"loss_type": "CAUCHY", "loss_scale": scale}


def _poselib_options(threshold: float, seed: int, best_first: bool) -> dict[str, object]:
    return {
        "max_epipolar_error": threshold,
        "max_reproj_error": threshold,
        "seed": seed,
        "max_iterations": MAX_ITERATIONS,
        "success_prob": CONFIDENCE,
        "progressive_sampling": best_first,
    }


def _poselib_camera(K: Array) -> dict[str, object]:
    # Its size is not used for a pinhole camera, but has to be there.
    return {"model": "PINHOLE", "width": 0, "height": 0, "params": [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]}


def _distinct(first: Array, second: Array) -> int:
    """Count the matches that differ: one match fifty times fixes no model."""
    return len(set(map(tuple, np.hstack([first, second]).tolist())))


def _nothing(points: Array) -> Found:
    return None, np.zeros(len(points), bool)


# --- Is it more than chance? ---

# geometry -> (matches that fix a model, models they fix, chance that a random match is within t pixels of it)
CHANCE: dict[str, tuple[int, int, Callable[[float, int, int], float]]] = {
    "fundamental": (7, 3, lambda t, width, height: 2 * t * np.hypot(width, height) / (width * height)),
    "shared-focal": (6, 15, lambda t, width, height: 2 * t * np.hypot(width, height) / (width * height)),
    "essential": (5, 10, lambda t, width, height: 2 * t * np.hypot(width, height) / (width * height)),
    "homography": (4, 1, lambda t, width, height: pi * t * t / (width * height)),
}


def beyond_chance(geometry: str, inliers: int, matches: int, threshold: float, image_size: tuple[int, int]) -> bool:
    """True if random matches would give less than one model with so many inliers (Moisan & Stival's a-contrario test).

    Two photos that share nothing always have SOME model through a dozen matches.
    """
    sample, models, chance = CHANCE[geometry]
    if inliers <= sample:
        return False
    log_tests = log(models * (matches - sample)) + _choose(matches, inliers) + _choose(inliers, sample)
    return log_tests + (inliers - sample) * log(min(1.0, chance(threshold, *image_size))) < 0


def _choose(n: int, k: int) -> float:
    """log of the binomial coefficient."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
