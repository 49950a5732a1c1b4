"""The weights of hynet.matching.confidence, fitted to pairs of photos with known cameras, and how well they hold.

Usage: python research/choosing.py PATH/TO/data/train OUT
       python research/confidence.py OUT/stereo FEATURES                    fits; matches are tested on scenes left out
       python research/confidence.py --test PATH/TO/data/eval/imc FEATURES  only tests the weights that are in use

FEATURES is a folder for features, as in matching.py, whose selection of keypoints is used. A match is right within 3
pixels of its epipolar line. Pairs across scenes show nothing in common; a pair within a scene is solvable where its
pose is found within 10 degrees with the true cameras.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from matching import CHOSEN, POOL, SELECTIONS, features, finder, keep
from scipy.optimize import minimize
from scipy.special import expit

from hynet.datasets import scenes
from hynet.geometry import two_views
from hynet.matching import confidence as in_use
from hynet.matching.nearest import match, nearest
from hynet.matching.verification import verify
from hynet.types import Array, Features

RIGHT = 3.0  # pixels
SOLVED = 10.0  # degrees
FOLDS, BINS = 5, 15
RIDGE = 1e-4  # keeps weights of places finite: a few inliers tell all
ACROSS, MORE_ACROSS = 250, 1750  # pairs of different scenes: for all weights, and for those of places only


@dataclass(frozen=True)
class Pair:
    """Two photos and their mutual nearest neighbours."""

    scenes: tuple[str, str]
    seen: tuple[Features, Features]
    matches: Array  # (K, 2)
    ratios: Array  # (K,)
    right: Array  # (K,) bool
    solvable: bool


def described(found: Sequence[scenes.Scene], folder: Path) -> dict[tuple[str, str], Features]:
    folder.mkdir(parents=True, exist_ok=True)
    extract = finder(POOL)
    seen = {}
    for scene in found:
        for name in sorted({name for pair in scene.pairs for name in pair}):
            file = folder / f"{scene.name}-{name}.npz"
            keep(file, scene.views[name].photo, extract)
            every = features(file)
            seen[scene.name, name] = every[SELECTIONS[CHOSEN](every.keypoints, every.image_size)]
    return seen


def compared(a: Features, b: Features) -> tuple[Array, Array]:
    """Mutual nearest neighbours and their ratios."""
    _, runner_up, _ = nearest(a.descriptors, b.descriptors)
    matches = match(a, b, 1.0)
    rows = matches.indices[:, 0]
    farther = np.linalg.norm(a.descriptors[rows] - b.descriptors[runner_up[rows]], axis=1)
    return matches.indices, matches.distances / np.maximum(farther, 1e-12)


def gather(data: Path, folder: Path) -> list[Pair]:
    found = scenes.load(data)
    seen = described(found, folder)
    pairs = []
    for scene in found:
        for names in scene.pairs:
            a, b = (seen[scene.name, name] for name in names)
            views = [scene.views[name] for name in names]
            true = scenes.second_from_first(*(view.cam_from_world for view in views))
            matches, ratios = compared(a, b)
            F = two_views.fundamental_from_pose(true, views[0].K, views[1].K)
            points = a.keypoints.xy[matches[:, 0]], b.keypoints.xy[matches[:, 1]]
            fit = verify(a, b, match(a, b), "essential", cameras=(views[0].K, views[1].K))
            solvable = fit.pose is not None and two_views.pose_error(fit.pose, true) < SOLVED
            right = two_views.sampson_distance(F, *points) < RIGHT
            pairs.append(Pair((scene.name, scene.name), (a, b), matches, ratios, right, solvable))
    across = [(k, m) for k, m in combinations(sorted(seen), 2) if k[0] != m[0]]
    drawn = np.random.default_rng(0).choice(len(across), min(ACROSS, len(across)), replace=False)
    others = np.random.default_rng(1).choice(len(across), min(MORE_ACROSS, len(across)), replace=False)
    for index in [*drawn, *np.setdiff1d(others, drawn)]:
        first, second = across[index]
        a, b = seen[first], seen[second]
        matches, ratios = compared(a, b)
        pairs.append(Pair((first[0], second[0]), (a, b), matches, ratios, np.zeros(len(matches), bool), False))
    return pairs


# --- Fitting ---


def fitted(columns: Sequence[Array], right: Array, ridge: float = 0.0) -> tuple[float, ...]:
    """Weights of a logistic regression, the constant last."""
    X = np.column_stack([*columns, np.ones(len(right))])

    def loss(weights: Array) -> tuple[float, Array]:
        total = X @ weights
        value = np.mean(np.logaddexp(0, total) - right * total) + ridge * (weights @ weights)
        return float(value), X.T @ (expit(total) - right) / len(X) + 2 * ridge * weights

    return tuple(minimize(loss, np.zeros(X.shape[1]), jac=True, method="BFGS").x.round(4).tolist())


def use_fitted(pairs: Sequence[Pair]) -> None:
    """Fit the regressions of matches, the second on top of the first."""
    ratios, right = (np.concatenate([getattr(pair, name) for pair in pairs]) for name in ("ratios", "right"))
    in_use.BY_RATIO = fitted([ratios], right)
    support = [both_ways(pair) for pair in pairs if len(pair.matches) > in_use.NEIGHBOURS]
    many = [pair for pair in pairs if len(pair.matches) > in_use.NEIGHBOURS]
    fewer, every = (np.log(in_use.LITTLE + np.concatenate([each[k] for each in support])) for k in range(2))
    columns = [np.concatenate([pair.ratios for pair in many]), fewer, every]
    in_use.BY_NEIGHBOURS = fitted(columns, np.concatenate([pair.right for pair in many]))


def use_fitted_places(pairs: Sequence[Pair]) -> None:
    """Builds on the other two, and takes long: every pair is verified."""
    judged = [pair for pair in pairs if pair.solvable or pair.scenes[0] != pair.scenes[1]]
    measured = np.array([evidence(pair) for pair in judged])
    together = np.array([pair.solvable for pair in judged])
    in_use.SAME_PLACE = fitted(list(np.log1p(measured).T), together, RIDGE)


def both_ways(pair: Pair) -> tuple[Array, Array]:
    frames = [each.keypoints.frames[rows].astype(float) for each, rows in zip(pair.seen, pair.matches.T, strict=True)]
    alone = in_use._logistic(in_use.BY_RATIO, pair.ratios)
    sides = [max(each.image_size) for each in pair.seen]
    there = in_use.supporters(*frames, alone, *sides)
    back = in_use.supporters(*frames[::-1], alone, *sides[::-1])
    return np.minimum(there, back), there + back


def evidence(pair: Pair) -> tuple[float, int]:
    """Expected right matches, and inliers."""
    a, b = pair.seen
    found = match(a, b, 1.0)
    kept = found[found.confidence >= in_use.LEAST]
    return float(kept.confidence.sum()), len(verify(a, b, kept, "fundamental"))


# --- How well it holds ---


def judged(pairs: Sequence[Pair]) -> tuple[Array, Array]:
    """Of matches within scenes the confidence, and whether they are right."""
    own = [pair for pair in pairs if pair.scenes[0] == pair.scenes[1]]
    sure = [in_use.confidence(*pair.seen, *pair.matches.T, pair.ratios) for pair in own]
    return np.concatenate(sure), np.concatenate([pair.right for pair in own])


def report(sure: Array, right: Array) -> None:
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    order = np.argsort(-sure, kind="stable")
    precision = np.cumsum(right[order]) / np.arange(1, len(right) + 1)
    gaps = [abs(sure[bins == k].mean() - right[bins == k].mean()) * (bins == k).mean() for k in np.unique(bins)]
    print(f"{len(right)} matches, {right.mean():.1%} right; expected calibration error {sum(gaps):.2%}, ", end="")
    print(f"average precision {precision[right[order]].mean():.1%}")
    print("| confidence | matches | right |\n|---|---|---|")
    for k in np.unique(bins):
        inside = bins == k
        print(f"| {k / BINS:.2f} to {(k + 1) / BINS:.2f} | {inside.sum()} | {right[inside].mean():.3f} |")


def report_places(pairs: Sequence[Pair]) -> None:
    clear = [pair for pair in pairs if pair.solvable or pair.scenes[0] != pair.scenes[1]]
    truth = np.array([pair.solvable for pair in clear])
    found = [evidence(pair) for pair in clear]
    same = np.array([in_use.same_place(np.array([expected]), inliers) for expected, inliers in found]) >= 0.5
    print(f"pairs across scenes called one place: {same[~truth].sum()} of {(~truth).sum()}")
    print(f"solvable pairs called one place: {same[truth].sum()} of {truth.sum()}")


def left_out(pairs: Sequence[Pair]) -> None:
    """Each scene is judged by weights that were fitted without it."""
    names = sorted({name for pair in pairs for name in pair.scenes})
    parts = []
    for fold in range(FOLDS):
        out = set(names[fold::FOLDS])
        use_fitted([pair for pair in pairs if not out & {*pair.scenes}])
        parts.append(judged([pair for pair in pairs if out >= {*pair.scenes}]))
    report(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def main(data: Path, folder: Path, only_test: bool) -> None:
    pairs = gather(data, folder)
    if only_test:
        report(*judged(pairs))
        report_places(pairs)
        return
    within = sum(pair.scenes[0] == pair.scenes[1] for pair in pairs)
    of_matches = pairs[: within + ACROSS]  # more unrelated photos would make every match look doubtful
    left_out(of_matches)
    use_fitted(of_matches)
    use_fitted_places(pairs)
    report_places(pairs)
    for name in ("BY_RATIO", "BY_NEIGHBOURS", "SAME_PLACE"):
        print(f"{name} = {getattr(in_use, name)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--test", action="store_true", dest="only_test")
    main(**vars(parser.parse_args()))
