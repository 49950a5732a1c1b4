"""Several sets of weights of one network -> their weighted mean.

Usage: python studies/mixed_weights.py OUT.safetensors FILE SHARE [FILE SHARE ...]      shares add up to 1

What goes on from trained weights and learns new scenes forgets a little of the old ones: between such weights lies a
network that is better than each on scenes that none has seen (docs/training-log.md).
"""

from __future__ import annotations

import argparse

from safetensors import safe_open
from safetensors.torch import load_file, save_file


def main(out: str, files: list[str], shares: list[float]) -> None:
    weights = [load_file(file) for file in files]
    with safe_open(files[-1], "pt") as last:
        about = last.metadata()
    mean = {name: sum(share * some[name] for share, some in zip(shares, weights, strict=True)) for name in weights[0]}
    save_file(mean, out, metadata=about)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("mixed", nargs="+", metavar="file share")
    asked = parser.parse_args()
    if len(asked.mixed) % 2:
        parser.error("give a share behind each file.")
    files, shares = asked.mixed[::2], [float(share) for share in asked.mixed[1::2]]
    if abs(sum(shares) - 1) > 1e-6:
        parser.error(f"the shares must add up to 1, got {sum(shares):g}.")
    main(asked.out, files, shares)
