"""NumPy's archives, read whole, with one kind of error for the many ways in which they can be broken."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

Array = NDArray[Any]

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
