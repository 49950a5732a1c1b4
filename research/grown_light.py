"""Weights of a narrower or shallower LightNet -> weights of today's that say nearly the same, to be trained on.

Usage: python research/grown_light.py SMALL.safetensors SET GROWN.safetensors

New channels are random, and what reads them starts at zero. A new layer hands on what it gets: its BatchNorm undoes
itself, by the statistics that patches of SET have there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from hynet import datasets
from hynet.features.descriptors import loading
from hynet.features.descriptors.lightnet import LightNet

PATCHES = 4096
NOISE = 0.01  # added to a new layer, so that its channels do not stay what they were


@torch.no_grad()
def grown(small: LightNet, patches: Tensor) -> LightNet:
    torch.manual_seed(0)
    large = LightNet().eval()
    x = large.patch(patches)
    carried = 1  # channels that the smaller network has
    for name, layer in list(large.named_children())[1:-1]:
        conv, norm, _ = layer
        old = dict(small.named_children()).get(name)
        if old is None:
            conv.weight.mul_(NOISE)
            conv.weight[range(carried), range(carried), 1, 1] += 1
            _undo(norm, conv(x))
        else:
            conv.weight[:, carried:] = 0
            count = len(old[0].weight)
            conv.weight[:count, :carried] = old[0].weight
            for part in ("weight", "bias", "running_mean", "running_var"):
                getattr(norm, part)[:count] = getattr(old[1], part)
            carried = count
        x = layer(x)
    large.head[1].weight.zero_()
    large.head[1].weight[:, :carried] = small.head[1].weight
    large.head[2].load_state_dict(small.head[2].state_dict())
    return large


def _undo(norm: nn.BatchNorm2d, x: Tensor) -> None:
    """The BatchNorm of x is x."""
    norm.running_var, norm.running_mean = torch.var_mean(x, (0, 2, 3))
    norm.weight.copy_((norm.running_var + norm.eps).sqrt())
    norm.bias.copy_(norm.running_mean)


def main(weights: str, data: Path, out: str) -> None:
    small = loading.network(weights).eval()
    patches = datasets.find_patches(data).load(data, 32).patches[:PATCHES]
    some = torch.tensor(patches)[:, None].float()
    large = grown(small, some)
    with torch.no_grad():
        print(f"the largest difference of raw descriptors: {float((small(some) - large(some)).abs().max()):.3g}")
    save_file({name: value.contiguous() for name, value in large.state_dict().items()}, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("data", type=Path)
    parser.add_argument("out")
    main(**vars(parser.parse_args()))
