"""Verifying matches: the geometry of two photos, and the matches that agree with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import BadInput, choose
from ..geometry import estimators, two_views
from ..geometry.estimators import Fit
from ..types import Array, Features, Matches, need_features
from .settings import THRESHOLDS

# A camera is wrong if the matches support it less than this, relative to the fundamental matrix, which fits any: it is
# free in two more ways, and fits a few matches or a facade a little better than the true camera: studies/cameras.py.
SUPPORTED = 0.9

Cameras = tuple[Array, Array]  # K of each photo, (3, 3)


def verify(
    a: Features,
    b: Features,
    matches: Matches,
    geometry: str = "auto",
    *,
    threshold: float | None = None,
    seed: int = 0,
    cameras: Cameras | None = None,
) -> Fit:
    """Find the inliers of a geometry, or none where chance would give as many.

    geometry: "auto" is the first of these that the matches support: "essential" where both focal lengths are known,
        "shared-focal" (one unknown focal length) for photos of one size, "fundamental".
    threshold: pixels of the original photo; None: as calibrated for the features, else as in THRESHOLDS.
    cameras: the two matrices K; None: by the focal lengths that the features carry. Only "essential", asked for by
        name, guesses those that are not known.
    """
    need_features(a, b)
    if threshold is not None and not 0 < threshold < np.inf:
        raise BadInput(f"the threshold must be more than 0 pixels, got {threshold:g}.")
    if cameras is not None and not all(np.shape(K) == (3, 3) and np.isfinite(K).all() for K in cameras):
        raise BadInput("cameras must be two 3 x 3 matrices of finite numbers.")
    known = cameras or known_cameras(a, b)
    if geometry == "auto":
        return _supported(a, b, matches, threshold, seed, known)
    return _fit(a, b, matches, geometry, threshold, seed, known)


def known_cameras(a: Features, b: Features) -> Cameras | None:
    """Return the matrices K of two photos whose focal lengths are known."""
    if a.focal is None or b.focal is None:
        return None
    return two_views.camera(a.focal, a.image_size), two_views.camera(b.focal, b.image_size)


def _supported(
    a: Features, b: Features, matches: Matches, threshold: float | None, seed: int, known: Cameras | None
) -> Fit:
    """Fit the geometry that "auto" chooses, and say why."""
    first, second = matches.places(a, b)
    pixels = threshold or a.thresholds.get("fundamental", THRESHOLDS["fundamental"])

    def support(fit: Fit) -> float:
        """Sum over matches of 1 for each that is exact, down to 0 at the threshold."""
        if fit.fundamental is None:
            return 0.0
        return float(
            np.maximum(0, 1 - (two_views.sampson_distance(fit.fundamental, first, second) / pixels) ** 2).sum()
        )

    def fitted(geometry: str) -> Fit:
        return _fit(a, b, matches, geometry, threshold, seed, known if geometry == "essential" else None)

    choices = ["essential"] * (known is not None) + ["shared-focal"] * (a.image_size == b.image_size)
    beside = ThreadPoolExecutor(1)  # DEGENSAC works in a process of its own: what may be chosen is fitted meanwhile
    try:
        freely = beside.submit(fitted, "fundamental")
        fit = fitted(choices[0]) if choices else freely.result()
        free = freely.result()
    finally:
        beside.shutdown(wait=False)  # Ctrl-C does not wait for it
    least, why = SUPPORTED * support(free), ""
    if known is None:
        unknown = [name for name, each in (("first", a), ("second", b)) if each.focal is None]
        why = f"the focal length of the {unknown[0]} photo is not known"
        if len(unknown) == 2:
            why = "the focal lengths are not known"
    elif support(fit) >= least:
        return replace(fit, why="both focal lengths are known")
    else:
        share = support(fit) / support(free)
        why = f"the known focal lengths look wrong, matches fit them only {share:.0%} as well as free cameras"
    if "shared-focal" in choices:
        fit = fit if choices[0] == "shared-focal" else fitted("shared-focal")
        if support(fit) >= least and len(fit):
            return replace(fit, why=f"{why}; the photos have one size, and one focal length fits both")
    return replace(free, why=why)


def _fit(
    a: Features,
    b: Features,
    matches: Matches,
    geometry: str,
    threshold: float | None,
    seed: int,
    known: Cameras | None,
) -> Fit:
    usual = choose(THRESHOLDS, geometry, "geometry")
    threshold = a.thresholds.get(geometry, usual) if threshold is None else threshold
    sampling: dict[str, Any] = {"seed": seed, "best_first": matches.confidence is not None}
    order = (
        np.argsort(-matches.confidence, kind="stable") if matches.confidence is not None else np.arange(len(matches))
    )
    first, second = matches[order].places(a, b)  # (K, 2) each
    model: Array | None
    pose = F = focal = None
    if geometry == "essential":
        first_K, second_K = known or (two_views.guess_camera(a.image_size), two_views.guess_camera(b.image_size))
        pose, inliers = estimators.relative_pose(
            first, second, threshold, first_K=first_K, second_K=second_K, **sampling
        )
        model = None if pose is None else two_views.essential_from_pose(pose)
        F = None if pose is None else two_views.fundamental_from_pose(pose, first_K, second_K)
    elif geometry == "shared-focal":
        if a.image_size != b.image_size:
            raise BadInput("one focal length for both needs photos of one size, as one camera takes them.")
        pose, focal, inliers = estimators.shared_focal(first, second, threshold, image_size=a.image_size, **sampling)
        K = two_views.camera(focal, a.image_size)
        model = F = None if pose is None else two_views.fundamental_from_pose(pose, K, K)
    elif geometry == "fundamental":
        model, inliers = estimators.fundamental(first, second, threshold, seed=seed)
        F = model
    else:
        model, inliers = estimators.homography(first, second, threshold, **sampling)
    inliers = inliers[np.argsort(order)]  # in the order of the matches again
    found = int(inliers.sum())
    if model is None or not estimators.beyond_chance(geometry, found, len(matches), threshold, b.image_size):
        nothing = np.zeros(len(matches), bool)
        return Fit(matches[nothing], None, nothing, name=geometry)
    return Fit(matches[inliers], model, inliers, pose, geometry, fundamental=F, focal=focal)
