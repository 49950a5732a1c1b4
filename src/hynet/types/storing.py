"""Values as one .npz file of plain arrays, which NumPy alone can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadData
from ..runtime.arrays import Array, read_npz
from ..runtime.files import atomic_write

MOST_BYTES = 4 << 30  # of one file: a million keypoints with 1,024 numbers each


def save_arrays(path: str | Path, kind: str, columns: Mapping[str, Any]) -> None:
    """Save named arrays, leaving out those that are None."""
    known = {name: column for name, column in columns.items() if column is not None}
    with atomic_write(Path(path).expanduser()) as temporary, temporary.open("wb") as file:
        np.savez(file, kind=np.array(kind), **known)


def load_arrays(path: str | Path, kind: str) -> dict[str, Array]:
    """Load what `save_arrays` wrote of that kind."""
    path = Path(path).expanduser()
    try:
        columns = read_npz(path, most_bytes=MOST_BYTES)
    except FileNotFoundError:
        raise BadData(f"no file {path}; hynet.{kind}.save writes one.") from None
    except (OSError, ValueError):
        columns = {}
    if columns.pop("kind", None) != np.array(kind):
        raise BadData(f"{path} does not hold {kind}, or is broken; hynet.{kind}.save writes such a file.")
    return columns
