"""How many pairs of a patch set's scenes look like strangers: wrong registrations would show here.

Usage: python research/doubtful_pairs.py SET/.parts/SCENE... [--model rootsift]

Of at most 2,000 pairs of each scene, the share of easy and of hard ones that are farther apart than the nearest 5% of
random pairs of the same patches.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import hynet

PAIRS = 2000

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("scenes", type=Path, nargs="+")
parser.add_argument("--model", default="rootsift")
asked = parser.parse_args()
model = hynet.load(asked.model)

for scene in asked.scenes:
    patches, columns = np.load(scene / "patches.npy", mmap_mode="r"), np.load(scene / "columns.npz")
    rng = np.random.default_rng(0)
    count = min(PAIRS, len(columns["first"]))
    chosen = rng.choice(len(columns["first"]), count, replace=False)
    first, second, hard = (columns[name][chosen] for name in ("first", "second", "hard"))
    rows, where = np.unique(np.concatenate([first, second]), return_inverse=True)
    a, b = model.describe(patches[rows])[where.reshape(2, -1)]
    limit = np.quantile(np.linalg.norm(a - b[rng.permutation(count)], axis=1), 0.05)
    doubtful = np.linalg.norm(a - b, axis=1) > limit
    shares = [f"{name} {doubtful[some].mean():.0%} of {some.sum()}" for name, some in (("easy", ~hard), ("hard", hard))]
    print(f"{scene.name}: {', '.join(shares)}")
