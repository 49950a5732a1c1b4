"""How long each method of docs/results.md takes for a photo, and for matching two, on one core.

Usage: python research/milliseconds.py PATH/TO/data/eval/imc PATH/TO/weights OUT.json [--rounds 7]

Run it on a machine that does nothing else. Methods take turns photo by photo, so that a slow moment hits all of them;
the median over photos and rounds counts. A photo is read, its keypoints found and described; nothing is cached.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from rivals import WHOLE
from threadpoolctl import threadpool_limits

from hynet.features.extractors import PhotoExtractor, find_extractor
from hynet.features.extractors.patchwise import Extractor
from hynet.images import list_photos
from hynet.matching import open_matcher
from hynet.matching.consensus import Consensus
from hynet.runtime.files import atomic_write
from hynet.types import Features, Matches

KEYPOINTS = 2048
PHOTOS = 4


def opened(name: str, folder: Path) -> tuple[PhotoExtractor, Callable[[Features, Features], Matches]]:
    """A row of the tables: what extracts and what matches."""
    parts = [str(folder / part.removeprefix("weights/")) if "/" in part else part for part in name.split("+")]
    if len(parts) == 2 and parts[0] == "keynet":
        return Extractor(detector="keynet", model=parts[1], max_keypoints=KEYPOINTS), Consensus()
    extract = find_extractor(parts[0], KEYPOINTS) or Extractor(model=parts[0], max_keypoints=KEYPOINTS)
    return extract, open_matcher(parts[1]) if len(parts) == 2 else Consensus()


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before any session asks how many cores there are
    torch.set_num_threads(1)
    photos = list_photos(asked.photos)
    photos = photos[:: max(1, len(photos) // PHOTOS)][:PHOTOS]
    methods = {name: opened(name, asked.weights) for name in WHOLE}
    extraction: dict[str, list[float]] = {name: [] for name in methods}
    matching: dict[str, list[float]] = {name: [] for name in methods}
    with threadpool_limits(1):
        features = {name: [extract(photo) for photo in photos] for name, (extract, _) in methods.items()}  # warms up
        for _ in range(asked.rounds):
            for k, photo in enumerate(photos):
                for name, (extract, matcher) in methods.items():
                    a, b = features[name][k], features[name][k - 1]
                    extraction[name].append(timed(lambda extract=extract, photo=photo: extract(photo)))
                    matching[name].append(timed(lambda matcher=matcher, a=a, b=b: matcher(a, b)))
    rows = {name: {"extract": median(extraction[name]), "match": median(matching[name])} for name in methods}
    with atomic_write(asked.out) as file:
        file.write_text(json.dumps({"machine": platform.processor() or platform.machine(), "rows": rows}, indent=1))
    for name, row in rows.items():
        print(f"{name:45} {row['extract']:8.1f} ms per photo {row['match']:8.1f} ms per pair")


if __name__ == "__main__":
    main()
