"""Bytes a descriptor against what they cost: mAP on HPatches-style patches, mAA of stereo, and the time of matching.

Usage: python research/compression.py --fit set/ --hpatches DIR --imc DIR --out table.md [--model default]
All codes are given the same rows of the model, so that each patch is described once; those of HPatches come from the
cache where `hynet evaluate hpatches` has run.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import hynet
from bench.match import by_opencv
from hynet.benchmarks import BENCHMARKS
from hynet.datasets import find_patches
from hynet.evaluation.contestants import Contestant, entered
from hynet.evaluation.hpatches.evaluate import HpatchesOptions, describe_stacks, open_stacks
from hynet.evaluation.hpatches.scores import matching
from hynet.features.descriptors.compressed import EXAMPLES, Compressed
from hynet.features.descriptors.compressed.codes import CODES, parse
from hynet.features.descriptors.compressed.hamming import Hamming
from hynet.runtime.files import atomic_write
from hynet.types import Array, Descriptor, Features, Keypoints, Table, silent

SMALLER = ("float16", "int8", "pca96", "pca64", "pca32", "bits256", "bits128", "pq16", "pq32")
ROUNDS = 5
OPENCV = "OpenCV's BFMatcher on floats"
PHOTO = 2048  # descriptors in a photo, for the time of matching

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--fit", type=Path, required=True)
parser.add_argument("--hpatches", type=Path, required=True)
parser.add_argument("--imc", type=Path, required=True)
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--model", default="default")
parser.add_argument("--max-keypoints", type=int, default=1024, help="per photo, for stereo")
asked = parser.parse_args()


class Remembering(Descriptor):
    """A descriptor that describes the same patches only once."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor, self._rows = descriptor, dict[str, Array]()
        self.patch_size, self.dim = descriptor.patch_size, descriptor.dim
        self.support, self.ratio = descriptor.support, descriptor.ratio

    def describe(self, patches: Array) -> Array:
        key = hashlib.sha256(np.ascontiguousarray(patches)).hexdigest()
        if key not in self._rows:
            self._rows[key] = self._descriptor.describe(patches)
        return self._rows[key]


def features(rows: np.ndarray) -> Features:
    ones = np.ones(len(rows))
    return Features(Keypoints.from_circles(np.zeros((len(rows), 2)), ones, 0 * ones, ones), rows, (1, 1), 0.9)


def told(done: int, of: int, what: str) -> None:
    print(f"{done} of {of}: {what}", file=sys.stderr)


stacks = describe_stacks(entered(asked.model), open_stacks(asked.hpatches, HpatchesOptions(), told), told)
patches = find_patches(asked.fit).load(asked.fit, 32, silent).patches
model = Remembering(hynet.load(asked.model))
shuffled = np.random.default_rng(0).permutation(len(patches))
examples = model.describe(patches[np.sort(shuffled[:EXAMPLES])])
described: dict[str, Descriptor] = {asked.model: model}
maps = {asked.model: 100 * float(matching(stacks, told)["fair"].mean())}
for name in SMALLER:
    kind, size = parse(name)
    code = CODES[kind].fit(examples, size)
    described[name] = Compressed(model, code)
    stored_stacks = [code(rows.reshape(-1, rows.shape[2])).reshape(*rows.shape[:2], -1) for rows in stacks]
    maps[name] = 100 * float(matching(stored_stacks)["fair"].mean())
    told(len(maps), 1 + len(SMALLER), f"{name}: mAP {maps[name]:.1f}")

photos = [patches[np.sort(some)] for some in np.split(shuffled[: 2 * PHOTO], 2)]
work: dict[str, Callable[[], object]] = {}
for name, descriptor in described.items():
    matcher = Hamming() if name.startswith("bits") else hynet.match
    work[name] = partial(matcher, *(features(descriptor.describe(photo)) for photo in photos))
work[OPENCV] = partial(by_opencv, *(features(model.describe(photo)) for photo in photos))
times: dict[str, list[float]] = {name: [] for name in work}
for _ in range(ROUNDS):  # in turns, so that a slow moment of the machine hits all of them
    for name, act in work.items():
        start = time.process_time()
        act()
        times[name].append(1000 * (time.process_time() - start))
for done, (name, taken) in enumerate(times.items(), start=1):
    told(done, len(times), f"{name}: matched in {min(taken):.1f} ms of CPU")

contestants = [Contestant(name, descriptor) for name, descriptor in described.items()]
accuracies = BENCHMARKS["imc"](contestants, asked.imc, max_keypoints=asked.max_keypoints, progress=told).rows
rows: dict[str, dict[str, float | None]] = {}
for name, descriptor in described.items():
    stored = getattr(descriptor, "bytes", 4 * descriptor.dim)
    rows[name] = {"bytes": stored, "matching mAP": maps[name], "stereo mAA 10": accuracies[name]["maa10"]}
for name, taken in times.items():
    rows.setdefault(name, {})["matching, CPU ms"] = min(taken)
columns = ["bytes", "matching mAP", "stereo mAA 10", "matching, CPU ms"]
table = Table(f"{asked.model} in fewer bytes", columns, rows, "python research/compression.py").markdown()
with atomic_write(asked.out) as file:
    file.write_text(table + "\n")
print(table)
