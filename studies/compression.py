"""Bytes a descriptor against what they cost: mAP on HPatches-style patches, mAA of stereo, and the time of matching.

Usage: python studies/compression.py --fit set/ --hpatches DIR --imc DIR --out compression/ [--model default]
Writes one .hynet file for each code into the folder, and table.md; what is there already is not learnt again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

import hynet
from hynet.benchmarks import BENCHMARKS
from hynet.datasets import find_patches
from hynet.descriptors.compressed import compress
from hynet.matchers.hamming import Hamming
from hynet.types import Features, Keypoints, Table, silent

CODES = ("float16", "int8", "pca96", "pca64", "pca32", "bits256", "bits128", "pq16", "pq32")
PHOTO = 4096  # descriptors in a photo, for the time of matching

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--fit", type=Path, required=True)
parser.add_argument("--hpatches", type=Path, required=True)
parser.add_argument("--imc", type=Path, required=True)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--model", default="default")
asked = parser.parse_args()


def features(rows: np.ndarray) -> Features:
    ones = np.ones(len(rows))
    return Features(Keypoints.from_circles(np.zeros((len(rows), 2)), ones, 0 * ones, ones), rows, (1, 1), 0.9)


def milliseconds(work: Callable[[], object]) -> float:
    """The best of five."""
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return 1000 * min(taken)


asked.out.mkdir(parents=True, exist_ok=True)
patches = find_patches(asked.fit).load(asked.fit, 32, silent).patches
files = {code: asked.out / f"{code}.hynet" for code in CODES}
for code, file in files.items():
    if not file.exists():
        compress(asked.model, patches, code, file)
models = [asked.model, *(str(file) for file in files.values())]
maps = BENCHMARKS["hpatches"](models, asked.hpatches).rows
accuracies = BENCHMARKS["imc"](models, asked.imc).rows
rows: dict[str, dict[str, float | None]] = {}
some = np.random.default_rng(0).permutation(len(patches))[: 2 * PHOTO]
for name, model in zip([asked.model, *CODES], models, strict=True):
    described = hynet.load(model)
    first, second = (features(half) for half in np.split(described.describe(patches[np.sort(some)]), 2))
    matcher = Hamming() if name.startswith("bits") else hynet.match
    rows[name] = {
        "bytes": getattr(described, "bytes", 4 * described.dim),
        "matching mAP": maps[model]["matching"],
        "stereo mAA 10": accuracies[model]["maa10"],
        "matching ms": milliseconds(lambda matcher=matcher, a=first, b=second: matcher(a, b)),
    }
by_opencv = cv2.BFMatcher(cv2.NORM_L2, crossCheck=True)
full = [hynet.load(asked.model).describe(patches[half]) for half in np.split(np.sort(some), 2)]
rows["OpenCV's BFMatcher on floats"] = {"matching ms": milliseconds(lambda: by_opencv.match(*full))}
columns = ["bytes", "matching mAP", "stereo mAA 10", "matching ms"]
table = Table(f"{asked.model} in fewer bytes", columns, rows, "python studies/compression.py").markdown()
(asked.out / "table.md").write_text(table + "\n")
print(table)
