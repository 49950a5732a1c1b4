"""A descriptor and the code that its rows are stored in, as one file: what `hynet compress` writes."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ....errors import BadInput, BadWeights
from ....runtime.files import atomic_write
from ....types import Array, Descriptor
from ..loading import load, models
from .codes import CODES, Code, parse

SUFFIX = ".hynet"
EXAMPLES = 50_000  # descriptors that a code is learnt from
FEWEST = 1000


class Compressed(Descriptor):
    """The rows of another descriptor as they are after storing, unit rows again."""

    def __init__(self, descriptor: Descriptor, code: Code) -> None:
        self.inner = descriptor
        self.code = code
        self.patch_size = descriptor.patch_size
        self.dim = code(np.eye(1, descriptor.dim, dtype=np.float32)).shape[1]
        self.bytes = code.bytes(descriptor.dim)  # of one stored row
        self.support = descriptor.support
        ratio = descriptor.ratio
        self.ratio = ratio if ratio is None or code.keeps_ratio else float(np.sqrt(ratio))

    def describe(self, patches: Array) -> Array:
        return self.code(self.inner.describe(patches))

    def modules(self) -> list[Any]:
        """The parts whose code decides what comes out, as torch networks have them."""
        return [self.inner, self.code]


def compress(model: str | Path, patches: Array, to: str, path: str | Path) -> Compressed:
    """Learn the code from descriptors of patches (N, S, S) uint8, and write it with the model into one file."""
    path = Path(path)
    kind, size = parse(to)
    if path.suffix != SUFFIX:
        raise BadInput(f"a compressed model is a {SUFFIX} file, got {path.name!r}.")
    if len(patches) < FEWEST:
        raise BadInput(f"a code is learnt from {FEWEST} patches or more, got {len(patches)}.")
    file = models().get(str(model), Path(model))
    if file.is_dir():
        raise BadInput(f"{model} is a folder, which does not fit into one file; `hynet export` it as .onnx first.")
    descriptor = load(model)
    if isinstance(descriptor, Compressed):
        raise BadInput(f"{model} is compressed already; give the model that it was made from.")
    CODES[kind].check(descriptor.dim, size)
    some = np.sort(np.random.default_rng(0).permutation(len(patches))[:EXAMPLES])
    code = CODES[kind].fit(descriptor.describe(patches[some]), size)
    about = {"code": to, "model": str(model) if not file.is_file() else f"model{file.suffix}"}
    with atomic_write(path) as temporary:
        with temporary.open("wb") as out:
            np.savez(
                out,
                about=np.array(json.dumps(about)),
                model=np.frombuffer(file.read_bytes() if file.is_file() else b"", np.uint8),
                **{f"code.{each.name}": getattr(code, each.name) for each in fields(code)},
            )
        return open_compressed(temporary)


def open_compressed(path: Path, device: str | None = None) -> Compressed:
    """The engine: the model inside the file, and its code after it."""
    try:
        with np.load(path) as stored:
            content = {name: stored[name] for name in stored.files}
        about = json.loads(str(content["about"]))
        kind, _ = parse(about["code"])
        name = Path(about["model"]).name  # never a path: nobody knows who wrote the file
        code = CODES[kind](**{each.name: content[f"code.{each.name}"] for each in fields(CODES[kind])})
        usable = all(np.isfinite(getattr(code, each.name)).all() for each in fields(code))
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, RecursionError, MemoryError):
        usable = False
    if not usable:
        raise BadWeights(f"{path} is not a compressed model; `hynet compress` writes one.")
    descriptor = _inner(name, content["model"].tobytes(), device)
    try:
        return Compressed(descriptor, code)
    except (ValueError, IndexError, AttributeError):
        raise BadWeights(f"{path} holds a code that does not fit its model; compress it again.") from None


def _inner(name: str, weights: bytes, device: str | None) -> Any:
    """The model, by name where it has no weights; else from the bytes, in a file for as long as it is read."""
    if not weights:
        return load(name, device=device)
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(weights)
        return load(file, device=device)
