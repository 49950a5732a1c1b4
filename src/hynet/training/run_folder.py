"""The run folder while it is trained into: what a run goes on from, what it keeps, and that one process writes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadInput
from ..runtime.files import make_folder
from ..runtime.locks import exclusive_lock
from . import checkpoints, distributed
from .checkpoints import BEST, LAST, State
from .logbook import Watch, logbook, unwatched


def previous(out: Path, about: Mapping[str, Any], resume: bool) -> dict[str, Any] | None:
    """The checkpoint to go on from. A folder that holds a run is not overwritten."""
    last, best = out / LAST, out / BEST
    if not last.exists():
        if best.exists():  # of a run that was killed early; another's is not replaced
            checkpoints.check_same_run(best, checkpoints.read(best)["about"], about)
        return None
    if not resume:
        raise BadInput(f"{out} already holds a run; add --resume to go on with it, or choose another --out.")
    content = checkpoints.read(last)
    checkpoints.check_same_run(last, content["about"], about)
    if best.exists():  # a killed run may have been there after it wrote `last`
        kept = checkpoints.read(best)
        checkpoints.check_same_run(best, kept["about"], about)
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
        checkpoints.describe_run(out, about)
        with logbook(out, step, watch) as log:
            yield log


def keep_best(state: State[Any], out: Path, about: Mapping[str, Any], log: Watch) -> None:
    """Log the errors that were just measured; the weights that are the best on their mean are kept."""
    now = state.position
    now.validated_step = now.step
    mean = float(np.mean(list(now.validation.values())))
    if mean < now.best:
        now.best, now.best_validation = mean, dict(now.validation)
        save(out / BEST, state.content(), about)
    log({"step": now.step, "minutes": round(now.seconds / 60, 3), "validation": now.validation})


def save(path: Path, content: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """By the first process, and never weights that are NaN or infinite."""
    if distributed.rank() == 0 and all(weights.isfinite().all() for weights in content["network"].values()):
        checkpoints.save(path, {**content, "about": dict(about)})


def due(minutes: float | None, since: float, otherwise: bool = False) -> bool:
    return otherwise if minutes is None else time.perf_counter() - since >= 60 * minutes
