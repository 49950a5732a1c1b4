"""Some patches of every HPatches-style stack, so that scoring a row of a study takes minutes less.

Usage: python research/fewer_patches.py SEQUENCES OUT [PATCHES]

SEQUENCES is what `hynet evaluate hpatches --data` takes; OUT gets stacks of at most PATCHES (500) places of each
sequence, the same in all of its stacks, drawn with a fixed seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from hynet.datasets import hpatches
from hynet.evaluation.hpatches.evaluate import HpatchesOptions, open_stacks


def main(data: Path, out: Path, most: int) -> None:
    stacks = open_stacks(data, HpatchesOptions(split="full"))
    for sequence, size in zip(stacks.sequences, stacks.sizes, strict=True):
        chosen = np.sort(np.random.default_rng(0).permutation(size)[:most])
        (out / sequence).mkdir(parents=True, exist_ok=True)
        for column, patches in hpatches.load(stacks.root, sequence).items():
            Image.fromarray(patches[chosen].reshape(-1, hpatches.SIDE)).save(out / sequence / f"{column}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("most", type=int, nargs="?", default=500, metavar="patches")
    main(**vars(parser.parse_args()))
