"""How often `hynet match` takes photos of different places for one place.

Usage: python research/strangers.py FOLDER... [--photos 2] [--model default]

Each folder is a place of its own. Of each, some photos are matched with those of all other folders as `match_photos`
does it: refined, upright, then with oriented keypoints, and what has more inliers counts.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np

import hynet
from hynet.images import list_photos
from hynet.matching.confidence import same_place
from hynet.matching.consensus import Consensus
from hynet.matching.turning import same_orientation
from hynet.types import Features

ORIENTATIONS = ("upright", "gradient")


def overlap(first: tuple[Features, ...], second: tuple[Features, ...]) -> tuple[float, int]:
    """Probability that two photos, described in each orientation, show one place; and the inliers."""
    match = Consensus()
    best = None
    for a, b in zip(first, second, strict=True):
        matches = hynet.refine(a.photo, b.photo, a, b, match(a, b))
        fit = hynet.verify(a, b, matches)
        if best is None or len(fit) > best[1]:
            assert matches.confidence is not None
            best = same_place(matches.confidence, len(fit)), len(fit)
        if same_orientation(a, b, fit.inliers):
            break
    assert best is not None
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--photos", type=int, default=2)
    parser.add_argument("--model", default="default")
    asked = parser.parse_args()
    extractors = [hynet.Extractor(model=asked.model, orientation=each) for each in ORIENTATIONS]
    seen = {}
    for folder in asked.folders:
        every = list_photos(folder)
        for index in np.unique(np.linspace(0, len(every) - 1, asked.photos).astype(int)):
            seen[folder.name, every[index].name] = tuple(extract(every[index]) for extract in extractors)
    pairs = [(first, second) for first, second in combinations(seen, 2) if first[0] != second[0]]
    called = 0
    for first, second in pairs:
        probability, inliers = overlap(seen[first], seen[second])
        if probability >= 0.5:
            called += 1
            print(f"{'/'.join(first)} and {'/'.join(second)}: {probability:.2f}, {inliers} inliers", flush=True)
    print(f"pairs of different places called one place: {called} of {len(pairs)}")


if __name__ == "__main__":
    main()
