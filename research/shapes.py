"""What affine shapes bring to stereo poses, on the same pairs.

Usage: python research/choosing.py PATH/TO/data/train OUT
       python research/shapes.py OUT/stereo MODEL SEEDS none affine-network [affnet.pth ...]

Each shape is one run of `hynet evaluate imc --shape`. Below its row is how much it has over each shape before it, with
the 95% interval of the paired difference.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hynet import metrics
from hynet.evaluation.imc.evaluate import ImcOptions, evaluate
from hynet.types import Array


def credits(data: Path, model: str, seeds: int, shape: str) -> tuple[Array, Array]:
    """(N,) percent of each pair, and its scene."""
    errors = evaluate([model], data, ImcOptions(seeds=seeds, shape=shape)).details["errors"][model]
    pairs = {scene: np.array(each) for scene, each in errors.items()}  # scene -> (pairs, seeds) degrees
    found = [100 * metrics.maa_credits(each.ravel()).reshape(each.shape).mean(1) for each in pairs.values()]
    return np.concatenate(found), np.repeat(list(pairs), [len(each) for each in found])


def main(data: Path, model: str, seeds: int, shapes: list[str]) -> None:
    measured: dict[str, Array] = {}
    for shape in shapes:
        measured[shape], scene = credits(data, model, seeds, shape)
        names = np.unique(scene).tolist()
        if len(measured) == 1:
            print(f"| {model} | mAA at 10 degrees | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
        own = [f"{measured[shape][scene == name].mean():.2f}" for name in names]
        print(f"| {Path(shape).name} | {_told(measured[shape], scene, '.2f')} | {' | '.join(own)} |", flush=True)
        for other in list(measured)[:-1]:
            apart = measured[shape] - measured[other]
            by_scene = [f"{apart[scene == name].mean():+.2f}" for name in names]
            print(f"| minus {Path(other).name} | {_told(apart, scene, '+.2f')} | {' | '.join(by_scene)} |", flush=True)


def _told(samples: Array, scene: Array, form: str) -> str:
    low, high = metrics.bootstrap(samples, scene)
    return f"{float(metrics.in_groups(np.mean, samples, scene)):{form}} [{low:{form}}, {high:{form}}]"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("model")
    parser.add_argument("seeds", type=int)
    parser.add_argument("shapes", nargs="+")
    main(**vars(parser.parse_args()))
