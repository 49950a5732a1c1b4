"""Run a benchmark and write its table: `hynet evaluate`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import CannotWrite, choose
from ..runtime.files import make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.machine import keep_memory_mapped
from ..types import Progress, silent
from . import BENCHMARKS
from .contestants import Model
from .results import Evaluation, write


def evaluate(
    benchmark: str,
    models: Sequence[Model],
    data: Path,
    *,
    out: Path | None = None,
    command: str = "",
    progress: Progress = silent,
    **options: Any,
) -> tuple[Evaluation, list[Path]]:
    """Score models on a benchmark and write table, JSON and pictures to a folder: the evaluation and these files.

    command: the command line that did it, for the files. options: the fields of the benchmark's own dataclass.
    """
    protocol = choose(BENCHMARKS, benchmark, "benchmark")
    keep_memory_mapped()  # distances come in big blocks: retrieval takes less than half the time
    if out is None:
        return protocol(models, data, progress=progress, **options), []
    with writable(out), exclusive_lock(out / benchmark):
        found = protocol(models, data, progress=progress, **options)
        return found, write(found, out, command)


@contextmanager
def writable(out: Path) -> Iterator[None]:
    """Check before hours of work that a folder can be written to; leave no empty one behind where the work fails."""
    is_new = not out.exists()
    make_folder(out)
    if not os.access(out, os.W_OK | os.X_OK):
        raise CannotWrite(f"cannot write to {out}: no permission; choose another folder.")
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):  # it holds something
                out.rmdir()
        raise
