"""Two descriptors that know nothing. Every report shows them: a protocol that rewards one of them is broken."""

from __future__ import annotations

import numpy as np

from ...features.descriptors.resizing import resized
from ...types import Array, Descriptor


class Random(Descriptor):
    """A random direction for each picture: the same patch always gets the same one."""

    patch_size, dim = 32, 128

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, 128) float32 unit rows."""
        words = resized(patches, self.patch_size).reshape(len(patches), -1).view(np.uint64)  # (N, 128)
        keys = np.random.default_rng(0).integers(2**63, size=(2, words.shape[1]), dtype=np.uint64)
        ticket = (_mixed(words ^ keys[0]) * (keys[1] | np.uint64(1))).sum(1, keepdims=True)  # wraps around, as it may
        lots = _mixed(ticket + keys[0, : self.dim]) >> np.uint64(40)  # 24 bits, exact in float32
        rows = lots.astype(np.float32) / 2**23 - 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Constant(Descriptor):
    """Every patch looks the same."""

    patch_size, dim = 32, 128

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, 128) float32 unit rows."""
        return np.full((len(patches), self.dim), self.dim**-0.5, np.float32)


SANITY: dict[str, type[Descriptor]] = {"random": Random, "constant": Constant}


def _mixed(numbers: Array) -> Array:
    """Each 64-bit number scrambled so that near ones become strangers (the finaliser of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
