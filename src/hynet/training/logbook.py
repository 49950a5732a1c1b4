"""log.jsonl of a run folder, one object a line: written while training, read to draw curves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..runtime.files import atomic_write

LOG = "log.jsonl"

Line = Mapping[str, Any]
Watch = Callable[[Line], None]


def unwatched(line: Line) -> None:
    """The default watcher: nobody."""


@contextmanager
def logbook(out: Path, step: int, watch: Watch) -> Iterator[Watch]:
    """A function that writes a line into the log, to TensorBoard where that is installed, and shows it to `watch`."""
    lines = [line for line in _lines(out / LOG) if line["step"] <= step]  # a resumed run writes later ones again
    with atomic_write(out / LOG) as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    board = _tensorboard(out, step)
    with (out / LOG).open("a", encoding="utf-8") as file:

        def write(line: Line) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()
            for name, value in {**line, **line.get("validation", {})}.items():
                if board and isinstance(value, float):
                    board.add_scalar(name, value, line["step"])
            watch(line)

        yield write
    if board:
        board.close()


def read(run: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's log, oldest first."""
    path = Path(run) / LOG
    if not path.exists():
        raise BadInput(f"no {LOG} in {run}; give the folder of a training run.")
    return _lines(path)


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = []
    for text in path.read_bytes().splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):  # a power loss can cut the last line short
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines


def _tensorboard(out: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(out), purge_step=step)
