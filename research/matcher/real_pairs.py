"""Pairs of photos of a reconstructed scene, with the matches that its points and surfaces prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np

from .. import geometry, labels
from . import describing
from .hynet_paths import Array, Extractor, Keypoints, images
from .shards import Seen, Shard, Truth, encode

ENOUGH, POOR = 15, 3  # common points of a pair; with fewer than ENOUGH it has little in common
MOST, MOST_POOR = 70, 15  # pairs of a scene
MANY = 150  # common points: pairs with more are easy, and drawn less
LEAST_FOUND = 10  # positives of a pair that is not poor
TURNED = np.radians(30)  # upright keypoints of photos turned by more look different
FEW_TURNED = 0.3  # share of the photos that are also described with turned keypoints


def pairs(scene: geometry.Scene, random: np.random.Generator) -> list[geometry.Pair]:
    """The pairs to take: those with few common points rather than those with many, and some with very few."""
    found = geometry.pairs(scene, POOR)
    good = [pair for pair in found if pair.shared >= ENOUGH and pair.angle > 1]
    poor = [pair for pair in found if pair.shared < ENOUGH]
    weight = np.array([min(1.0, MANY / pair.shared) for pair in good])
    count = min(MOST, len(good))
    drawn = random.choice(len(good), count, replace=False, p=weight / weight.sum()) if count else []
    few = random.choice(len(poor), min(MOST_POOR, len(poor)), replace=False) if poor else []
    return [good[row] for row in sorted(drawn)] + [poor[row] for row in sorted(few)]


def make(folder: Path, photos: Path, models: Mapping[str, Extractor], seed: int = 0) -> Shard:
    """The shard of a scene: upright keypoints, and for a share of its photos turned ones, each with its own pairs."""
    random = np.random.default_rng(seed)
    scene = geometry.load(folder)
    drawn = pairs(scene, random)
    names = sorted({name for pair in drawn for name in (pair.a, pair.b)})
    some = set(random.permutation(names)[: int(np.ceil(FEW_TURNED * len(names)))].tolist())
    seen: list[Seen] = []
    truths: list[Truth] = []
    for upright in (True, False):
        used = [pair for pair in drawn if upright or {pair.a, pair.b} <= some]
        wanted = sorted({name for pair in used for name in (pair.a, pair.b)})
        views = {}
        with h5py.File(folder / "features.h5") as features:
            for name in wanted:
                one = photo(scene, features[name], photos / name, models, upright)
                views[name] = (len(seen), labels.view(scene, name, np.column_stack([one.xy, one.sigma, one.angle])))
                seen.append(one)
        for pair in used:
            (a, first), (b, second) = views[pair.a], views[pair.b]
            if upright and abs(rolled(scene.photos[pair.a], scene.photos[pair.b])) > TURNED:
                continue
            positives = labels.label(first, second, np.full((len(first.keypoints), 1), -1)).positives
            kind = "real" if pair.shared >= ENOUGH and len(positives) >= LEAST_FOUND else "poor"
            R, t = geometry.relative(scene.photos[pair.a], scene.photos[pair.b])
            truths.append(Truth((a, b), kind, positives, np.cross(t, R.T).T))
    return Shard(seen, truths)


def photo(
    scene: geometry.Scene,
    features: h5py.Group,
    path: Path,
    models: Mapping[str, Extractor],
    upright: bool,
    *,
    only: bool = False,
) -> Seen:
    """A photo's keypoints as reconstructed, upright or turned; descriptors that the file has are not made again.

    only: with no descriptors but those of `models`.
    """
    stored = {name: np.array(features[name]) for name in ("keypoints", "scales", "angles", "scores")}
    xy, sigma, angle, scores = stored.values()
    as_stored = upright != bool(angle.any())
    image = images.read(path)
    if not as_stored and upright:
        _, first = np.unique(np.column_stack([xy, sigma]), axis=0, return_index=True)
        xy, sigma, scores = xy[first], sigma[first], scores[first]
        angle = np.zeros(len(xy), np.float32)
    elif not as_stored:
        plain = Keypoints.from_circles(xy, sigma, np.zeros(len(xy)), scores)
        rows, angle = describing.turned(image, plain)
        xy, sigma, scores = xy[rows], sigma[rows], scores[rows]
    keypoints = Keypoints.from_circles(xy, sigma, angle, scores)
    codes = {}
    if as_stored and (not only or "default" in models):
        codes["default"] = encode(np.array(features["descriptors"]).T)
    codes |= describing.described(image, keypoints, {name: each for name, each in models.items() if name not in codes})
    camera = scene.photos[path.name]
    height, width = image.shape
    rays, focal = camera.rays(xy), float(camera.camera.mean_focal_length())
    return Seen(f"{scene.name}/{path.name}", (width, height), xy, sigma, angle, scores, rays, focal, codes)


def rolled(a: geometry.Photo, b: geometry.Photo) -> float:
    """Radians that the second photo is turned against the first about the line of sight."""
    R = b.R @ a.R.T
    return float(np.arctan2(R[1, 0] - R[0, 1], R[0, 0] + R[1, 1]))


def line_distances(a: Seen, b: Seen, geometry: Array, i: Array, j: Array) -> Array:
    """Pixels of pairs of keypoints from their epipolar line, the smaller of the distances in both photos."""
    one, two = (np.column_stack([seen.rays, np.ones(len(seen))]) for seen in (a, b))
    in_b, in_a = one[i] @ geometry.T, two[j] @ geometry
    miss = np.abs(np.sum(two[j] * in_b, 1))
    from_b = miss / np.maximum(np.hypot(in_b[:, 0], in_b[:, 1]), 1e-12) * b.focal
    from_a = miss / np.maximum(np.hypot(in_a[:, 0], in_a[:, 1]), 1e-12) * a.focal
    return np.minimum(from_a, from_b)


def scenes(root: Path, apart: Sequence[str]) -> list[Path]:
    """Finished reconstructions that may be trained on."""
    return sorted(path.parent for path in root.glob("*/images.bin") if path.parent.name not in apart)
