"""Values as one .npz file of plain arrays, which NumPy alone can read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadData
from ..runtime.files import atomic_write

MOST_BYTES = 4 << 30  # of one file: a million keypoints with 1,024 numbers each


def save_arrays(path: str | Path, kind: str, columns: Mapping[str, Any]) -> None:
    """What is None is left out."""
    known = {name: column for name, column in columns.items() if column is not None}
    with atomic_write(Path(path).expanduser()) as temporary, temporary.open("wb") as file:
        np.savez(file, kind=np.array(kind), **known)


def load_arrays(path: str | Path, kind: str) -> dict[str, NDArray[Any]]:
    path = Path(path).expanduser()
    wrong = f"{path} does not hold {kind}, or is broken; hynet.{kind}.save writes such a file."
    try:
        with np.load(path, allow_pickle=False) as stored:
            if sum(entry.file_size for entry in stored.zip.infolist()) > MOST_BYTES:
                raise BadData(wrong)
            columns = {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise BadData(f"no file {path}; hynet.{kind}.save writes one.") from None
    except BadData:
        raise
    except (OSError, ValueError, EOFError, KeyError, AttributeError, NotImplementedError, RuntimeError, MemoryError):
        raise BadData(wrong) from None
    except (zipfile.BadZipFile, zlib.error, SyntaxError, OverflowError, TypeError):  # broken headers
        raise BadData(wrong) from None
    if columns.pop("kind", None) != np.array(kind):
        raise BadData(wrong)
    return columns
