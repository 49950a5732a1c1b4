"""The trainings of a study: one budget, the same pairs in the same order, several at once, and none of them twice.

out/runs/LOSS-seedN-KEY/    a run folder of `hynet train`; KEY follows from its settings and data, so studies share runs
out/runs/.../trained.json     is there when the run has ended
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from .. import datasets
from ..errors import BadInput, choose
from ..losses import LOSSES
from ..losses.options import options
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..runtime.long_runs import duration, repeatedly
from ..runtime.machine import cores
from ..runtime.pool import in_processes
from ..training.configuration import LENGTHS, NO_EFFECT, Precision, TrainConfig
from ..types import Progress, silent

TRAINED = "trained.json"
SHOWN_EVERY = 2.0  # seconds: how far the runs are
GRACE = 5.0  # seconds for a checkpoint after Ctrl-C: the longest step of a plain CPU
NOTHING_KEPT = "its weights stopped being finite numbers after the last step, and were not kept."
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Budget:
    """Steps and settings that every row of a study gets."""

    steps: int
    pairs_per_batch: int = 512
    seeds: int = 1
    compiled: bool = True
    precision: Precision = "float32"  # settled before a run gets its name: no two precisions share a folder

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("pairs_per_batch", 2), ("seeds", 1)):
            if getattr(self, name) < least:
                raise BadInput(f"--{name.replace('_', '-')} must be {least} or more; got {getattr(self, name)}.")


@dataclass(frozen=True)
class Training:
    """One run of a study."""

    name: str
    config: TrainConfig
    out: Path
    validated: bool = False  # its FPR@95 on the validation set is wanted, on the way

    @property
    def steps(self) -> int:
        assert self.config.steps is not None  # `with_budget` sets it
        return self.config.steps


@dataclass(frozen=True)
class Ended:
    """Outcome of a run."""

    out: Path
    diverged: str = ""  # the sentence, where the loss stopped being a number

    @property
    def checkpoint(self) -> Path:
        return self.out / "last.pt"


def with_budget(
    config: TrainConfig, budget: Budget, seed: int, *, share: float = 1.0, own: bool = False
) -> TrainConfig:
    """The settings of one run: the same number of pairs for every row, in batches of its authors' size if `own`.

    share: of the steps; a search for the margin takes a quarter.
    """
    from ..training.tiling import settled  # brings torch

    pairs = config.pairs_per_batch if own else budget.pairs_per_batch
    steps = max(1, round(share * budget.steps * budget.pairs_per_batch / pairs))
    lengths: dict[str, Any] = dict.fromkeys(LENGTHS) | {"steps": steps}
    return replace(
        _spelt_out(config), **lengths, pairs_per_batch=pairs, pairs_per_epoch=None, seed=seed, compiled=budget.compiled,
        precision=settled(budget.precision), checkpoint_minutes=2.0, validate_minutes=1e9,
    )  # fmt: skip


def _spelt_out(config: TrainConfig) -> TrainConfig:
    """With every option of its loss, so that a margin left out and the same one given are one run."""
    spelt = options(choose(LOSSES, config.loss, "loss").imported()) | config.options_of_the_loss()
    named = {one.name for one in fields(config) if one.metadata.get("of") == "the loss"}  # as options_of_the_loss
    own = {name: value for name, value in spelt.items() if name in named}
    others = {name: value for name, value in spelt.items() if name not in named}
    return replace(config, **own, loss_options=others)


def place(out: Path, config: TrainConfig, data: Sequence[Path], validate: Path | None = None) -> Path:
    """The folder of a run: other settings or other data, another folder. validate: the set that its log is about."""
    settings = {key: value for key, value in asdict(config).items() if key not in NO_EFFECT}
    sets = [datasets.find_patches(root).fingerprint(root) for root in data]
    looked_at = [] if validate is None else [datasets.find_patches(validate).fingerprint(validate)]
    key = fingerprints.values([settings, sets, *looked_at])
    return out / "runs" / f"{config.loss}-seed{config.seed}-{key[:8]}"


def train_all(
    trainings: Sequence[Training],
    data: Sequence[Path],
    validate: Path | None = None,
    *,
    called: str = "runs",
    jobs: int | None = None,
    progress: Progress = silent,
    tell: Tell = lambda line: None,
) -> list[Ended]:
    """All of them; those that have ended are not trained again, one that was interrupted goes on.

    called: what they are to whoever waits for them.
    jobs: how many at once; None: one a core, or one where a GPU trains.
    """
    by_folder = {str(training.out): training for training in trainings}  # two studies may share a run
    missing = {folder: training for folder, training in by_folder.items() if _ended(training) is None}
    jobs = jobs if jobs is not None else _jobs()
    if missing:
        with (
            _watched(list(missing.values()), called, progress, tell) as announce,
            _kept(list(by_folder.values()), called),
        ):
            for folder in _trained_some(missing, data, validate, jobs):
                announce(missing[folder])
    found = {folder: _ended(training) for folder, training in by_folder.items()}
    return [found[str(training.out)] or Ended(training.out, diverged=NOTHING_KEPT) for training in trainings]


def _trained_some(
    missing: Mapping[str, Training], data: Sequence[Path], validate: Path | None, jobs: int
) -> Iterator[str]:
    if jobs <= 1 or len(missing) == 1:
        for folder, training in missing.items():
            train_one(data, validate, training)
            yield folder
    else:
        tasks = {folder: (data, validate, training) for folder, training in missing.items()}
        for folder, _ in in_processes(f"{__name__}:train_one", tasks, jobs, grace=GRACE):
            yield folder


def train_one(data: Sequence[Path], validate: Path | None, training: Training) -> None:
    from ..training.loop import Diverged
    from ..training.tiling import forget_compiled
    from ..training.train import train

    forget_compiled()
    outcome: dict[str, Any] = {"steps": training.steps}
    sets = [validate] if training.validated and validate is not None else []
    try:
        train(training.config, data, training.out, validate=sets, resume=True, recipe_name=training.config.loss)
    except Diverged as error:  # the other rows are worth having
        outcome["diverged"] = str(error)
    with atomic_write(training.out / TRAINED) as temporary:
        temporary.write_text(json.dumps(outcome) + "\n", encoding="utf-8")


def _ended(training: Training) -> Ended | None:
    try:
        outcome = json.loads((training.out / TRAINED).read_text(encoding="utf-8"))
        ended = Ended(training.out, outcome.get("diverged", ""))
    except (OSError, ValueError, AttributeError):
        return None
    return ended if ended.diverged or zipfile.is_zipfile(ended.checkpoint) else None  # torch's format; whole or not


def _jobs() -> int:
    from ..training.distributed import has_gpu

    return 1 if has_gpu() else len(cores())


# --- looking at it ---


@contextmanager
def _watched(
    missing: Sequence[Training], called: str, progress: Progress, tell: Tell
) -> Iterator[Callable[[Training], None]]:
    """Shows the steps of all runs, read from their logs, and tells of each that ends how long the rest will take."""
    start, total = time.monotonic(), sum(training.steps for training in missing)
    before, ended = sum(map(_steps, missing)), set[Path]()

    def done() -> int:
        return sum(training.steps if training.out in ended else _steps(training) for training in missing)

    def show() -> None:
        progress(done(), total, f"training, {len(ended)} of {len(missing)} {called} done")

    def announce(training: Training) -> None:
        ended.add(training.out)
        steps = done()
        left = duration((time.monotonic() - start) * (total - steps) / max(steps - before, 1))
        tell(f"{training.name}: {training.steps} steps; {len(ended)} of {len(missing)} {called}, {left} left")

    with repeatedly(show, SHOWN_EVERY):
        yield announce


@contextmanager
def _kept(trainings: Sequence[Training], called: str) -> Iterator[None]:
    """Says, when it is interrupted, what is not lost."""
    try:
        yield
    except KeyboardInterrupt as stop:
        done = sum(_ended(training) is not None for training in trainings)
        stop.add_note(f"{done} of {len(trainings)} {called} are done")
        raise


def _steps(training: Training) -> int:
    """Steps that a run has done, by the last line of its log."""
    from ..training import logbook

    try:
        return max((line["step"] for line in logbook.read(training.out)), default=0)
    except (BadInput, OSError, KeyError, TypeError):
        return 0
