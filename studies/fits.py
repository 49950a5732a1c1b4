"""How exactly homographies and fundamental matrices are fitted to refined matches: what the last step of each brings.

Usage: python studies/planar_choosing.py PATH/TO/data/train PLANES
       python studies/choosing.py PATH/TO/data/train OUT
       python studies/fits.py PLANES OUT/stereo

First table: AUC of homographies at 1 and 5 pixels, and the median error of their corners; MAGSAC++ is OpenCV's.
Second: mAA at 10 degrees of the poses in fundamental matrices, scenes counted alike, beside DEGENSAC's by paired
bootstrap. `default`, 2,048 keypoints with elliptic regions; two seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import poselib

from hynet import geometry, metrics
from hynet.benchmarks.harness.methods import Method, Setting, open_methods
from hynet.benchmarks.homography import corner_error
from hynet.benchmarks.imc import stereo
from hynet.datasets import scenes, sequences
from hynet.matchers.consensus import Consensus
from hynet.matchers.nearest import match
from hynet.matchers.refinement import refine_anyones
from hynet.types import Array

SEEDS = range(2)
THRESHOLD = 3.0  # pixels, of a homography's inliers


def method_for(photos: list[Path]) -> Method:
    return open_methods(["default"], Setting(("dog",), 2048, False, "auto", "affine-network"), photos=photos)[0]


# --- Homographies ---


def by_magsac(first: Array, second: Array, seed: int) -> Array | None:
    options = cv2.UsacParams()
    options.score, options.threshold = cv2.SCORE_METHOD_MAGSAC, THRESHOLD
    options.maxIterations, options.confidence = 10_000, geometry.CONFIDENCE
    options.randomGeneratorState = seed
    return cv2.findHomography(first.astype(np.float64), second.astype(np.float64), options)[0]


def by_poselib(scale: float) -> Callable[[Array, Array, int], Array | None]:
    def fit(first: Array, second: Array, seed: int) -> Array | None:
        asked = {"max_reproj_error": THRESHOLD, "seed": seed, "max_iterations": geometry.HOMOGRAPHY_ITERATIONS}
        points = (each.astype(np.float64) for each in (first, second))
        H, _ = poselib.estimate_homography(*points, asked, {"loss_type": "CAUCHY", "loss_scale": scale})
        return H

    return fit


def homographies(data: Path) -> None:
    fits = {"MAGSAC++": by_magsac, **{f"PoseLib, {scale:g} px": by_poselib(scale) for scale in (1.0, 0.5, 0.25, 0.1)}}
    found = sequences.load(data)
    method = method_for([photo for sequence in found for photo in sequence.photos])
    errors: dict[str, list[list[float]]] = {
        f"{places}, {fit}": [] for places in ("detected", "refined") for fit in fits
    }
    for sequence in found:
        photo, *others = sequence.photos
        a = method.features(photo)
        for other, H in zip(others, sequence.homographies, strict=True):
            b = method.features(other)
            matches = match(a, b, ratio=1.0)
            refined = refine_anyones(photo, other, a, b, matches)
            for name, fit in fits.items():
                for places, points in (("detected", matches.places(a, b)), ("refined", refined.places(a, b))):
                    models = [fit(*points, seed) for seed in SEEDS]
                    errors[f"{places}, {name}"].append([corner_error(model, H, a.image_size) for model in models])
    print("| | AUC at 1 px | at 5 px | median error, px |\n|---|---|---|---|")
    for name, own in errors.items():
        at = [f"{100 * metrics.auc_credits(np.ravel(own), pixels).mean():.1f}" for pixels in (1, 5)]
        print(f"| {name} | {' | '.join(at)} | {np.median(own):.3f} |", flush=True)


# --- Fundamental matrices ---

Last = Callable[[Array, Array, Array], Array]  # F, (K, 2) and (K, 2) places -> F


def fitted(near: float, scale: float) -> Last:
    def fit(F: Array, first: Array, second: Array) -> Array:
        close = geometry.sampson_distance(F, first, second) < near
        loss = {"loss_type": "CAUCHY", "loss_scale": scale}
        return poselib.refine_fundamental(first[close], second[close], F, loss)[0]

    return fit


def fundamentals(data: Path) -> None:
    steps: dict[str, Last] = {"DEGENSAC": lambda F, first, second: F}
    for near, scale in ((1.0, 0.25), (1.0, 0.5), (2.0, 0.25), (2.0, 0.5), (3.0, 0.25), (3.0, 0.5), (3.0, 1.0)):
        steps[f"fitted to those within {near:g} px, {scale:g} px"] = fitted(near, scale)
    credits: dict[str, list[Array]] = {f"{at}, {step}": [] for at in ("refined", "detected") for step in steps}
    of_scene = []
    for scene in scenes.load(data):
        method = method_for([view.photo for view in scene.views.values()])
        for pair in scene.pairs:
            of_scene.append(scene.name)
            views = scene.views[pair[0]], scene.views[pair[1]]
            a, b = (method.features(view.photo) for view in views)
            matches = Consensus()(a, b)
            refined = refine_anyones(views[0].photo, views[1].photo, a, b, matches)
            for at, places in (("refined", refined.places(a, b)), ("detected", matches.places(a, b))):
                first, second = (each.astype(np.float64) for each in places)
                found = [stereo.fundamental(first, second, seed) for seed in SEEDS]
                for name, step in steps.items():
                    errors = [pose_error(F, inliers, step, first, second, views) for F, inliers in found]
                    credits[f"{at}, {name}"].append(100 * metrics.maa_credits(np.array(errors)).mean())
    groups = [np.flatnonzero(np.array(of_scene) == scene) for scene in sorted(set(of_scene))]
    random = np.random.default_rng(0)
    drawn = [[random.choice(group, len(group)) for group in groups] for _ in range(metrics.ROUNDS)]
    usual = np.array(credits["refined, DEGENSAC"])
    print(f"\n{len(of_scene)} pairs of {len(groups)} scenes\n\n| | mAA | over the first, 95% |\n|---|---|---|")
    for name, own in credits.items():
        over = np.array(own) - usual
        low, high = np.percentile([np.mean([over[rows].mean() for rows in each]) for each in drawn], (2.5, 97.5))
        mean, difference = (np.mean([values[rows].mean() for rows in groups]) for values in (np.array(own), over))
        print(f"| {name} | {mean:.2f} | {difference:+.2f} [{low:+.2f}, {high:+.2f}] |", flush=True)


def pose_error(F: Array | None, inliers: Array, step: Last, first: Array, second: Array, views) -> float:
    if F is None:
        return stereo.FAILED
    F = step(F, first, second)
    own, other = views
    pose = geometry.pose_from_fundamental(F, first[inliers], second[inliers], first_K=own.K, second_K=other.K)
    return geometry.pose_error(pose, scenes.second_from_first(own.cam_from_world, other.cam_from_world))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planes", type=Path)
    parser.add_argument("stereo", type=Path)
    asked = parser.parse_args()
    homographies(asked.planes)
    fundamentals(asked.stereo)
