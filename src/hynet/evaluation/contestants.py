"""Contestants of a benchmark: models by name or path, what they describe (cached in blocks), and two sanity rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadData, BadInput
from ..features.descriptors import resizing
from ..features.descriptors.loading import load, models
from ..features.descriptors.resizing import resized
from ..runtime import cache, fingerprints
from ..types import Array, Descriptor, Progress, silent

BLOCK = 16_384  # patches described before they are written
STEP = 1024  # patches between two steps of the progress bar


@dataclass(frozen=True)
class Contestant:
    """One row of a table. Without a fingerprint nothing of it is cached."""

    name: str
    descriptor: Descriptor
    fingerprint: str | None = None


Model = str | Path | Contestant


def open_contestants(chosen: Sequence[Model]) -> list[Contestant]:
    """The models in the order given, then the sanity rows. Loads them all, so that a wrong name is reported at once."""
    chosen_ones = [model if isinstance(model, Contestant) else entered(str(model)) for model in chosen]
    names = [contestant.name for contestant in chosen_ones]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"{twice} is named twice; name each model once.")
    return chosen_ones + [entered(name) for name in SANITY if name not in names]


def fingerprint(name: str, descriptor: Descriptor) -> str:
    """A hash that changes with the weights, the code of the descriptor, or the libraries under it."""
    known_by = fingerprints.weights(models().get(name, Path(name))) or name
    parts = [descriptor, *(descriptor.modules() if hasattr(descriptor, "modules") else ())]  # layers of packages too
    kinds = {kind for part in parts for kind in type(part).__mro__}
    own = {sys.modules[kind.__module__] for kind in kinds if not kind.__module__.startswith(("builtins", "torch."))}
    return fingerprints.values([known_by, fingerprints.code(resizing, *own)])


def entered(name: str) -> Contestant:
    """Load a model by name or path, or a sanity row by its name."""
    descriptor: Descriptor = SANITY[name]() if name in SANITY else load(name)
    return Contestant(name, descriptor, fingerprint(name, descriptor))


def describe(
    contestant: Contestant,
    patches: Callable[[slice], Array],
    count: int,
    key: Mapping[str, Any],
    progress: Progress = silent,
    block: int = BLOCK,
) -> Array:
    """Return (count, D) descriptors of the patches that `patches(rows)` reads, (n, S, S) uint8.

    Each block is cached under `key`, which identifies the data, so that a killed run continues where it was.
    """

    def made(rows: slice) -> Array:
        some = patches(rows)
        parts = []
        for start in range(0, len(some), STEP):
            progress(rows.start + start, count, f"describing with {contestant.name}")
            parts.append(contestant.descriptor.describe(some[start : start + STEP]))
        found = np.concatenate(parts) if parts else np.zeros((0, contestant.descriptor.dim), np.float32)
        if not np.isfinite(found).all():
            raise BadData(f"{contestant.name} gives descriptors that are not finite; its weights have diverged.")
        return found

    def cached(rows: slice) -> Array:
        if contestant.fingerprint is None:
            return made(rows)
        whole_key = {**key, "model": contestant.fingerprint, "rows": [rows.start, rows.stop]}
        return cache.array(whole_key, lambda: made(rows))

    blocks = [cached(slice(start, min(start + block, count))) for start in range(0, max(count, 1), block)]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


# Two descriptors without any information: a protocol that rewards one of them is broken.


class Random(Descriptor):
    """Descriptor that gives each patch a random direction, always the same one for the same patch."""

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
    """Descriptor that is the same for every patch."""

    patch_size, dim = 32, 128

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, 128) float32 unit rows."""
        return np.full((len(patches), self.dim), self.dim**-0.5, np.float32)


SANITY: dict[str, type[Descriptor]] = {"random": Random, "constant": Constant}


def _mixed(numbers: Array) -> Array:
    """Scramble 64-bit numbers so that similar ones become unrelated (the finaliser of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
