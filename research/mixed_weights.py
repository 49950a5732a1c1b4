"""Several sets of weights of HyNet -> their weighted mean.

Usage: python research/mixed_weights.py OUT.safetensors FILE SHARE [FILE SHARE ...] [--patches SET]

What goes on from trained weights and learns new scenes forgets a little of the old ones: between such weights lies a
network that is better than each on scenes that none has seen (research/training-log.md). Shares add up to 1. With
--patches the mean and variance of the last BatchNorm are measured again, on patches of a training set, without dropout,
in batches of patches that lie side by side in the set: the variance is that within a scene or two.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from hynet import datasets
from hynet.features.descriptors.hynet import HyNet

PATCHES, AT_ONCE = 8192, 256


def main(out: str, files: list[str], shares: list[float], patches: str | None) -> None:
    weights = [load_file(file) for file in files]
    with safe_open(files[0], "pt") as first:
        about = first.metadata()
    mean = {name: sum(share * some[name] for share, some in zip(shares, weights, strict=True)) for name in weights[0]}
    save_file(mean if patches is None else measured_again(mean, patches), out, metadata=about)


def measured_again(weights: dict[str, torch.Tensor], patches: str) -> dict[str, torch.Tensor]:
    """The weights with what their last BatchNorm sees of patches drawn with a fixed seed."""
    found = datasets.find_patches(patches).load(patches, 32)
    rows = np.sort(np.random.default_rng(0).permutation(len(found))[:PATCHES])
    network = HyNet.recognise(weights)
    assert network is not None
    norm = network.eval().layer7[2]
    assert isinstance(norm, torch.nn.BatchNorm2d)
    norm.reset_running_stats()
    norm.momentum = None  # the mean over all batches
    norm.train()
    with torch.inference_mode():
        for some in np.array_split(rows, max(1, len(rows) // AT_ONCE)):
            network(torch.from_numpy(np.ascontiguousarray(found.patches[some]))[:, None].float())
    return network.state_dict()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("mixed", nargs="+", metavar="file share")
    parser.add_argument("--patches", metavar="set")
    asked = parser.parse_args()
    if len(asked.mixed) % 2:
        parser.error("give a share behind each file.")
    try:
        files, shares = asked.mixed[::2], [float(share) for share in asked.mixed[1::2]]
    except ValueError as error:
        parser.error(f"a share is a number ({error}).")
    if abs(sum(shares) - 1) > 1e-6:
        parser.error(f"the shares must add up to 1, got {sum(shares):g}.")
    main(asked.out, files, shares, asked.patches)
