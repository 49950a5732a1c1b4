"""The pose of one photo from points whose places in the world are known: by COLMAP, or by PoseLib without it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...types import Array
from .cameras import Camera, from_colmap, to_colmap
from .package import HALF, SEED, installed, pycolmap

FOCALS = np.geomspace(0.5, 2, 15)  # times a focal length that is a guess: those that PoseLib is tried with


@dataclass(frozen=True)
class AbsolutePose:
    """The pose of a photo, and how sure it is."""

    cam_from_world: Array  # (3, 4)
    camera: Camera  # its focal length estimated, where it was not known
    inliers: Array  # (K,) bool
    covariance: Array | None = None  # (6, 6) of the turn (3, radians) and the shift (3, units of the world); by COLMAP


def absolute_pose(camera: Camera, xy: Array, xyz: Array, pixels: float) -> AbsolutePose | None:
    """Estimate from (K, 2) in our pixels and (K, 3) in the world; inliers are off by at most `pixels`.

    A focal length that is not known is estimated, too. None where no pose fits.
    """
    if len(xy) < 4:
        return None
    if not installed():
        return _by_poselib(camera, np.asarray(xy, np.float64), np.asarray(xyz, np.float64), pixels)
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


def _by_poselib(camera: Camera, xy: Array, xyz: Array, pixels: float) -> AbsolutePose | None:
    """Estimate the same without pycolmap. An unknown focal length is the one of FOCALS with the most inliers."""
    import poselib

    options = {"max_reproj_error": pixels, "seed": SEED}
    best: AbsolutePose | None = None
    for tried in [camera] if camera.known_focal else [_zoomed(camera, times) for times in FOCALS]:
        width, height = tried.size
        lens = {"model": tried.model, "width": width, "height": height, "params": list(tried.params)}
        found, info = poselib.estimate_absolute_pose(xy + HALF, xyz, lens, options, {})
        inliers = np.asarray(info["inliers"], bool)
        if best is None or inliers.sum() > best.inliers.sum():
            best = AbsolutePose(np.asarray(found.Rt), tried, inliers)
    return best if best is not None and best.inliers.any() and np.isfinite(best.cam_from_world).all() else None


def _zoomed(camera: Camera, times: float) -> Camera:
    """Multiply the focal lengths, which come first in COLMAP's parameters, one or two of them."""
    focals = 2 if camera.model in ("PINHOLE", "OPENCV") else 1
    params = (*(times * focal for focal in camera.params[:focals]), *camera.params[focals:])
    return replace(camera, params=params)
