"""Many cases in one process: make an example wrong, read it, say what became of it."""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hynet.errors import HynetError

from .readers import READERS

SECONDS = 60  # of one case: then the process is ended, and the case counts as a hang
MEMORY = 2 << 30  # bytes
CLASSES = ("read", "refused", "traceback", "believed", "memory", "hang", "crash")
BAD = CLASSES[2:]

_examples: dict[str, Path] = {}  # of this process


def run(name: str, seed: int, first: int, count: int, note: str) -> list[tuple[int, str, str]]:
    """Number, class and words of each case. `note` is a file that says which one is at work, should we die in it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    _example(name)
    results = []
    for number in range(first, first + count):
        Path(note).write_text(str(number))
        signal.alarm(SECONDS)
        try:
            results.append((number, *_case(name, seed, number)))
        finally:
            signal.alarm(0)
    return results


def _case(name: str, seed: int, number: int) -> tuple[str, str]:
    reader = READERS[name]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    home = Path(tempfile.mkdtemp(dir=_fast()))
    try:
        folder = home / "case"
        shutil.copytree(_example(name), folder)
        files = sorted(path for path in folder.glob(reader.spoilt) if path.is_file())
        file = files[int(rng.integers(len(files)))]
        spoilt = reader.mutate(file.read_bytes(), rng)
        if name == "photos":  # only this one is read
            for other in files:
                other.unlink()
        file.write_bytes(spoilt)
        before = _peak()
        try:
            value = reader.read(folder)
        except HynetError:
            kind, words = "refused", ""
        except MemoryError:
            kind, words = "memory", traceback.format_exc()
        except Exception:
            kind, words = "traceback", traceback.format_exc()
        else:
            kind, words = ("read", "") if all(map(_finite, _leaves(value))) else ("believed", "numbers are not finite")
        if kind in ("read", "refused") and _peak() > max(before, MEMORY):
            kind, words = "memory", f"{_peak() / 1e9:.1f} GB"
        return kind, words
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _example(name: str) -> Path:
    if name not in _examples:
        folder = Path(tempfile.mkdtemp(dir=_fast()))
        READERS[name].make(folder)
        _examples[name] = folder
        with tempfile.TemporaryDirectory(dir=_fast()) as home:  # also imports what it takes, which is no case's time
            READERS[name].read(shutil.copytree(folder, Path(home) / "sound"))
    return _examples[name]


def _fast() -> str | None:
    return os.environ.get("HYNET_CAMPAIGN")  # a folder that the parent removes, in memory where there is one


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _finite(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
    return not isinstance(value, float | np.floating) or bool(np.isfinite(value))
