"""What known, unknown, guessed and wrong focal lengths do to relative poses: how `--geometry auto` was chosen.

Usage: python research/choosing.py PATH/TO/data/train OUT
       python research/cameras.py OUT/stereo [PAIRS_A_SCENE]

mAA at 10 degrees of the pose in each fit's fundamental matrix, by the true cameras, so that inliers and models are
judged, not what a wrong focal length makes of them; "own pose" is judged with the cameras that the fit believed. Last
column: how many pairs took which geometry, "none" where there were no inliers.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from hynet import geometry, metrics
from hynet.datasets import scenes
from hynet.features.extractors.patchwise import Extractor
from hynet.geometry import Fit
from hynet.matching.nearest import match
from hynet.matching.verification import verify

FAILED = 180.0
# row -> geometry, and the focal lengths told as factors of the true ones; None: not told
ROWS: dict[str, tuple[str, float | None]] = {
    "fundamental": ("fundamental", None),
    "shared focal length where sizes agree": ("shared-focal", None),
    "essential, focal length guessed": ("essential", None),
    "essential, true": ("essential", 1.0),
    "auto, unknown": ("auto", None),
    **{f"auto, {factor:g} of the true one": ("auto", factor) for factor in (1.0, 0.95, 1.05, 0.8, 1.25, 0.5, 2.0)},
}


def errors(fit: Fit, points, views) -> tuple[float, float]:
    """Degrees, by the true cameras and by the fit's own."""
    true = scenes.second_from_first(*(view.cam_from_world for view in views))
    own = FAILED if fit.pose is None else geometry.pose_error(fit.pose, true)
    if fit.fundamental is None:
        return FAILED, own
    first, second = (each[fit.is_inlier] for each in points)
    found = geometry.pose_from_fundamental(fit.fundamental, first, second, first_K=views[0].K, second_K=views[1].K)
    return geometry.pose_error(found, true), own


def main(data: Path, most: int = 24) -> None:
    extract = Extractor(orientation="upright")
    found: dict[str, list[tuple[float, float]]] = {row: [] for row in ROWS}
    taken: dict[str, Counter[str]] = {row: Counter() for row in ROWS}
    for scene in scenes.load(data):
        features = {}
        for pair in scene.pairs[:: max(1, len(scene.pairs) // most)]:
            for name in pair:
                features[name] = features.get(name) or extract(scene.views[name].photo)
            seen, views = [features[name] for name in pair], [scene.views[name] for name in pair]
            matches = match(*seen)
            points = [each.keypoints.xy[rows] for each, rows in zip(seen, matches.indices.T, strict=True)]
            for row, (asked, factor) in ROWS.items():
                focals = [None if factor is None else factor * float(view.K[0, 0]) for view in views]
                a, b = (replace(each, focal=focal) for each, focal in zip(seen, focals, strict=True))
                one_size = a.image_size == b.image_size
                fit = verify(a, b, matches, "fundamental" if asked == "shared-focal" and not one_size else asked)
                found[row].append(errors(fit, points, views))
                taken[row][fit.name if len(fit) else "none"] += 1
        print(f"{scene.name}, after it:", flush=True)
        for row, pairs in found.items():
            by_truth, own = (100 * metrics.maa_credits(np.array(each)).mean() for each in zip(*pairs, strict=True))
            print(f"| {row} | {by_truth:.1f} | {own:.1f} | {len(pairs)} | {dict(taken[row])} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("most", type=int, nargs="?", default=24, metavar="pairs_a_scene")
    main(**vars(parser.parse_args()))
