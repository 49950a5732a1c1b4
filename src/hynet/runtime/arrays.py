"""Arrays in files: NumPy's archives, read with one kind of error for all ways to be broken; .safetensors of weights."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from ..errors import BadData, need
from .files import atomic_write

Array = NDArray[Any]

MOST_BYTES = 4 << 30  # of one saved value: a million keypoints with 1,024 numbers each

# Of the zip: a wrong header, stream, password flag or compression; of the arrays in it: a wrong header, shape or length
BROKEN = (
    *(BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, KeyError),
    *(SyntaxError, TypeError, AttributeError, OverflowError, MemoryError),
)


def read_npz(path: Path, *, most_bytes: int | None = None) -> dict[str, Array]:
    """Read the arrays in an .npz file by name; ValueError where it is not a whole one, OSError where it cannot be read.

    most_bytes: that it may unpack to.
    """
    try:
        stored = np.load(path)
        if not isinstance(stored, NpzFile):
            raise ValueError("no archive of arrays")
        with stored:
            archive: Any = stored.zip
            if most_bytes is not None and sum(entry.file_size for entry in archive.infolist()) > most_bytes:
                raise ValueError(f"more than {most_bytes} bytes of arrays")
            return dict(stored)
    except BROKEN as error:
        raise ValueError(str(error) or type(error).__name__) from None


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


def write_safetensors(path: str | Path, weights: Mapping[str, Any], **about: str) -> None:
    """Write tensors of torch by name, with the same bytes each time and the rights of any other file.

    about: texts for the file's header, which the library orders by chance.
    """
    save = need("safetensors.torch", "train", "writing .safetensors").save
    content = save({name: value.contiguous() for name, value in weights.items()}, {"format": "pt", **about})
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:start]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content[:8] + header.encode().ljust(start - 8) + content[start:])
