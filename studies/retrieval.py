"""How many verified pairs retrieval finds, and how alike photos are that are one, of one place, or of two: what
sfm/pairs.NEIGHBOURS and the limits of sfm/collection_pairs were chosen by, and how they do on other scenes.

Usage: python studies/retrieval.py OUT SCENE_FOLDER... [--neighbours 10 20 30 50] [--model default] [--keypoints 1024]
           [--most PHOTOS_PER_SCENE] [--jobs 0] [--write docs/scale.md]

Each folder is a scene of a place of its own. Their photos are extracted into OUT/collection, upright; all pairs of one
scene are matched and verified, and a pair of two scenes cannot be right. Recall is over the pairs with at least 15
inliers, and over those with at least 30. Similarities are of the vectors, each photo with the most alike of its scene
and of all others, and some photos with copies of them. Everything is in OUT/retrieval.json, too. Run again, it goes
on; other photos need another OUT.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from scale_tables import write_tables
from scene_folders import photos_by_name, scene_of

from hynet import images
from hynet.extractors.collecting import extract_collection
from hynet.extractors.settings import Settings
from hynet.sfm.collection_pairs import PAIR_SECONDS, TOGETHER
from hynet.sfm.neighbours import alike, nearest
from hynet.sfm.pairs import NEIGHBOURS, Pair, unique_pairs
from hynet.sfm.photo_vectors import vectors_of
from hynet.sfm.retrieval import PhotoVectors
from hynet.system.arrays import read_npz
from hynet.system.batches import Batch, Failed, done
from hynet.system.cluster import Cluster, open_cluster
from hynet.system.files import whole

COPIED = 12  # photos
INLIERS = 15, 30  # that a pair must have to count
QUANTILES = 0.01, 0.05, 0.5, 0.95, 0.99
WAYS = {"": alike, ", vectors not averaged": nearest}


def write_list(path: Path, scenes: list[Path], most: int | None) -> dict[str, Path]:
    """SCENE/PHOTO -> the photo, also as a list for `hynet extract`."""
    named = photos_by_name(scenes, most)
    with whole(path) as temporary, temporary.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "name"), *((str(photo), name) for name, photo in named.items())])
    return named


def count_all(collection: Path, names: list[str], note: Path, cluster: Cluster) -> dict[Pair, int]:
    """Inliers of all pairs of one scene."""
    inliers = {(a, b): count for a, b, count in json.loads(note.read_text())} if note.exists() else {}
    tried = [pair for pair in combinations(names, 2) if scene_of(pair[0]) == scene_of(pair[1])]
    todo = [(*pair, 0, 0) for pair in tried if pair not in inliers]  # names, and places that nobody asks for here
    batches = (
        Batch("hynet.sfm.collection_pairs:count_inliers", collection.absolute(), tuple(some), PAIR_SECONDS)
        for some in (todo[start : start + TOGETHER] for start in range(0, len(todo), TOGETHER))
    )
    for batch, result in done(cluster, lambda: next(batches, None)):
        if isinstance(result, Failed):
            print(f"{batch.items[0][:2]} cannot be matched: {result.why}", file=sys.stderr)
            continue
        inliers |= {(a, b): count for (a, b, *_), count in zip(batch.items, result, strict=True)}
        print(f"{len(inliers):,} of {len(tried):,} pairs matched", file=sys.stderr, flush=True)
        with whole(note) as temporary:
            temporary.write_text(json.dumps([(*pair, count) for pair, count in inliers.items()]))
    return {pair: inliers[pair] for pair in tried if pair in inliers}


def recalled(names: list[str], vectors: np.ndarray, inliers: dict[Pair, int], counts: Iterable[int]) -> list[dict]:
    """A row for each number of neighbours, with averaged vectors and without."""
    verified = {least: {pair for pair, count in inliers.items() if count >= least} for least in INLIERS}
    rows = []
    for kind, search in WAYS.items():
        found, _ = search(vectors, max(counts), exact=True)
        for count in counts:
            chosen = {(names[a], names[b]) for a, b in unique_pairs(found[:, :count])}
            row: dict[str, Any] = {"neighbours": f"{count}{kind}", "pairs": len(chosen)}
            row["of_all"] = len(chosen) / (len(names) * (len(names) - 1) / 2)
            for least, right in verified.items():
                row[f"recall_{least}"] = len(right & chosen) / max(1, len(right))
            row["by_scene"] = {
                scene: round(len(of_scene & chosen) / len(of_scene), 4)
                for scene in dict.fromkeys(map(scene_of, names))
                if (of_scene := {pair for pair in verified[INLIERS[0]] if scene_of(pair[0]) == scene})
            }
            rows.append(row)
    return rows


def copies(collection: Path, names: list[str], vectors: np.ndarray, photos: dict[str, Path]) -> dict[str, np.ndarray]:
    """Kind of copy -> its similarity to the photo, of some photos."""
    learnt = PhotoVectors(**read_npz(collection / "vectors" / "learnt.npz"))
    extract = Settings(**json.loads((collection / "settings.json").read_text())).open_extractor()
    found: dict[str, list[float]] = {}
    for row in np.linspace(0, len(names) - 1, COPIED).astype(int):
        photo = images.read(photos[names[row]])
        height, width = photo.shape
        jpeg = cv2.imencode(".jpg", photo, [cv2.IMWRITE_JPEG_QUALITY, 50])[1]
        made = {
            "its copy as JPEG of quality 50": cv2.imdecode(jpeg, 0),
            "its copy of half the size": cv2.resize(photo, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA),
            "its middle, 90% of each side": photo[height // 20 : -height // 20, width // 20 : -width // 20],
        }
        for kind, copy in made.items():
            found.setdefault(kind, []).append(float(vectors[row] @ learnt(extract(copy).descriptors)))
    return {kind: np.array(each) for kind, each in found.items()}


def similarities(names: list[str], vectors: np.ndarray, inliers: dict[Pair, int]) -> dict[str, np.ndarray]:
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -np.inf)
    scenes = np.array([scene_of(name) for name in names])
    same = scenes[:, None] == scenes[None]
    place = {name: row for row, name in enumerate(names)}
    sharing = [similar[place[a], place[b]] for (a, b), count in inliers.items() if count >= INLIERS[1]]
    return {
        "the most alike of its scene": np.where(same, similar, -np.inf).max(1),
        "the most alike of other scenes": np.where(same, -np.inf, similar).max(1),
        f"one that it shares {INLIERS[1]} inliers with": np.array(sharing),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("scenes", type=Path, nargs="+")
    parser.add_argument("--neighbours", type=int, nargs="+", default=[10, 20, 30, NEIGHBOURS])
    parser.add_argument("--model", default="default")
    parser.add_argument("--keypoints", type=int, default=1024)
    parser.add_argument("--most", type=int)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    collection = asked.out / "collection"
    photos = write_list(asked.out / "photos.csv", asked.scenes, asked.most)
    settings = Settings(descriptor=asked.model, max_keypoints=asked.keypoints, orientation="upright")
    with open_cluster("local", asked.jobs) as cluster:
        extract_collection([asked.out / "photos.csv"], collection, settings, cluster=cluster)
        names, vectors = vectors_of(collection, cluster)
        inliers = count_all(collection, names, asked.out / "inliers.json", cluster)
    rows = recalled(names, vectors, inliers, asked.neighbours)
    alike_by_kind = similarities(names, vectors, inliers) | copies(collection, names, vectors, photos)
    quantiles = {
        kind: np.quantile(found[np.isfinite(found)], QUANTILES).tolist()
        for kind, found in alike_by_kind.items()
        if np.isfinite(found).any()
    }
    verified = {str(least): sum(count >= least for count in inliers.values()) for least in INLIERS}
    told = {"photos": len(names), "scenes": [scene.name for scene in asked.scenes], "tried": len(inliers)}
    with whole(asked.out / "retrieval.json") as temporary:
        temporary.write_text(
            json.dumps({**told, "verified": verified, "recall": rows, "similarity": quantiles}, indent=1)
        )
    counted = (
        f"{len(names)} photos of {len(asked.scenes)} scenes ({', '.join(told['scenes'])}), {len(inliers):,} pairs "
        f"tried, {verified['15']:,} with 15 inliers, {verified['30']:,} with 30."
    )
    text = f"{counted}\n\n{recall_table(rows)}\n\n{similarity_table(quantiles)}"
    print(text)
    if asked.write:
        write_tables(asked.write, {"other scenes": text})


def recall_table(rows: list[dict]) -> str:
    lines = [
        "| neighbours | pairs | of all pairs | recall, 15 inliers | recall, 30 inliers | worst scene |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        worst, least = min(row["by_scene"].items(), key=lambda scene: scene[1], default=("none", np.nan))
        lines.append(
            f"| {row['neighbours']} | {row['pairs']:,} | {row['of_all']:.0%} | {row['recall_15']:.1%} | "
            f"{row['recall_30']:.1%} | {least:.1%}, {worst} |"
        )
    return "\n".join(lines)


def similarity_table(quantiles: dict[str, list[float]]) -> str:
    lines = ["| similarity of a photo and | 1% | 5% | 50% | 95% | 99% |", "|---|---|---|---|---|---|"]
    lines += [f"| {kind} | {' | '.join(f'{value:.2f}' for value in found)} |" for kind, found in quantiles.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
