"""Fingerprints by content, to know what has changed; what is missing raises and never counts as unchanged.

content(path)           one file
weights(path)           a model in a file or in a folder
photo(path, mask)       a photo and its mask
files(*paths)           a data set: names and contents, read once and then only where size or time differ
code(*modules)          our code with its weights, and the libraries under it
arrays(*columns)        arrays in memory
values(key)             plain JSON values
difference(before, now) changes between two settings, for a sentence
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..errors import BadInput, DataNotFound, HynetError
from .arrays import Array
from .files import atomic_write
from .machine import cache_folder

YOUNG = 2_000_000_000  # nanoseconds: the coarsest file systems (FAT) count time in steps of two seconds
SOURCES = (".py", ".onnx", ".safetensors")  # weights lie beside the code of their package
LIBRARIES = [
    *("numpy", "opencv-contrib-python-headless", "pillow", "onnxruntime", "torch", "kornia"),
    *("pydegensac", "poselib", "pycolmap", "openvino", "faiss-cpu"),
]

Known = dict[str, list[Any]]  # path -> its stamp when it was read, and the sha256 of what it held
_known: Known = {}  # by this process


def content(path: Path) -> str:
    """Return the sha256 of a file, as `sha256sum` prints it."""
    return _content(path, _known)


def weights(path: Path) -> str | None:
    """Fingerprint of a model in a file, or in a folder of files; None where there is neither."""
    if path.is_dir():
        return values([(each.name, content(each)) for each in sorted(path.iterdir()) if each.is_file()])
    return content(path) if path.is_file() else None


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """List the settings that have changed, by the names of options; "" where none has."""
    names = dict.fromkeys([*before, *now])
    changed = [name for name in names if before.get(name) != now.get(name)]
    return ", ".join(f"{name.replace('_', '-')} was {before.get(name)}, now {now.get(name)}" for name in changed)


def photo(path: Path, mask: Path | None = None) -> str | None:
    """Fingerprint of a photo and its mask; None if a file cannot be opened: reading it will say why.

    Read in every run: it costs little beside describing, and memory cards and network drives keep poor time.
    """
    try:
        return values([content(each) for each in (path, mask) if each is not None])
    except HynetError:
        return None


def files(*paths: Path) -> str:
    """Fingerprint of a data set: names and contents of its files, in this order.

    A PhotoTour set is gigabytes, so what was read is noted in the user's cache, and read again where a stamp differs.
    """
    note = cache_folder() / "fingerprints" / f"{values([str(path.absolute()) for path in paths])}.json"
    known = _noted(note)
    before = dict(known)
    found = values([(path.name, _content(path, known)) for path in paths])
    if known != before:
        with suppress(BadInput), atomic_write(note) as temporary:  # not writable: everything is read again next time
            temporary.write_text(json.dumps(known), encoding="utf-8")
    return found


def code(*modules: ModuleType) -> str:
    """Fingerprint of modules and packages, with their weights and the versions of the libraries they use."""
    sources = {name: content(path) for module in modules for name, path in _sources(module)}
    return values({"sources": sources, "libraries": _libraries()})


def arrays(*columns: Array | None) -> str:
    """Fingerprint of arrays by numbers, shapes and types; None stands for a column that is not there."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(repr(column if column is None else (column.shape, column.dtype.str)).encode())
        if column is not None:
            digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()


def values(key: Any) -> str:
    """Fingerprint of plain JSON values."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]


def _content(path: Path, known: Known) -> str:
    """sha256 of a file, from `known` where its stamp is the same, else by reading."""
    name, now = str(path.absolute()), time.time_ns()
    try:
        stamp = _stamp(path)
        if name in known and known[name][0] == stamp:
            return known[name][1]
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DataNotFound(f"no file {path}; put it back, or give another.") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; give a file that can.") from None
    # As in git's index: a young file may change once more before the clock moves on.
    if now - max(stamp[1:3]) > YOUNG:
        known[name] = [stamp, found]
    return found


def _stamp(path: Path) -> list[int]:
    """Size, times and inode; the second time is that of the last change of any kind, which nobody can set back."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _noted(path: Path) -> Known:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _sources(module: ModuleType) -> Iterator[tuple[str, Path]]:
    """Yield the file of a module, or all files of a package, under names that no other module has."""
    file = getattr(module, "__file__", None)
    if not isinstance(module, ModuleType) or file is None:
        raise TypeError(f"code takes modules that have a file, got {module!r}.")
    yield module.__name__, Path(file)
    if hasattr(module, "__path__"):
        home = Path(file).parent
        found = (path for path in home.rglob("*") if path.suffix in SOURCES)
        yield from ((f"{module.__name__}/{path.relative_to(home).as_posix()}", path) for path in found)


@cache
def _libraries() -> dict[str, str | None]:
    return {name: _version(name) for name in LIBRARIES}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
