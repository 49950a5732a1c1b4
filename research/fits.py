"""How exactly homographies and fundamental matrices are fitted to refined matches: what the last step of each brings.

Usage: python research/planar_choosing.py PATH/TO/data/train PLANES
       python research/choosing.py PATH/TO/data/train OUT
       python research/fits.py PLANES OUT/stereo

First table: AUC of homographies at 1 and 5 pixels, and the median error of their corners; MAGSAC++ is OpenCV's.
Second: mAA at 10 degrees of the poses in fundamental matrices, scenes counted alike, beside DEGENSAC's of the same
matches by paired bootstrap. `default`, 2,048 keypoints with elliptic regions; two seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import poselib

from hynet import geometry, metrics
from hynet.datasets import scenes, sequences
from hynet.evaluation.imc import stereo
from hynet.evaluation.methods import Method, Setting, open_methods
from hynet.matching.consensus import Consensus
from hynet.matching.nearest import match
from hynet.matching.refinement import refine_external
from hynet.types import Array, Matches

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


def as_shipped(first: Array, second: Array, seed: int) -> Array | None:
    return geometry.homography(first, second, THRESHOLD, seed=seed)[0]


def homographies(data: Path) -> None:
    fixed = {f"PoseLib, {scale:g} px": by_poselib(scale) for scale in (1.0, 0.25)}
    fits = {"MAGSAC++": by_magsac, **fixed, "PoseLib, then as far as inliers are off": as_shipped}
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
            refined = refine_external(photo, other, a, b, matches)
            for name, fit in fits.items():
                for places, points in (("detected", matches.places(a, b)), ("refined", refined.places(a, b))):
                    models = [fit(*points, seed) for seed in SEEDS]
                    errors[f"{places}, {name}"].append(
                        [np.inf if each is None else geometry.corner_error(each, H, a.image_size) for each in models]
                    )
    print("| | AUC at 1 px | at 5 px | median error, px |\n|---|---|---|---|")
    for name, own in errors.items():
        at = [f"{100 * metrics.auc_credits(np.ravel(own), pixels).mean():.1f}" for pixels in (1, 5)]
        print(f"| {name} | {' | '.join(at)} | {np.median(own):.3f} |", flush=True)


# --- Fundamental matrices ---

NEAR_AND_SCALE = ((1.0, 0.25), (1.0, 0.5), (2.0, 0.5), (3.0, 0.25), (3.0, 0.5), (3.0, 1.0))


def fundamentals(data: Path) -> None:
    credits: dict[tuple[str, str], list[float]] = {}
    of_scene = []
    for scene in scenes.load(data):
        method = replace(method_for([view.photo for view in scene.views.values()]), matcher=Consensus())
        for pair in scene.pairs:
            of_scene.append(scene.name)
            own, other = (scene.views[name] for name in pair)
            a, b = method.features(own.photo), method.features(other.photo)
            rows = stereo.matches_of(method, a, b, 1.0)
            detected = Matches(rows, np.zeros(len(rows), np.float32))
            refined = refine_external(own.photo, other.photo, a, b, detected)
            for where, matches in (("refined", refined), ("detected", detected)):
                for step, errors in pose_errors(*matches.places(a, b), own, other).items():
                    credit = 100 * metrics.maa_credits(np.array(errors)).mean()
                    credits.setdefault((where, step), []).append(float(credit))
    groups = [np.flatnonzero(np.array(of_scene) == scene) for scene in sorted(set(of_scene))]
    random = np.random.default_rng(0)
    drawn = [[random.choice(group, len(group)) for group in groups] for _ in range(metrics.ROUNDS)]
    print(f"\n{len(of_scene)} pairs of {len(groups)} scenes\n\n| | mAA | over DEGENSAC, 95% |\n|---|---|---|")
    for (where, step), scores in credits.items():
        over = np.array(scores) - np.array(credits[where, "DEGENSAC"])
        low, high = np.percentile([np.mean([over[rows].mean() for rows in each]) for each in drawn], (2.5, 97.5))
        mean, difference = (np.mean([values[rows].mean() for rows in groups]) for values in (np.array(scores), over))
        print(f"| {where}, {step} | {mean:.2f} | {difference:+.2f} [{low:+.2f}, {high:+.2f}] |", flush=True)


def pose_errors(first: Array, second: Array, own: scenes.View, other: scenes.View) -> dict[str, list[float]]:
    """Last step -> the error of each seed, in degrees; matches are (K, 2) pixels of each photo."""
    true = scenes.second_from_first(own.cam_from_world, other.cam_from_world)
    first, second = first.astype(np.float64), second.astype(np.float64)
    errors: dict[str, list[float]] = {}
    for seed in SEEDS:
        F, inliers = stereo.challenge_fundamental(first, second, seed)
        models = {"DEGENSAC": F}
        for near, scale in NEAR_AND_SCALE:
            step = f"fitted to those within {near:g} px, scale {scale:g} px"
            models[step] = (
                F if F is None else geometry.fitted_fundamental(F, first, second, 1.0, near=near, scale=scale)
            )
        for step, model in models.items():
            error = stereo.FAILED
            if model is not None:
                points = first[inliers], second[inliers]
                pose = geometry.pose_from_fundamental(model, *points, first_K=own.K, second_K=other.K)
                error = geometry.pose_error(pose, true)
            errors.setdefault(step, []).append(error)
    return errors


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planes", type=Path)
    parser.add_argument("stereo", type=Path)
    asked = parser.parse_args()
    homographies(asked.planes)
    fundamentals(asked.stereo)
