"""How many verified pairs retrieval finds, and how alike photos are that are one, of one place, or of two: what
sfm/pairs.NEIGHBOURS and the limits of sfm/collection_pairs were chosen by, and how they do on other scenes.

Usage: python research/retrieval.py OUT SCENE_FOLDER... [--neighbours 10 20 30 50] [--model default] [--keypoints 1024]
           [--most PHOTOS_PER_SCENE] [--folders SCENE+SCENE...] [--jobs 0] [--write docs/scale.md]

Each folder is a scene of a place of its own. Their photos are extracted into OUT/collection, upright; all pairs of one
scene are matched and verified, and a pair of two scenes cannot be right. Recall is over the pairs with at least 15
inliers, and over those with at least 30. Similarities are of the vectors, each photo with the most alike of its scene
and of all others, and some photos with copies of them. Everything is in OUT/retrieval.json, too. Run again, it goes
on; other photos need another OUT.

With --folders, each is the photos of some scenes as one folder of `hynet reconstruct` (SCENE/2: every second of that
scene), with vectors learnt from them alone: all its pairs are matched, and the table has the share of them that each
way to choose pairs tries, and its recall of those with 15 inliers. Everything is in OUT/folders.json, too.
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
from hynet.features.folder import extract_collection
from hynet.features.hloc_file import read_h5
from hynet.features.settings import FeatureSettings, from_stored
from hynet.runtime.arrays import read_npz
from hynet.runtime.files import atomic_write
from hynet.runtime.pool import Batch, Failed, Pool, open_pool, run_batches
from hynet.sfm.collection_pairs import PAIR_SECONDS, TOGETHER, vectors_of
from hynet.sfm.pairs import BRIDGES, FIRST, NEIGHBOURS, in_rounds, unique_pairs
from hynet.sfm.retrieval import PhotoVectors, learn_vectors, most_similar, query_expansion
from hynet.types import Pair

COPIED = 12  # photos
INLIERS = 15, 30  # that a pair must have to count
QUANTILES = 0.01, 0.05, 0.5, 0.95, 0.99
WAYS = {"": query_expansion, ", vectors not averaged": most_similar}


def write_list(path: Path, scenes: list[Path], most: int | None) -> dict[str, Path]:
    """SCENE/PHOTO -> the photo, also as a list for `hynet extract`."""
    named = photos_by_name(scenes, most)
    with atomic_write(path) as temporary, temporary.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "name"), *((str(photo), name) for name, photo in named.items())])
    return named


def of_one_scene(names: list[str]) -> list[Pair]:
    return [pair for pair in combinations(names, 2) if scene_of(pair[0]) == scene_of(pair[1])]


def count_all(collection: Path, tried: list[Pair], note: Path, cluster: Pool) -> dict[Pair, int]:
    """Inliers of each pair."""
    inliers = {(a, b): count for a, b, count in json.loads(note.read_text())} if note.exists() else {}
    todo = [(*pair, 0, 0) for pair in tried if pair not in inliers]  # names, and places that nobody asks for here
    batches = (
        Batch("hynet.sfm.collection_pairs:count_inliers", collection.absolute(), tuple(some), PAIR_SECONDS)
        for some in (todo[start : start + TOGETHER] for start in range(0, len(todo), TOGETHER))
    )
    for batch, result in run_batches(cluster, lambda: next(batches, None)):
        if isinstance(result, Failed):
            print(f"{batch.items[0][:2]} cannot be matched: {result.why}", file=sys.stderr)
            continue
        inliers |= {(a, b): count for (a, b, *_), count in zip(batch.items, result, strict=True)}
        print(f"{len(inliers):,} of {len(tried):,} pairs matched", file=sys.stderr, flush=True)
        with atomic_write(note) as temporary:
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


def photos_of(folder: str, names: list[str]) -> list[str]:
    """Of "SCENE+SCENE/2": all of the first, every second of the other."""
    chosen = set()
    for part in folder.split("+"):
        scene, _, every = part.partition("/")
        found = [name for name in names if scene_of(name) == scene]
        if not found:
            sys.exit(f"--folders names {scene}, which is none of the scenes given.")
        chosen.update(found[:: int(every or 1)])
    return [name for name in names if name in chosen]


def recalled_in_folder(names: list[str], collection: Path, inliers: dict[Pair, int]) -> dict[str, Any]:
    """What each way to pair the photos of a folder tries and finds; no pair of two scenes is missed."""
    counts = np.zeros((len(names), len(names)), np.int64)
    for row, column in combinations(range(len(names)), 2):
        counts[row, column] = inliers.get((names[row], names[column]), 0)
    scenes = np.array([scene_of(name) for name in names])
    right = {least: (counts >= least) & (scenes[:, None] == scenes) for least in INLIERS}
    _, vectors = learn_vectors(names, lambda name: read_h5(collection, name).descriptors)
    averaged, _ = query_expansion(vectors, len(names) - 1)
    plain, _ = most_similar(vectors, len(names) - 1)

    def verified(pairs: np.ndarray) -> np.ndarray:
        return counts[tuple(pairs.T)] >= INLIERS[0]

    ways = {
        f"{NEIGHBOURS} neighbours": unique_pairs(averaged[:, :NEIGHBOURS]),
        "half of the others": unique_pairs(averaged[:, : len(names) // 2]),
        "rounds from 10, vectors averaged": in_rounds(averaged, verified, 10, 0),
        "rounds from 10": in_rounds(plain, verified, 10, 0),
        f"rounds from {FIRST}": in_rounds(plain, verified, FIRST, 0),
        f"the same, then {BRIDGES} bridges": in_rounds(plain, verified, FIRST, BRIDGES),
    }
    found: dict[str, Any] = {"photos": len(names), "pairs": len(names) * (len(names) - 1) // 2}
    found["verified"] = {str(least): int(pairs.sum()) for least, pairs in right.items()}
    found["verified_across_scenes"] = int((counts >= INLIERS[0]).sum()) - found["verified"][str(INLIERS[0])]
    for way, pairs in ways.items():
        recall = {str(least): float(each[tuple(pairs.T)].sum() / max(1, each.sum())) for least, each in right.items()}
        found.setdefault("ways", {})[way] = {"tried": len(pairs), "recall": recall}
    return found


def copies(collection: Path, names: list[str], vectors: np.ndarray, photos: dict[str, Path]) -> dict[str, np.ndarray]:
    """Kind of copy -> its similarity to the photo, of some photos."""
    learnt = PhotoVectors(**read_npz(collection / "vectors" / "learnt.npz"))
    extract = from_stored((collection / "settings.json").read_text())[0].open_extractor()
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
    parser.add_argument("--folders", nargs="+", default=[])
    parser.add_argument("--most", type=int)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    collection = asked.out / "collection"
    photos = write_list(asked.out / "photos.csv", asked.scenes, asked.most)
    settings = FeatureSettings(model=asked.model, max_keypoints=asked.keypoints, orientation="upright")
    with open_pool("local", asked.jobs) as cluster:
        extract_collection([asked.out / "photos.csv"], collection, settings, cluster=cluster)
        names, vectors = vectors_of(collection, cluster)
        folders = {folder: photos_of(folder, names) for folder in asked.folders}
        of_folders = [pair for photos in folders.values() for pair in combinations(photos, 2)]
        tried = of_folders if folders else of_one_scene(names)
        inliers = count_all(collection, tried, asked.out / "inliers.json", cluster)
    if folders:
        found = {folder: recalled_in_folder(photos, collection, inliers) for folder, photos in folders.items()}
        with atomic_write(asked.out / "folders.json") as temporary:
            temporary.write_text(json.dumps(found, indent=1))
        finish(asked.write, "folders", folder_table(found))
        return
    rows = recalled(names, vectors, inliers, asked.neighbours)
    alike_by_kind = similarities(names, vectors, inliers) | copies(collection, names, vectors, photos)
    quantiles = {
        kind: np.quantile(found[np.isfinite(found)], QUANTILES).tolist()
        for kind, found in alike_by_kind.items()
        if np.isfinite(found).any()
    }
    verified = {str(least): sum(count >= least for count in inliers.values()) for least in INLIERS}
    told = {"photos": len(names), "scenes": [scene.name for scene in asked.scenes], "tried": len(inliers)}
    with atomic_write(asked.out / "retrieval.json") as temporary:
        temporary.write_text(
            json.dumps({**told, "verified": verified, "recall": rows, "similarity": quantiles}, indent=1)
        )
    counted = (
        f"{len(names)} photos of {len(asked.scenes)} scenes ({', '.join(told['scenes'])}), {len(inliers):,} pairs "
        f"tried, {verified['15']:,} with 15 inliers, {verified['30']:,} with 30."
    )
    finish(asked.write, "other scenes", f"{counted}\n\n{recall_table(rows)}\n\n{similarity_table(quantiles)}")


def finish(page: Path | None, name: str, text: str) -> None:
    print(text)
    if page:
        write_tables(page, {name: text})


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


def folder_table(found: dict[str, dict[str, Any]]) -> str:
    ways = list(next(iter(found.values()))["ways"])
    lines = [f"| folder | photos | pairs | verified | {' | '.join(ways)} |", "|---" * (4 + len(ways)) + "|"]
    for folder, row in found.items():
        told = [
            f"{row['ways'][way]['tried'] / row['pairs']:.0%}, {row['ways'][way]['recall'][str(INLIERS[0])]:.1%}"
            for way in ways
        ]
        counts = f"{row['photos']} | {row['pairs']:,} | {row['verified'][str(INLIERS[0])]:,}"
        lines.append(f"| {folder.replace('+', ' + ')} | {counts} | {' | '.join(told)} |")
    return "\n".join(lines)


def similarity_table(quantiles: dict[str, list[float]]) -> str:
    lines = ["| similarity of a photo and | 1% | 5% | 50% | 95% | 99% |", "|---|---|---|---|---|---|"]
    lines += [f"| {kind} | {' | '.join(f'{value:.2f}' for value in found)} |" for kind, found in quantiles.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
