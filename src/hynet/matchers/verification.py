"""Which matches agree with one geometry of the two photos, and which geometry that is."""

from __future__ import annotations

import numpy as np

from .. import geometry as geo
from ..errors import BadInput, choose
from ..geometry import Fit
from ..types import Array, Features, Matches, need_features

# geometry -> how far from the model a match may be, in pixels of the original photo, where nothing was calibrated
THRESHOLDS = {"fundamental": 1.0, "homography": 3.0, "essential": 1.0}


def verify(
    a: Features,
    b: Features,
    matches: Matches,
    geometry: str = "fundamental",
    *,
    threshold: float | None = None,
    seed: int = 0,
    cameras: tuple[Array, Array] | None = None,
) -> Fit:
    """The inliers of a geometry, or none when chance would give as many.

    threshold: pixels of the original photo; None: as calibrated for the features, else as in THRESHOLDS.
    cameras: the two (3, 3) matrices K, for "essential"; None: guessed from the sizes of the photos.
    """
    need_features(a, b)
    usual = choose(THRESHOLDS, geometry, "geometry")
    threshold = a.thresholds.get(geometry, usual) if threshold is None else threshold
    if not 0 < threshold < np.inf:
        raise BadInput(f"the threshold must be more than 0 pixels, got {threshold:g}.")
    if cameras is not None and not all(np.shape(K) == (3, 3) and np.isfinite(K).all() for K in cameras):
        raise BadInput("cameras must be two 3 x 3 matrices of finite numbers.")
    first, second = a.keypoints.xy[matches.indices[:, 0]], b.keypoints.xy[matches.indices[:, 1]]  # (K, 2) each
    model: Array | None
    pose = None
    if geometry == "essential":
        first_K, second_K = cameras or (geo.guess_camera(a.image_size), geo.guess_camera(b.image_size))
        pose, inliers = geo.relative_pose(first, second, threshold, first_K=first_K, second_K=second_K, seed=seed)
        model = None if pose is None else geo.essential_from_pose(pose)
    else:
        fit = geo.fundamental if geometry == "fundamental" else geo.homography
        model, inliers = fit(first, second, threshold, seed=seed)
    found = int(inliers.sum())
    if model is None or not geo.beyond_chance(geometry, found, len(matches), threshold, b.image_size):
        nothing = np.zeros(len(matches), bool)
        return Fit(matches[nothing], None, nothing)
    return Fit(matches[inliers], model, inliers, pose)
