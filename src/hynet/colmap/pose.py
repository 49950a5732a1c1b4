"""Where one photo was taken, from points whose places in the world are known: COLMAP's robust estimator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import Array
from .cameras import Camera, from_colmap, to_colmap
from .package import HALF, SEED, pycolmap


@dataclass(frozen=True)
class AbsolutePose:
    """The pose of a photo, and how sure it is."""

    cam_from_world: Array  # (3, 4)
    camera: Camera  # its focal length estimated, where it was not known
    inliers: Array  # (K,) bool
    covariance: Array  # (6, 6) of the turn (3, radians) and the shift (3, units of the world), around the pose


def absolute_pose(camera: Camera, xy: Array, xyz: Array, pixels: float) -> AbsolutePose | None:
    """From (K, 2) in our pixels and (K, 3) in the world; inliers are off by at most `pixels`. None where there is none.

    A focal length that is not known is estimated, too.
    """
    if len(xy) < 4:
        return None
    colmap = pycolmap()
    estimation, refinement = colmap.AbsolutePoseEstimationOptions(), colmap.AbsolutePoseRefinementOptions()
    estimation.ransac.max_error, estimation.ransac.random_seed = pixels, SEED
    estimation.estimate_focal_length = refinement.refine_focal_length = not camera.known_focal
    seen_with = to_colmap(camera)
    found = colmap.estimate_and_refine_absolute_pose(
        np.asarray(xy, np.float64) + HALF,
        np.asarray(xyz, np.float64),
        seen_with,
        estimation,
        refinement,
        return_covariance=True,
    )
    if found is None or not np.isfinite(found["cam_from_world"].matrix()).all():
        return None
    inliers = np.asarray(found["inlier_mask"], bool)
    return AbsolutePose(
        np.asarray(found["cam_from_world"].matrix()),
        from_colmap(seen_with),
        inliers,
        np.asarray(found["covariance"]),
    )
