"""01 - Describe patches, and see which of them show the same point.

Usage: python examples/01_describe_patches.py [MODEL]      a name or the path of weights; rootsift needs neither
"""

import sys

import hynet
from hynet.datasets import synthetic

patch_set = synthetic.patch_set(points=200, patches_per_point=2, seed=0)  # (400, 64, 64) uint8, points 0 0 1 1 2 2 ...
descriptor = hynet.load(sys.argv[1] if len(sys.argv) > 1 else "rootsift")

vectors = descriptor.describe(patch_set.patches)  # (400, 128) float32 unit rows
first, second = vectors[0::2], vectors[1::2]  # two views of each point

nearest = (first @ second.T).argmax(axis=1)  # of unit rows, the most similar is the nearest
right = (nearest == range(len(first))).mean()
print(f"{right:.0%} of {len(first)} patches find their other view")
