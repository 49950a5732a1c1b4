"""Who takes part: models by name or path, ready to describe, with what tells a cache whether it still knows them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import BadInput
from ...features.descriptors import resizing
from ...features.descriptors.compressed import Compressed
from ...features.descriptors.loading import load, models
from ...runtime import fingerprints
from ...types import Descriptor
from .sanity import SANITY


@dataclass(frozen=True)
class Contestant:
    """One row of a table. Without a fingerprint nothing of it is cached."""

    name: str
    descriptor: Descriptor
    fingerprint: str | None = None


Model = str | Path | Contestant


def open_contestants(chosen: Sequence[Model]) -> list[Contestant]:
    """The models in the order given, then the sanity rows. Loads them all, so that a wrong name is told at once."""
    chosen_ones = [model if isinstance(model, Contestant) else entered(str(model)) for model in chosen]
    names = [contestant.name for contestant in chosen_ones]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"{twice} is named twice; name each model once.")
    return chosen_ones + [entered(name) for name in SANITY if name not in names]


def fingerprint(name: str, descriptor: Descriptor) -> str:
    """Changes when the weights, the code of the descriptor, or the libraries under it change."""
    known_by = fingerprints.weights(models().get(name, Path(name))) or name
    parts = [descriptor, *(descriptor.modules() if hasattr(descriptor, "modules") else ())]  # layers of packages too
    if isinstance(descriptor, Compressed):
        parts += [descriptor.inner, descriptor.code]
    kinds = {kind for part in parts for kind in type(part).__mro__}
    own = {sys.modules[kind.__module__] for kind in kinds if not kind.__module__.startswith(("builtins", "torch."))}
    return fingerprints.values([known_by, fingerprints.code(resizing, *own)])


def entered(name: str) -> Contestant:
    """A model by name or path, a sanity row by its name."""
    descriptor: Descriptor = SANITY[name]() if name in SANITY else load(name)
    return Contestant(name, descriptor, fingerprint(name, descriptor))
