"""HPatches' public descriptor layout: ROOT/SEQUENCE/ref.csv, e1.csv ... t5.csv, N rows of D numbers, no header."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ...datasets.hpatches import COLUMNS
from ...errors import BadData, DataNotFound
from ...runtime import cache, fingerprints
from ...runtime.files import atomic_write
from ...types import Array


def read(root: Path, sequences: Sequence[str], sizes: Sequence[int]) -> list[Array]:
    """Read (16, N, D) float32 of each sequence, as the public code does."""
    found = []
    for sequence, size in zip(sequences, sizes, strict=True):
        paths = [root / sequence / f"{column}.csv" for column in COLUMNS]
        missing = next((path for path in paths if not path.is_file()), None)
        if missing is not None:
            raise DataNotFound(f"no {missing}; descriptors lie in SEQUENCE/ref.csv, e1.csv ... t5.csv.")
        key = {"what": "hpatches csv", "files": fingerprints.files(*paths)}
        found.append(cache.array(key, partial(_stacked, paths)))
        if found[-1].shape[2] != found[0].shape[2]:
            raise BadData(f"{root / sequence} has {found[-1].shape[2]} numbers a row, others {found[0].shape[2]}.")
        if found[-1].shape[1] != size:
            raise BadData(f"{root / sequence} has {found[-1].shape[1]} rows a file, but the sequence {size} patches.")
    return found


def write(root: Path, sequence: str, stacks: Array) -> None:
    """(16, N, D) float32 as 16 files, with as many digits as bring back the same numbers."""
    for column, rows in zip(COLUMNS, stacks, strict=True):
        with atomic_write(root / sequence / f"{column}.csv") as temporary:
            np.savetxt(temporary, rows, fmt="%.9g", delimiter=",")


def _stacked(paths: Sequence[Path]) -> Array:
    tables = [_table(path) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        if table.shape != tables[0].shape:
            raise BadData(f"{path} is {table.shape[0]} x {table.shape[1]}, but ref.csv {tables[0].shape}.")
    return np.stack(tables)


def _table(path: Path) -> Array:
    try:
        table = np.loadtxt(path, delimiter=",", ndmin=2, comments=None).astype(np.float32)
    except ValueError as error:
        raise BadData(f"{path} is not a table of numbers between commas: {error}.") from None
    if not np.isfinite(table).all():
        raise BadData(f"{path} holds numbers that are not finite; describe again.")
    return table
