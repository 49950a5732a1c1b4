"""The rows of our tables: each makes its part by name, or from a file that it recognises as its own.

A class whose parts are made from files has `from_file(path, **options)`, which returns None for the files of others;
so each says itself, in its own module, how its weights are recognised. Rows of installed packages work in the same way.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import BadInput, BadWeights, UnknownName
from .plugins import BrokenPlugin, Plugin

FileKind = Literal["hdf5", "onnx", "torch"]
HDF5 = b"\x89HDF\r\n\x1a\n"  # how such a file begins


@dataclass(frozen=True)
class Part:
    """Calling it makes the part. Its module is imported only then."""

    module: str  # its full name
    name: str  # of the class in it
    about: str
    files: tuple[FileKind, ...] = ()  # what it can be made from
    needs_file: bool = False  # its name alone makes nothing

    def load(self) -> Any:
        """The class itself."""
        return getattr(importlib.import_module(self.module), self.name)

    def __call__(self, *values: Any, **options: Any) -> Any:
        return self.load()(*values, **options)


PartTable = Mapping[str, Part | Plugin]


def open_part(table: PartTable, name_or_path: str | Path, kind: str, **options: Any) -> Any:
    """The part of that name, or the one that recognises that file; otherwise a sentence that says what there is."""
    found = find_part(table, name_or_path, **options)
    if found is not None:
        return found
    name = str(name_or_path)
    if name in table:
        raise BadInput(f"{name} needs weights; give the path of the file as the {kind}.")
    takers = [row.name for row in table.values() if isinstance(row, Part) and row.files]
    if name and Path(name).is_file():
        raise BadWeights(f"no {kind} recognises {name}; it should be the file of {_listed(takers)}.")
    ready = [each for each, row in table.items() if isinstance(row, Plugin) or not row.needs_file]
    raise UnknownName(
        f"no {kind} {name!r}; choose {_listed(ready)}, or give the path of the file of {_listed(takers)}."
    )


def find_part(table: PartTable, name_or_path: str | Path, **options: Any) -> Any | None:
    """The same, but None where nobody knows the name and nobody recognises the file."""
    name, path = str(name_or_path), Path(name_or_path)
    row = table.get(name)  # names before paths: a file called like one does not hide it
    if row is not None and not (isinstance(row, Part) and row.needs_file):
        return row(**options)
    return _recognised(table, path, **options) if name and path.is_file() else None


def _recognised(table: PartTable, path: Path, **options: Any) -> Any | None:
    kind = _file_kind(path)
    for row in table.values():
        if isinstance(row, Part) and kind not in row.files:
            continue  # not even imported
        try:
            from_file = getattr(row.load(), "from_file", None)
        except BrokenPlugin:
            continue  # whoever asks for it by name is told
        made = None if from_file is None else from_file(path, **options)
        if made is not None:
            return made
    return None


def _file_kind(path: Path) -> FileKind:
    try:
        with path.open("rb") as file:
            if file.read(len(HDF5)) == HDF5:
                return "hdf5"
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}.") from None
    return "onnx" if path.suffix == ".onnx" else "torch"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
