"""The run folder during a run: one process writes it, and a run goes on from what is in it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..runtime.files import atomic_write, make_folder
from ..runtime.locks import exclusive_lock
from . import checkpoints, distributed
from .checkpoints import BEST, LAST
from .configuration import RunConfig
from .logbook import Watch, logbook, unwatched


def previous(out: Path, about: Mapping[str, Any], config: RunConfig, resume: bool) -> dict[str, Any] | None:
    """The checkpoint to go on from. A folder that holds a run is not overwritten."""
    last, best = out / LAST, out / BEST
    if not last.exists():
        if best.exists():  # of a run that was killed early; another's is not replaced
            checkpoints.check_same_run(best, checkpoints.read(best)["about"], about, config)
        return None
    if not resume:
        raise BadInput(f"{out} already holds a run; add --resume to go on with it, or choose another --out.")
    content = checkpoints.read(last)
    checkpoints.check_same_run(last, content["about"], about, config)
    if best.exists():  # a killed run may have been there after it wrote `last`
        kept = checkpoints.read(best)
        checkpoints.check_same_run(best, kept["about"], about, config)
        if kept["position"]["best"] <= content["position"]["best"]:
            content["position"] |= {"best": kept["position"]["best"], "best_validation": kept["position"]["validation"]}
    return content


@contextmanager
def writing(out: Path, about: Mapping[str, Any], step: int, watch: Watch) -> Iterator[Watch]:
    """The first process writes, and no other run beside it; the others say nothing."""
    if distributed.rank() != 0:
        yield unwatched
        return
    with exclusive_lock(make_folder(out)):
        if step == 0:
            (out / BEST).unlink(missing_ok=True)  # of a run that was killed before it wrote `last`
        with atomic_write(out / checkpoints.ABOUT) as temporary:
            temporary.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        with logbook(out, step, watch) as log:
            yield log


def save(path: Path, content: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Save a checkpoint, from the first process only, and never weights that are NaN or infinite."""
    if distributed.rank() == 0 and all(weights.isfinite().all() for weights in content["network"].values()):
        checkpoints.save(path, {**content, "about": dict(about)})


def due(minutes: float | None, since: float, otherwise: bool = False) -> bool:
    return otherwise if minutes is None else time.perf_counter() - since >= 60 * minutes
