"""SIFT by COLMAP alone, on the CPU: to make patch sets with, and to be compared with."""

from __future__ import annotations

from pathlib import Path

from .package import SEED, pycolmap


def extract_sift(database: Path, folder: Path, max_keypoints: int) -> None:
    """COLMAP's own detector and descriptor."""
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
