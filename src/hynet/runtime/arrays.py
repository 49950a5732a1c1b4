"""NumPy's archives, read whole, with one kind of error for the many ways in which they can be broken."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile

from .fingerprints import Array

# Of the zip: a wrong header, stream, password flag or compression; of the arrays in it: a wrong header, shape or length
BROKEN = (BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, KeyError, SyntaxError, TypeError, MemoryError)


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays in an .npz file by name; ValueError where it is not a whole one, OSError where it cannot be read."""
    try:
        stored = np.load(path)
        if not isinstance(stored, NpzFile):
            raise ValueError("no archive of arrays")
        with stored:
            return dict(stored)
    except BROKEN as error:
        raise ValueError(str(error) or type(error).__name__) from None
