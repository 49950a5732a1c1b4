"""Parts, such as descriptors, opened by name or by the path of a file that one of them recognises.

A class whose parts are made from files has `from_file(path, **options)`, which returns None for the files of others:
each module holds how its weights are recognised. Rows of installed packages work in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import BadInput, BadWeights, UnknownName, listed, need
from .plugins import BrokenPlugin, Part, Product

FileKind = Literal["hdf5", "onnx", "torch"]
HDF5 = b"\x89HDF\r\n\x1a\n"  # how such a file begins


@dataclass(frozen=True)
class FilePart(Part[Product]):
    """A row whose part can be made from a file, by `open_part`; calling the row makes the part of its name alone."""

    files: tuple[FileKind, ...] = ()  # what it can be made from; a package's is asked about any file
    needs_file: bool = False  # its name alone makes nothing


def open_part(table: Mapping[str, FilePart[Product]], name_or_path: str | Path, kind: str, **options: Any) -> Product:
    """Open the part of that name, or the one that recognises that file; otherwise raise a list of what there is."""
    found, broken = _find(table, name_or_path, options)
    if found is not None:
        return found
    name = str(name_or_path)
    takers = [each for each, row in table.items() if row.files]
    if name in table:
        raise BadInput(f"{name} needs a file; give the path of its file as the {kind}.")
    if name and Path(name).is_file():
        failed = "".join(f" {error}" for error in broken)
        raise BadWeights(f"no {kind} recognises {name}; it should be a file for {listed(takers)}.{failed}")
    ready = [each for each, row in table.items() if not row.needs_file]
    raise UnknownName(f"no {kind} {name!r}; choose {listed(ready)}, or give the path of a file for {listed(takers)}.")


def find_part(table: Mapping[str, FilePart[Product]], name_or_path: str | Path, **options: Any) -> Product | None:
    """Open a part as `open_part` does, but return None where no row has the name or recognises the file."""
    found, _ = _find(table, name_or_path, options)
    return found


def _find(
    table: Mapping[str, FilePart[Product]], name_or_path: str | Path, options: Mapping[str, Any]
) -> tuple[Product | None, list[BrokenPlugin]]:
    """Return the part, if there is one, and the plug-ins that failed on the file."""
    name, path = str(name_or_path), Path(name_or_path)
    if name in table and not table[name].needs_file:  # names before paths: a file called like one does not hide it
        return table[name](**options), []
    if not name or not (path.is_file() or _is_collection(path)):
        return None, []
    kind = _file_kind(path)
    broken: list[BrokenPlugin] = []
    for row in table.values():
        if not row.package and kind not in row.files:
            continue  # not even imported
        if not row.package and kind == "torch":
            need("torch", "train", f"{path}, a file of torch weights,")
        try:
            from_file = getattr(row.imported(), "from_file", None)
            with row.blamed():
                made = None if from_file is None else from_file(path, **options)
        except BrokenPlugin as error:  # does not stop the rest
            broken.append(error)
            continue
        if made is not None:
            return made, broken
    return None, broken


def _is_collection(path: Path) -> bool:
    """True for a folder of HDF5 files with an index, which stands for one file: a collection."""
    return (path / "index.parquet").is_file()


def _file_kind(path: Path) -> FileKind:
    if _is_collection(path):
        return "hdf5"
    try:
        with path.open("rb") as file:
            if file.read(len(HDF5)) == HDF5:
                return "hdf5"
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}.") from None
    return "onnx" if path.suffix == ".onnx" else "torch"
