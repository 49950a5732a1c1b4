"""The training loop, read top to bottom: whatever is trained is a `Task`."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import HynetError
from ..runtime.machine import keep_memory_mapped
from ..types import Progress, silent
from . import checkpoints, distributed
from .checkpoints import State
from .logbook import Watch, unwatched
from .run_folder import due, save, writing
from .stopping import interrupt, stop_signals
from .tasks import Task, Trained

Item = TypeVar("Item")


class Diverged(HynetError, ArithmeticError):
    """The loss is no longer a number."""


def run(
    task: Task,
    out: Path,
    about: Mapping[str, Any],
    checkpoint: Mapping[str, Any] | None = None,
    *,
    watch: Watch = unwatched,
    progress: Progress = silent,
) -> Trained:
    """Train until the length of the run is reached, or to a signal; all that stays is in the run folder.

    checkpoint: to go on from.
    watch: is shown every line of the log.
    """
    keep_memory_mapped()
    config, state = task.config, task.state
    if checkpoint:
        state.restore(checkpoint)
        state.position.choose_anew(task.validation_sets)
    now, rate = state.position, Rate()
    clock = saved = validated = time.perf_counter()
    snapshot: dict[str, Any] | None = None

    with writing(out, about, now.step, watch) as log, stop_signals() as stopped, _threads(task):
        for batch in one_ahead(task.batches(now.step)):
            now.seconds, stop = distributed.agree(now.seconds + time.perf_counter() - clock, bool(stopped))
            clock, done = time.perf_counter(), config.progress(now.step, now.seconds, task.per_epoch)
            if stop or done >= 1:
                break
            if rate.counted == 0 and distributed.rank() == 0 and (remarks := task.remarks(batch)):
                watch({"step": now.step, "minutes": round(now.seconds / 60, 3), **remarks})
            torch.manual_seed(config.seed_of(now.step, distributed.rank()))  # for dropout
            total, shown = task.loss(batch, done)
            _check_finite(total, shown, now.step, out)
            if snapshot:  # its weights gave a sound loss: they are good to go on from
                save(out / checkpoints.LAST, snapshot, about)
                snapshot = None
            step(state, total, config.rate_at(done), task.largest_gradient)
            now.step += 1
            rate.add(task.patches_per_step, time.perf_counter() - clock)
            progress(round(1000 * done), 1000, f"step {now.step}")

            if now.step % config.log_every == 0:
                log(_line(task, total, shown, done, rate))
            if task.validation_sets and due(config.validate_minutes, validated, now.step % task.per_epoch == 0):
                _validate(task, out, about, log)
                validated = time.perf_counter()
            if due(config.checkpoint_minutes, saved):
                snapshot, saved = copy.deepcopy(state.content()), time.perf_counter()
        if task.validation_sets and not stop and now.validated_step != now.step:
            _validate(task, out, about, log)
        save(out / checkpoints.LAST, state.content(), about)
    if stop:
        interrupt(stopped, now.step, out)
    if not task.validation_sets:
        return Trained(now.step, rate.patches_per_second, out / checkpoints.LAST, now.step, {}, {})
    best = out / checkpoints.BEST
    kept = checkpoints.read(best)["position"]["step"] if best.exists() else now.step
    validations = dict(now.best_validation), dict(now.validation)
    return Trained(now.step, rate.patches_per_second, best, kept, *validations)


def step(state: State[Any], total: Tensor, rate: float, largest_gradient: float | None = None) -> None:
    """Move the weights against the gradient of the loss."""
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    state.optimiser.zero_grad(set_to_none=True)
    total.backward()
    if largest_gradient is not None:
        torch.nn.utils.clip_grad_norm_(state.network.parameters(), largest_gradient)
    state.optimiser.step()
    state.update_average()


@dataclass
class Rate:
    """Speed of the steps of this session. The first one compiles and is left out, once there is another."""

    patches: int = 0
    seconds: float = 0.0
    counted: int = 0

    def add(self, patches: int, seconds: float) -> None:
        if self.counted == 1:
            self.patches, self.seconds = 0, 0.0
        self.patches += patches
        self.seconds += seconds
        self.counted += 1

    @property
    def patches_per_second(self) -> float:
        return self.patches / self.seconds if self.seconds else 0.0


def _line(task: Task, total: Tensor, shown: Mapping[str, Tensor], done: float, rate: Rate) -> dict[str, Any]:
    now = task.state.position
    left = now.seconds * (1 / done - 1) / 60 if done else None
    return {
        "step": now.step,
        "minutes": round(now.seconds / 60, 3),
        "minutes_left": None if left is None else round(left, 1),
        "learning_rate": task.config.rate_at(done),
        "loss": float(total.detach()),
        **{name: float(value.detach()) for name, value in shown.items()},
        "steps_per_second": round(rate.patches_per_second / task.patches_per_step, 4),
        "patches_per_second": round(rate.patches_per_second, 1),
    }


def _check_finite(total: Tensor, shown: Mapping[str, Tensor], step: int, out: Path) -> None:
    """Stop before a loss that is NaN or infinite reaches the weights."""
    if torch.isfinite(total):
        return
    values = ", ".join(f"{name} {float(value.detach()):g}" for name, value in shown.items())
    kept = (out / checkpoints.LAST).exists()
    remedy = f"the last good checkpoint is kept in {out}; try" if kept else "check the loss and the data, or try"
    raise Diverged(
        f"the loss is {float(total.detach())} at step {step}{f' ({values})' if values else ''}; {remedy} a lower "
        "learning rate."
    )


def _validate(task: Task, out: Path, about: Mapping[str, Any], log: Watch) -> None:
    """Measure the error on every set; the weights that are the best on their mean are kept."""
    if distributed.rank() != 0:
        return
    now = task.state.position
    now.validation, now.validated_step = task.validate(), now.step
    mean = float(np.mean(list(now.validation.values())))
    if mean < now.best:
        now.best, now.best_validation = mean, dict(now.validation)
        save(out / checkpoints.BEST, task.state.content(), about)
    log({"step": now.step, "minutes": round(now.seconds / 60, 3), "validation": now.validation})


def one_ahead(endless: Iterator[Item]) -> Iterator[Item]:
    """Prefetch batches, each made during the step before: otherwise all cores but one would wait for it."""
    with ThreadPoolExecutor(1, initializer=lambda: torch.set_num_threads(1)) as worker:
        following = worker.submit(next, endless)
        while True:
            batch = following.result()
            following = worker.submit(next, endless)
            yield batch


@contextmanager
def _threads(task: Task) -> Iterator[None]:
    """While the workers of a task have the cores, what is left for this thread is small: it does that alone, too."""
    before = torch.get_num_threads()
    if task.one_thread:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
