"""Bytes a descriptor against what they cost: mAP on HPatches-style patches, mAA of stereo, and the time of matching.

Usage: python studies/compression.py --fit set/ --hpatches DIR --imc DIR --out table.md [--model default]
All codes are given the same rows of the model, so that each patch is described once.
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
from hynet.bench.match import by_opencv
from hynet.benchmarks import BENCHMARKS
from hynet.benchmarks.harness.contestants import Contestant, entered
from hynet.benchmarks.hpatches.evaluate import HpatchesOptions, describe_stacks, open_stacks
from hynet.datasets import find_patches, hpatches
from hynet.descriptors.codes import CODES, parse
from hynet.descriptors.compressed import EXAMPLES, Compressed
from hynet.matchers.hamming import Hamming
from hynet.system.files import whole
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
    """A descriptor that describes each patch only once."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor, self._rows = descriptor, dict[bytes, Array]()
        self.patch_size, self.dim = descriptor.patch_size, descriptor.dim
        self.support, self.ratio = descriptor.support, descriptor.ratio

    def remember(self, patches: Array, rows: Array) -> None:
        self._rows |= zip(map(_key, patches), rows, strict=True)

    def describe(self, patches: Array) -> Array:
        keys = [_key(patch) for patch in patches]
        unknown = [k for k, key in enumerate(keys) if key not in self._rows]
        if unknown:
            self.remember(patches[unknown], self._descriptor.describe(patches[unknown]))
        return np.stack([self._rows[key] for key in keys]) if keys else np.zeros((0, self.dim), np.float32)


def _key(patch: Array) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(patch), digest_size=16).digest()


def features(rows: np.ndarray) -> Features:
    ones = np.ones(len(rows))
    return Features(Keypoints.from_circles(np.zeros((len(rows), 2)), ones, 0 * ones, ones), rows, (1, 1), 0.9)


def told(done: int, of: int, what: str) -> None:
    print(f"{done} of {of}: {what}", file=sys.stderr)


patches = find_patches(asked.fit).load(asked.fit, 32, silent).patches
model = Remembering(hynet.load(asked.model))
stacks = open_stacks(asked.hpatches, HpatchesOptions(), told)
for sequence, rows_of_stacks in zip(  # in the cache, where `hynet evaluate hpatches` has run
    stacks.sequences, describe_stacks(entered(asked.model), stacks, told), strict=True
):
    cut = np.concatenate(list(hpatches.load(stacks.root, sequence).values()))
    model.remember(cut, rows_of_stacks.reshape(len(cut), -1))
shuffled = np.random.default_rng(0).permutation(len(patches))
examples = model.describe(patches[np.sort(shuffled[:EXAMPLES])])
described: dict[str, Descriptor] = {asked.model: model}
for code in SMALLER:
    kind, size = parse(code)
    described[code] = Compressed(model, CODES[kind].fit(examples, size))
contestants = [Contestant(name, descriptor) for name, descriptor in described.items()]
maps = BENCHMARKS["hpatches"](contestants, asked.hpatches, progress=told).rows
accuracies = BENCHMARKS["imc"](contestants, asked.imc, max_keypoints=asked.max_keypoints, progress=told).rows

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

rows: dict[str, dict[str, float | None]] = {}
for name, descriptor in described.items():
    stored = getattr(descriptor, "bytes", 4 * descriptor.dim)
    rows[name] = {"bytes": stored, "matching mAP": maps[name]["matching"], "stereo mAA 10": accuracies[name]["maa10"]}
for name, taken in times.items():
    rows.setdefault(name, {})["matching, CPU ms"] = min(taken)
columns = ["bytes", "matching mAP", "stereo mAA 10", "matching, CPU ms"]
table = Table(f"{asked.model} in fewer bytes", columns, rows, "python studies/compression.py").markdown()
with whole(asked.out) as file:
    file.write_text(table + "\n")
print(table)
