"""How many verified pairs retrieval finds, and how alike photos are that are one, of one place, or of two: what
sfm/pairs.NEIGHBOURS and the limits of sfm/collection_pairs are chosen by.

Usage: python studies/retrieval.py COLLECTION [--photos FOLDER] [--neighbours 10 20 30 50] [--jobs 2]

COLLECTION is made by `hynet extract` from scenes of different places, its photos named SCENE/PHOTO. All pairs of one
scene are matched and verified; a pair of two scenes cannot be right. Recall is over the pairs with at least 15 inliers,
and over those with at least 30. Similarities are of the vectors, each photo with the most alike of its scene and of all
others; with the folder of the photos, also of some photos with copies of them.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np

from hynet import images
from hynet.extractors.settings import Settings
from hynet.sfm.collection_pairs import PAIR_SECONDS, TOGETHER
from hynet.sfm.neighbours import alike, nearest
from hynet.sfm.pairs import unique_pairs
from hynet.sfm.photo_vectors import vectors_of
from hynet.sfm.retrieval import PhotoVectors
from hynet.system.arrays import read_npz
from hynet.system.batches import Batch, Failed, done
from hynet.system.cluster import open_cluster

COPIED = 12  # photos

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("collection", type=Path)
parser.add_argument("--photos", type=Path)
parser.add_argument("--neighbours", type=int, nargs="+", default=[10, 20, 30, 50])
parser.add_argument("--jobs", type=int, default=0)
asked = parser.parse_args()

with open_cluster("local", asked.jobs) as cluster:
    names, vectors = vectors_of(asked.collection, cluster)
    scenes = np.array([name.partition("/")[0] for name in names])
    tried = [(a, b) for a, b in combinations(range(len(names)), 2) if scenes[a] == scenes[b]]
    known = asked.collection / "inliers.json"  # of an earlier run
    inliers = {tuple(pair): count for pair, count in json.loads(known.read_text())} if known.exists() else {}
    todo = [pair for pair in tried if pair not in inliers]
    batches = iter(
        [
            Batch(
                "hynet.sfm.collection_pairs:count_inliers",
                asked.collection.absolute(),
                tuple((names[a], names[b], a, b) for a, b in todo[start : start + TOGETHER]),
                PAIR_SECONDS,
            )
            for start in range(0, len(todo), TOGETHER)
        ]
    )
    for batch, result in done(cluster, lambda: next(batches, None)):
        if not isinstance(result, Failed):
            inliers |= {(a, b): count for (_, _, a, b), count in zip(batch.items, result, strict=True)}
            known.write_text(json.dumps([*map(list, inliers.items())]))

verified = {least: {pair for pair, count in inliers.items() if count >= least} for least in (15, 30)}
print(
    f"{len(names)} photos of {len(set(scenes))} scenes, {len(tried)} pairs tried, "
    f"{len(verified[15])} with 15 inliers, {len(verified[30])} with 30\n"
)
print("| neighbours | pairs | of all pairs | recall, 15 inliers | recall, 30 inliers |\n|---|---|---|---|---|")
for kind, search in (("", alike), (", vectors not averaged", nearest)):
    rows, _ = search(vectors, max(asked.neighbours), exact=True)
    for count in asked.neighbours:
        chosen = set(map(tuple, unique_pairs(rows[:, :count]).tolist()))
        recall = [len(verified[least] & chosen) / max(1, len(verified[least])) for least in (15, 30)]
        share = len(chosen) / (len(names) * (len(names) - 1) / 2)
        print(f"| {count}{kind} | {len(chosen):,} | {share:.0%} | {recall[0]:.1%} | {recall[1]:.1%} |")


def copies() -> dict[str, np.ndarray]:
    """Kind of copy -> its similarity to the photo, of some photos."""
    if asked.photos is None:
        return {}
    learnt = PhotoVectors(**read_npz(asked.collection / "vectors" / "learnt.npz"))
    extract = Settings(**json.loads((asked.collection / "settings.json").read_text())).open_extractor()
    found: dict[str, list[float]] = {}
    for row in np.linspace(0, len(names) - 1, COPIED).astype(int):
        photo = images.read(asked.photos / names[row])
        height, width = photo.shape
        made = {
            "its copy as JPEG of quality 50": cv2.imdecode(
                cv2.imencode(".jpg", photo, [cv2.IMWRITE_JPEG_QUALITY, 50])[1], 0
            ),
            "its copy of half the size": cv2.resize(photo, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA),
            "its middle, 90% of each side": photo[height // 20 : -height // 20, width // 20 : -width // 20],
        }
        for kind, copy in made.items():
            found.setdefault(kind, []).append(float(vectors[row] @ learnt(extract(copy).descriptors)))
    return {kind: np.array(each) for kind, each in found.items()}


similar = vectors @ vectors.T
np.fill_diagonal(similar, -np.inf)
same = scenes[:, None] == scenes[None]
print("\n| similarity of a photo and | 1% | 5% | 50% | 95% | 99% |\n|---|---|---|---|---|---|")
kinds = {
    "the most alike of its scene": np.where(same, similar, -np.inf).max(1),
    "the most alike of other scenes": np.where(same, -np.inf, similar).max(1),
    **copies(),
    "one that it shares 30 inliers with": np.array([similar[pair] for pair in verified[30]] or [np.nan]),
}
for kind, found in kinds.items():
    if not np.isfinite(found).any():  # one scene has no others
        continue
    quantiles = np.quantile(found[np.isfinite(found)], [0.01, 0.05, 0.5, 0.95, 0.99])
    print(f"| {kind} | {' | '.join(f'{value:.2f}' for value in quantiles)} |")
