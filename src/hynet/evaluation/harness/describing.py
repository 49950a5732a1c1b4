"""Patches -> descriptors, in blocks that are cached: killed in the middle, the next run goes on where this one was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...errors import BadData
from ...runtime import cache
from ...types import Array, Progress, silent
from .contestants import Contestant

BLOCK = 16_384  # patches described before they are written
STEP = 1024  # patches described before progress is told


def describe(
    contestant: Contestant,
    patches: Callable[[slice], Array],
    count: int,
    key: Mapping[str, Any],
    progress: Progress = silent,
    block: int = BLOCK,
) -> Array:
    """(count, D) descriptors; `patches(rows)` gives (n, S, S) uint8, `key` says of which data."""

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
