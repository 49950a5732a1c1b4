"""Run a benchmark and write its table: `hynet evaluate`.

out/NAME.json     everything: rows, intervals, the paper's rows, comparisons, curves, details, versions, command
out/NAME.md       the table, notes and pictures
out/NAME-*.svg    the pictures
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import CannotWrite, choose
from ..runtime.files import atomic_write, make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.machine import keep_memory_mapped
from ..types import Progress, silent
from . import BENCHMARKS
from .contestants import Model
from .results import Evaluation, markdown, shown, summary

LIBRARIES = ("numpy", "opencv-contrib-python-headless", "onnxruntime", "torch", "pydegensac", "poselib", "pycolmap")


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


def write(evaluation: Evaluation, out: Path, command: str = "") -> list[Path]:
    """Write the files of an evaluation, in place of those of an earlier one of the same benchmark."""
    from . import charts

    name = evaluation.benchmark
    drawn = {
        out / f"{name}-{stem}.svg": charts.svg_file(charts.drawn(picture, shown(evaluation.rows)))
        for stem, picture in evaluation.pictures.items()
    }
    content = {
        **summary(evaluation),
        "title": evaluation.title,
        "paper": None if evaluation.paper is None else asdict(evaluation.paper),
        "formats": dict(evaluation.formats),
        "lower_is_better": list(evaluation.lower_is_better),
        "comparisons": [asdict(each) for each in evaluation.comparisons],
        "pictures": {
            stem: {"kind": type(picture).__name__.lower(), **asdict(picture)}
            for stem, picture in evaluation.pictures.items()
        },
        "details": dict(evaluation.details),
        "notes": list(evaluation.notes),
        "command": command,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    images = [f"![{path.stem}]({path.name})" for path in drawn]
    text = "\n\n".join(filter(None, [markdown(evaluation), f"`{command}`" if command else "", *images]))
    files = {out / f"{name}.json": json.dumps(content, indent=1), out / f"{name}.md": text + "\n", **drawn}
    for path, text in files.items():
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return list(files)


def versions() -> dict[str, str | None]:
    """Versions of the libraries that the numbers were computed with."""
    found: dict[str, str | None] = {"hynet": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = None
    return found
