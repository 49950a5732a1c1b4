"""Which keypoints and which matches: the tables that the defaults of DoG and `consensus` were chosen by.

Usage: python research/choosing.py PATH/TO/data/train OUT
       python research/matching.py OUT/stereo FEATURES     FEATURES: a folder for features, kept for the next time
       python research/matching.py OUT/stereo FEATURES --pool 8000

2,048 of 4,096 (--pool) upright DoG keypoints a photo, default, in the first table matched by `consensus`. mAA at 10
degrees of the essential matrix by the true cameras (PoseLib, 1 px), scenes counted alike, beside the first row by
paired bootstrap; matches, and how many are right (within 3 pixels of their epipolar line), in the mean over all pairs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from hynet import metrics
from hynet.datasets import scenes
from hynet.features.detectors import selection
from hynet.features.detectors.dog import DoG
from hynet.features.extractors.patchwise import Extractor
from hynet.geometry import estimators, two_views
from hynet.matching.consensus import Consensus
from hynet.matching.nearest import Nearest, match
from hynet.types import Array, Features, Keypoints, Matches

POOL, COUNT = 4096, 2048
FINEST = 1.6  # pixels: sizes of the first octave
RIGHT = 3.0  # pixels
FAILED = 180.0  # degrees
ROUNDS = 1000

Select = Callable[[Keypoints, tuple[int, int]], Array]  # keypoints, strongest first, and (W, H) -> rows
Match = Callable[[Features, Features], Matches]


def strongest(power: float, cells: int | None = None) -> Select:
    """By contrast times sigma to a power; with cells of so many keypoints, these take turns."""

    def rows(found: Keypoints, size: tuple[int, int]) -> Array:
        selection.PER_CELL = cells or selection.PER_CELL
        worth = found.scores * found.sigma**power
        return selection.best_rows(found.xy, worth, COUNT, size[::-1] if cells else None)

    return rows


def distinct(pixels: float, sigmas: float) -> Select:
    """The strongest, without those near a stronger one; those only where there are not enough others."""

    def rows(found: Keypoints, size: tuple[int, int]) -> Array:
        tree, order = cKDTree(found.xy), np.argsort(-found.scores, kind="stable")
        radii, shadowed = pixels + sigmas * found.sigma, np.zeros(len(found), bool)
        for row in order:
            if not shadowed[row]:
                shadowed[tree.query_ball_point(found.xy[row], radii[row])] = True
                shadowed[row] = False
        return order[np.argsort(shadowed[order], kind="stable")][:COUNT]

    return rows


def gently(fall: float, cells: int) -> Select:
    """By contrast times the root of sigma, which falls with each stronger one in its cell."""

    def rows(found: Keypoints, size: tuple[int, int]) -> Array:
        worth = found.scores * np.sqrt(found.sigma)
        order = np.argsort(-worth, kind="stable")
        return order[np.argsort(-worth[order] / (1 + _turns(found, order, size, cells)) ** fall, kind="stable")][:COUNT]

    return rows


def half(share: float, cells: int) -> Select:
    """A share of the strongest anywhere, the rest from cells that take turns."""

    def rows(found: Keypoints, size: tuple[int, int]) -> Array:
        order = np.argsort(-found.scores * np.sqrt(found.sigma), kind="stable")
        first, turns = int(share * COUNT), _turns(found, order, size, cells)
        rest = order[first:][np.argsort(turns[first:], kind="stable")]
        return np.concatenate([order[:first], rest])[:COUNT]

    return rows


def by_size(cells: int, times: float) -> Select:
    """Spread, among so many times as many as are kept; each octave of sizes has a grid of its own, of larger cells."""

    def rows(found: Keypoints, size: tuple[int, int]) -> Array:
        order = np.argsort(-found.scores * np.sqrt(found.sigma), kind="stable")[: int(times * COUNT)]
        octave = np.floor(np.log2(found.sigma[order] / FINEST)).clip(0)
        side = np.sqrt(cells * size[0] * size[1] / COUNT) * 2**octave
        seen: Counter[tuple[float, ...]] = Counter()
        turns = []
        for cell in zip(octave, *(found.xy[order].T // side), strict=True):
            turns.append(seen[cell])
            seen[cell] += 1
        return order[np.argsort(turns, kind="stable")][:COUNT]

    return rows


def _turns(found: Keypoints, order: Array, size: tuple[int, int], cells: int) -> Array:
    """How many of the same cell come before."""
    width, height = size
    column, row = (found.xy[order] // np.sqrt(cells * height * width / COUNT)).astype(np.int64).T
    seen: Counter[tuple[int, int]] = Counter()
    turns = []
    for cell in zip(column.tolist(), row.tolist(), strict=True):
        turns.append(seen[cell])
        seen[cell] += 1
    return np.array(turns)


def nearer(limit: float) -> Match:
    def found(a: Features, b: Features) -> Matches:
        matches = match(a, b)
        return matches[matches.distances < limit]

    return found


SELECTIONS: Mapping[str, Select] = {
    "strongest": strongest(0),
    **{f"strongest by contrast x sigma^{power}": strongest(power) for power in (0.5, 1)},
    **{f"strongest, not within {px} px of a stronger one": distinct(px, 0) for px in (2, 4)},
    **{f"spread, {cells} a cell, by contrast x sigma^0.5": strongest(0.5, cells) for cells in (4, 8, 16, 32)},
    "spread, 8 a cell, by contrast": strongest(0, 8),
    "spread, 8 a cell, by contrast x sigma^1": strongest(1, 8),
    "a quarter strongest, the rest spread, 8 a cell": half(0.25, 8),
    "half strongest, the rest spread, 8 a cell": half(0.5, 8),
    "spread gently, 8 a cell": gently(0.5, 8),
    **{
        f"spread by size, {cells} a cell, of {pool} times as many": by_size(cells, pool)
        for cells in (4, 8)
        for pool in (1.5, 2)
    },
    "all": lambda found, size: np.arange(len(found)),
}
CHOSEN = "spread, 8 a cell, by contrast x sigma^0.5"
MATCHERS: Mapping[str, Match] = {
    **{f"nearest, ratio {ratio}": Nearest(ratio) for ratio in (0.9, 0.8, 0.85, 0.95)},
    "nearest, ratio 0.9, distance below 0.9": nearer(0.9),
    "nearest, ratio 0.9, distance below 0.8": nearer(0.8),
    **{f"consensus, probability {least}": Consensus(least=least) for least in (0.05, 0.1, 0.2, 0.3, 0.5)},
}


@dataclass(frozen=True)
class Row:
    """One setting, a number a pair."""

    credits: Array
    matches: Array
    right: Array


def finder(pool: int) -> Extractor:
    """What finds the keypoints that are selected from."""
    return Extractor(detector=DoG(pool, upright=True, spread=False), max_keypoints=pool, orientation="upright")


def keep(file: Path, photo: Path, extract: Extractor) -> None:
    if not file.exists():
        found = extract(photo)
        values = {"frames": found.keypoints.frames, "scores": found.keypoints.scores}
        half = file.with_suffix(".part.npz")
        np.savez(half, descriptors=found.descriptors.astype(np.float16), size=found.image_size, **values)
        half.rename(file)


@cache
def features(file: Path) -> Features:
    stored = np.load(file)
    width, height = stored["size"].tolist()
    keypoints = Keypoints(stored["frames"], stored["scores"])
    return Features(keypoints, stored["descriptors"].astype(np.float32), (width, height), ratio=0.9)


def measured(found: Sequence[scenes.Scene], folder: Path, select: Select, matcher: Match) -> Row:
    @cache
    def chosen(scene: str, name: str) -> Features:
        every = features(folder / f"{scene}-{name}.npz")
        return every[select(every.keypoints, every.image_size)]

    rows = []
    for scene in found:
        for names in scene.pairs:
            a, b = (chosen(scene.name, name) for name in names)
            first_K, second_K = (scene.views[name].K for name in names)
            true = scenes.second_from_first(*(scene.views[name].cam_from_world for name in names))
            matches = matcher(a, b).indices
            points = a.keypoints.xy[matches[:, 0]], b.keypoints.xy[matches[:, 1]]
            pose, _ = estimators.relative_pose(*points, 1.0, first_K=first_K, second_K=second_K)
            error = FAILED if pose is None else two_views.pose_error(pose, true)
            F = two_views.fundamental_from_pose(true, first_K, second_K)
            right = int((two_views.sampson_distance(F, *points) < RIGHT).sum())
            rows.append((100 * metrics.maa_credits(np.array([error]))[0], len(matches), right))
    return Row(*np.array(rows).T)


def table(found: Sequence[scenes.Scene], rows: Mapping[str, Callable[[], Row]]) -> None:
    names = np.repeat([scene.name for scene in found], [len(scene.pairs) for scene in found])
    groups = [np.flatnonzero(names == scene.name) for scene in found]
    print(f"{len(names)} pairs\n\n| | mAA | against the first, 95% | matches | right |\n|---|---|---|---|---|")
    base: Array | None = None
    for name, measure in rows.items():
        row = measure()
        base = row.credits if base is None else base
        gain, random = row.credits - base, np.random.default_rng(0)
        rounds = [np.mean([random.choice(gain[group], len(group)).mean() for group in groups]) for _ in range(ROUNDS)]
        low, high = np.percentile(rounds, [2.5, 97.5])
        mean = np.mean([row.credits[group].mean() for group in groups])
        difference = np.mean([gain[group].mean() for group in groups])
        print(
            f"| {name} | {mean:.1f} | {difference:+.1f} [{low:+.1f}, {high:+.1f}] | {row.matches.mean():.0f} "
            f"| {row.right.mean():.0f} |",
            flush=True,
        )


def main(data: Path, folder: Path, pool: int) -> None:
    found = scenes.load(data)
    folder /= str(pool)
    folder.mkdir(parents=True, exist_ok=True)
    extract = finder(pool)
    for scene in found:
        for name in sorted({name for pair in scene.pairs for name in pair}):
            keep(folder / f"{scene.name}-{name}.npz", scene.views[name].photo, extract)
    usual = Consensus()
    table(found, {name: lambda s=select: measured(found, folder, s, usual) for name, select in SELECTIONS.items()})
    best = SELECTIONS[CHOSEN]
    table(found, {name: lambda m=matcher: measured(found, folder, best, m) for name, matcher in MATCHERS.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pool", type=int, default=POOL)
    main(**vars(parser.parse_args()))
