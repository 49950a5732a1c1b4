"""Matches by products of whole numbers beside those by floats, on real pairs of the scenes set aside for choosing.

Usage: OMP_NUM_THREADS=1 python research/rounded_matches.py PATH/TO/data/train MODEL KEYPOINTS PHOTOS

The first PHOTOS of each scene, all pairs: matches of `consensus` either way and how many are the same, inliers of
COLMAP's verification, and milliseconds of processor time that matching a pair takes.
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
from choosing import scenes

import hynet
from hynet import images
from hynet.matching.consensus import Consensus
from hynet.sfm.colmap.cameras import guess_camera, to_colmap
from hynet.sfm.colmap.database import verifiable, verify_pair


def main(train: Path, model: str, keypoints: int, photos: int) -> None:
    cv2.setNumThreads(1)
    extract = hynet.Extractor(model=model, max_keypoints=keypoints, orientation="upright")
    pairs, common = 0, 0
    told = {rounded: np.zeros(3) for rounded in (False, True)}  # matches, inliers, milliseconds
    for name in scenes():
        features = [extract(photo) for photo in images.list_photos(train / name)[:photos]]
        views = [verifiable(to_colmap(guess_camera(each.image_size)), each.keypoints.frames) for each in features]
        for a, b in combinations(range(len(features)), 2):
            found = []
            for rounded, sums in told.items():
                start = time.process_time()
                matches = Consensus(rounded=rounded)(features[a], features[b]).indices
                spent = 1e3 * (time.process_time() - start)
                sums += [len(matches), len(verify_pair(views[a], views[b], matches).inlier_matches), spent]
                found.append(set(map(tuple, matches.tolist())))
            pairs += 1
            common += len(found[0] & found[1])
    (matches, inliers, floats), (others, other_inliers, whole) = told.values()
    print("| | pairs | matches, floats / rounded | in common | inliers, floats / rounded | ms a pair |")
    print("|---|---|---|---|---|---|")
    print(
        f"| {model}, {keypoints:,} | {pairs} | {matches:,.0f} / {others:,.0f} | {common:,} | "
        f"{inliers:,.0f} / {other_inliers:,.0f} | {floats / pairs:.1f} -> {whole / pairs:.1f} |"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("model")
    parser.add_argument("keypoints", type=int)
    parser.add_argument("photos", type=int)
    main(**vars(parser.parse_args()))
