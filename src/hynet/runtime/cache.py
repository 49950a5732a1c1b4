"""A cache of arrays on disk, such as descriptors, under a fingerprint of what they were made from.

    descriptors = array({"what": "hpatches", "model": contestant.fingerprint, "data": files(*paths)}, describe)

A key holds everything the arrays depend on. Files are whole or not there; when they outgrow LIMIT, the least
recently used ones go.

Many processes may use it at once, without a lock: nobody sees half a file, equal keys give equal files, so that it does
not matter whose stays, and who has a file open keeps its content when another process takes it away.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import fingerprints
from .arrays import Array, read_npz
from .files import atomic_write
from .machine import cache_folder

LIMIT = 20e9  # bytes; HPatches described by one network is 1.3e9
ABANDONED = 86_400  # seconds after which a temporary file was left by a process that was killed


def array(key: Mapping[str, Any], make: Callable[[], Array]) -> Array:
    """Return the array of that key, mapped into memory; it is made if it is not there."""
    path = folder() / f"{fingerprints.values(key)}.npy"
    if (stored := _stored(path)) is None:
        values = make()
        with atomic_write(path) as temporary:
            np.save(temporary, values)
        _trim(keep=path)
        stored = _stored(path)
        if stored is None:  # another process has taken it away, to make room
            return values
    return stored


def arrays(key: Mapping[str, Any], make: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
    """Return several arrays of one key, such as the columns of Features, read into memory."""
    path = folder() / f"{fingerprints.values(key)}.npz"
    if (stored := _stored(path)) is None:
        columns = make()
        with atomic_write(path) as temporary:
            np.savez(temporary, **columns)  # type: ignore[arg-type]  # its allow_pickle is no column
        _trim(keep=path)
        stored = dict(columns)
    return stored


def folder() -> Path:
    """Folder of the cached arrays."""
    return cache_folder() / "described"


def _stored(path: Path) -> Any:
    """Read a cached file; None if there is none, or if it cannot be read, as a full disk leaves it."""
    try:
        os.utime(path)  # used now: the last to go
        return read_npz(path) if path.suffix == ".npz" else np.load(path, mmap_mode="r")
    except (OSError, EOFError, ValueError):
        return None


def _trim(keep: Path) -> None:
    kept = sorted(_sizes(keep.parent), reverse=True)  # newest first
    total = 0
    for _, size, path in kept:
        total += size
        if total > LIMIT and path != keep:
            path.unlink(missing_ok=True)


def _sizes(where: Path) -> Iterable[tuple[int, int, Path]]:
    for path in where.glob("*.np[yz]"):
        try:
            status = path.stat()
        except FileNotFoundError:  # another process trims as well
            continue
        if path.name.startswith(".") and time.time() - status.st_mtime < ABANDONED:  # another process is writing it
            continue
        yield status.st_mtime_ns, status.st_size, path
