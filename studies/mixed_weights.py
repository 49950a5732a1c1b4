"""Two sets of weights of one network -> their weighted mean.

Usage: python studies/mixed_weights.py OLD NEW SHARE OUT.safetensors      SHARE: of the new ones

What goes on from trained weights and learns new scenes forgets a little of the old ones: on the way between both lies a
network that is better than either on scenes that neither has seen (docs/training-log.md).
"""

from __future__ import annotations

import argparse

from safetensors import safe_open
from safetensors.torch import load_file, save_file


def main(old_file: str, new_file: str, share: float, out: str) -> None:
    old, new = load_file(old_file), load_file(new_file)
    with safe_open(new_file, "pt") as file:
        about = file.metadata()
    save_file({name: (1 - share) * old[name] + share * new[name] for name in new}, out, metadata=about)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old_file", metavar="old")
    parser.add_argument("new_file", metavar="new")
    parser.add_argument("share", type=float)
    parser.add_argument("out")
    main(**vars(parser.parse_args()))
