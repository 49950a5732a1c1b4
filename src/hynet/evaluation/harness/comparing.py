"""Every method against one: differences on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import BadInput
from ...geometry import metrics
from ...types import Array
from .evaluation import Comparison
from .sanity import SANITY

USUAL = "rootsift"  # what everyone has


def rival(methods: Sequence[str], against: str | None) -> str | None:
    """Whom the others are compared with: the one asked for, which must take part; else RootSIFT, or the first."""
    if against is None:
        usual = next((name for name in methods if descriptor(name) == USUAL), None)
        return usual or next((name for name in methods if descriptor(name) not in SANITY), None)
    if against not in methods:
        raise BadInput(f"nothing can be compared with {against!r}: the methods are {', '.join(methods)}.")
    return against


def descriptor(method: str) -> str:
    """With several detectors, methods are named DETECTOR+DESCRIPTOR."""
    return method.rpartition("+")[2]


def differences(
    column: str, samples: Mapping[str, Array], rival: str | None, groups: Array | None = None
) -> list[Comparison]:
    """`samples`: method -> (N,), the same N for all; groups as in `metrics.bootstrap`."""
    found: list[Comparison] = []
    if rival is None:
        return found
    for name in samples:
        if name != rival and descriptor(name) not in SANITY:
            apart = samples[name] - samples[rival]
            found.append(Comparison(column, name, rival, mean(apart, groups), metrics.bootstrap(apart, groups)))
    return found


def mean(samples: Array, groups: Array | None) -> float:
    """Of the groups' means, as `metrics.bootstrap` has it."""
    return float(metrics.in_groups(np.mean, samples, groups))
