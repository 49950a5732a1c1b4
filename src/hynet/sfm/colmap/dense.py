"""Dense points, where COLMAP was built with CUDA: its stereo runs on nothing else. Never run on the machine it was
written on, which has none."""

from __future__ import annotations

from pathlib import Path

from .package import pycolmap

LONGEST_SIDE = 1200  # pixels, as the ETH benchmark


def dense_points(model: Path, photos: Path, work: Path) -> int | None:
    """Fused points as the ETH benchmark counts them, without geometric consistency; None without CUDA.

    What lies in the folder `work` already is not computed again.
    """
    colmap = pycolmap()
    if not colmap.has_cuda:
        return None
    size = colmap.UndistortCameraOptions()
    size.max_image_size = LONGEST_SIDE
    if not (work / "stereo").exists():
        colmap.undistort_images(work, model, photos, undistort_options=size)
    stereo = colmap.PatchMatchOptions()
    stereo.geom_consistency = False
    colmap.patch_match_stereo(work, options=stereo)
    fusion = colmap.StereoFusionOptions()
    fusion.min_num_pixels = 5
    fused = colmap.stereo_fusion(work / "fused", work, input_type="photometric", options=fusion)
    return int(fused.num_points3D())
