"""COLMAP's own SIFT and stereo: for patch sets, and for comparing with. Its stereo runs where it was built with CUDA
only, so never on the machine this was written on."""

from __future__ import annotations

from pathlib import Path

from .package import SEED, pycolmap

LONGEST_SIDE = 1200  # pixels, as the ETH benchmark


def extract_sift(database: Path, folder: Path, max_keypoints: int) -> None:
    """Extract by COLMAP's own detector and descriptor, on the CPU."""
    colmap = pycolmap()
    options = colmap.FeatureExtractionOptions()
    options.use_gpu, options.sift.max_num_features = False, max_keypoints
    colmap.extract_features(database, folder, extraction_options=options)


def match_sift(database: Path, *, neighbours: int | None = None, threads: int = -1) -> None:
    """Match and verify every pair of photos, or each photo with so many neighbours in the order of their names."""
    colmap = pycolmap()
    options = colmap.FeatureMatchingOptions()
    options.use_gpu, options.num_threads = False, threads
    verification = colmap.TwoViewGeometryOptions()
    verification.ransac.random_seed = SEED
    if neighbours is None:
        colmap.match_exhaustive(database, options, verification_options=verification)
    else:
        pairing = colmap.SequentialPairingOptions()
        pairing.overlap = neighbours
        colmap.match_sequential(database, options, pairing, verification)


def dense_points(model: Path, photos: Path, work: Path) -> int | None:
    """Count fused points as the ETH benchmark does, without geometric consistency; None without CUDA.

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
