"""04 - Which descriptor is better, and is the difference more than chance?

Usage: python examples/04_compare_descriptors.py [MODEL ...]      names or paths of weights
"""

import sys

import numpy as np

import hynet
from hynet import metrics
from hynet.datasets import synthetic

patches = synthetic.patch_set(points=1000, patches_per_point=2, seed=0).patches  # two of each point, side by side
is_match = np.repeat([True, False], 1000)

for name in sys.argv[1:] or ("sift", "rootsift", "default"):
    vectors = hynet.load(name).describe(patches)  # (2000, 128) unit rows
    first, second, other = vectors[0::2], vectors[1::2], np.roll(vectors[1::2], 1, axis=0)
    distances = np.linalg.norm(np.concatenate([first - second, first - other]), axis=1)

    error = metrics.fpr95(distances, is_match)
    low, high = metrics.interval(metrics.fpr95_bootstrap(distances, is_match))
    print(f"{name}: FPR@95 {error:.1%}, with 95% confidence between {low:.1%} and {high:.1%}")
