"""Training: the loop, read top to bottom. `configuration.py` says what a run is, `recipes.py` names the paper's."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import BadInput, HynetError
from ..features.descriptors.layers import Network
from ..losses import Loss, LossTerms
from ..losses.options import takes
from ..runtime.machine import keep_memory_mapped
from ..types import PatchSet
from . import checkpoints, distributed
from .batches import Batch, batches, one_ahead, seed_of
from .checkpoints import Position, State
from .configuration import TrainConfig as TrainConfig
from .configuration import learning_rate, progress
from .descriptor import OwnNetwork, has_gpu, loss_function, start, tiled
from .distillation import teacher_of
from .logbook import Watch, unwatched
from .run_folder import due, keep_best, previous, save, writing
from .sampling import batches_per_epoch, mix
from .stopping import interrupt, stop_signals
from .tiling import threads_for
from .validation import ValidationSets, described, validation_error


class Diverged(HynetError, ArithmeticError):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class Trained:
    """How a run ended."""

    steps: int
    patches_per_second: float  # of the steps alone, without the first, which compiles
    checkpoint: Path  # the best on validation, or the last where nothing is validated
    validation: Mapping[str, float]  # set -> FPR@95 in percent, of that checkpoint
    last_validation: Mapping[str, float]  # of the last weights


@distributed.joined()
def train(
    config: TrainConfig,
    data: Mapping[str, PatchSet],
    out: str | Path,
    *,
    validate: ValidationSets | None = None,
    recipe: str = "custom",
    resume: bool = False,
    watch: Watch = unwatched,
    network: OwnNetwork | None = None,
    loss: Loss | None = None,
    device: str | None = None,
) -> Trained:
    """Train on the named sets, into a run folder; `watch` is shown every line of the log.

    A network and a loss of one's own take the place of those that the config names.
    device: where it trains; None: on a GPU if there is one.
    """
    keep_memory_mapped()
    out = Path(out)
    validate = validate or {}
    device = _present(device or ("cuda" if has_gpu() else "cpu"))
    about = checkpoints.about(recipe, config, data)
    if checkpoint := previous(out, about, resume):
        state = start(replace(config, start_from=None), device, network)
        state.restore(checkpoint)
    else:
        state = start(config, device, network)
    about |= {"dim": state.network.dim}
    loss = loss_function(config, loss)
    fast = tiled(state.network, config, loss)
    teacher = teacher_of(config, loss, device)
    model = distributed.distributed(fast)
    mixture = mix(list(data.values()))
    now, rate = state.position, Rate()
    per_epoch = batches_per_epoch(mixture, config.pairs_per_batch, config.pairs_per_epoch)
    clock = saved = validated = time.perf_counter()
    snapshot: dict[str, Any] | None = None

    with writing(out, about, now.step, watch) as log, stop_signals() as stopped, threads_for(fast):
        for batch in one_ahead(batches(mixture, config, first=now.step, per_epoch=per_epoch, device=device)):
            now.seconds, stop = distributed.agree(now.seconds + time.perf_counter() - clock, bool(stopped))
            clock, done = time.perf_counter(), progress(config, now.step, now.seconds, per_epoch)
            if stop or done >= 1:
                break
            if config.certain and rate.counted == 0 and distributed.rank() == 0:
                watch({"step": now.step, "minutes": round(now.seconds / 60, 3), "negatives": batch.negatives_per_pair})
            if teacher and done < config.lessons:
                batch = replace(batch, taught=teacher(batch))
            torch.manual_seed(seed_of(config.seed, now.step, distributed.rank()))  # for dropout
            terms = loss_of(model, batch, loss)
            check_finite(terms, batch, now.step, out)
            if snapshot:  # its weights gave a sound loss: they are good to go on from
                save(out / checkpoints.LAST, snapshot, about)
                snapshot = None
            step(state, terms.total, learning_rate(config, done))
            now.step += 1
            rate.add(2 * config.pairs_per_batch, time.perf_counter() - clock)

            if now.step % config.log_every == 0:
                log(_line(config, now, terms, done, rate))
            if validate and due(config.validate_minutes, validated, now.step % per_epoch == 0):
                _validate(state, validate, out, about, log)
                validated = time.perf_counter()
            if due(config.checkpoint_minutes, saved):
                snapshot, saved = copy.deepcopy(state.content()), time.perf_counter()
        if validate and not stop and now.validated_step != now.step:
            _validate(state, validate, out, about, log)
        save(out / checkpoints.LAST, state.content(), about)
    if stop:
        interrupt(stopped, now.step, out)
    if not validate:
        return Trained(now.step, rate.patches_per_second, out / checkpoints.LAST, {}, {})
    best = dict(now.best_validation), dict(now.validation)
    return Trained(now.step, rate.patches_per_second, out / checkpoints.BEST, *best)


# --- one step -------------------------------------------------------------------------------------------------------


def loss_of(model: nn.Module, batch: Batch, loss: Loss) -> LossTerms:
    """The loss of the whole batch, negatives taken from all processes; its gradients reach this process's share."""
    device = batch.anchors.device.type
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        anchors, positives = model(batch.anchors, batch.positives)
    (raw_a, *maps_a), (raw_p, *maps_p) = map(distributed.gather, anchors), map(distributed.gather, positives)
    known: dict[str, Any] = {"negatives": batch.negatives} if takes(loss, "negatives") else {}
    if maps_a:
        known["maps"] = list(zip(maps_a, maps_p, strict=True))
    if batch.taught is not None:
        known["taught"] = tuple(map(distributed.gather, batch.taught))
    terms = loss(raw_a, raw_p, **known)
    if not isinstance(terms, LossTerms):
        raise BadInput(
            f"a loss returns hynet.losses.LossTerms, this one a {type(terms).__name__}; `added_up` makes it."
        )
    return terms


def step(state: State[Any], total: Tensor, rate: float) -> None:
    """Move the weights against the gradient of the loss."""
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    state.optimiser.zero_grad(set_to_none=True)
    total.backward()
    state.optimiser.step()
    state.update_average()


# --- looking at it --------------------------------------------------------------------------------------------------


@dataclass
class Rate:
    """How fast the steps of this session are. The first one compiles and is left out, once there is another."""

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


def _line(config: TrainConfig, now: Position, terms: LossTerms, done: float, rate: Rate) -> dict[str, Any]:
    left = now.seconds * (1 / done - 1) / 60 if done else None
    return {
        "step": now.step,
        "minutes": round(now.seconds / 60, 3),
        "minutes_left": None if left is None else round(left, 1),
        "learning_rate": learning_rate(config, done),
        "loss": float(terms.total.detach()),
        **{name: float(value.detach()) for name, value in terms.terms.items()},
        **({} if terms.raw else _similarities(terms)),
        "violated": float(terms.violated),
        "steps_per_second": round(rate.patches_per_second / (2 * config.pairs_per_batch), 4),
        "patches_per_second": round(rate.patches_per_second, 1),
    }


def _similarities(terms: LossTerms) -> dict[str, float]:
    """Mean cosine of partners, and of each with its hardest negative."""
    cosines = {"positive_similarity": terms.d_pos, "negative_similarity": terms.d_neg}
    return {name: float((1 - distance.square() / 2).mean()) for name, distance in cosines.items()}


def check_finite(terms: LossTerms, batch: Batch, step: int, out: Path) -> None:
    """Stop before a loss that is NaN or infinite reaches the weights."""
    if torch.isfinite(terms.total):
        return
    told = ", ".join(f"{name} {float(value.detach()):g}" for name, value in terms.terms.items())
    flat = sum(int((side.flatten(1).std(1) == 0).sum()) for side in (batch.anchors, batch.positives))
    broken = "NaN or infinite too" if not torch.isfinite(terms.d_pos).all() else "finite"
    kept = f"the last good checkpoint is kept in {out}; try a lower learning rate"
    remedy = (
        kept if (out / checkpoints.LAST).exists() else "check the loss and the patches, or try a lower learning rate"
    )
    raise Diverged(
        f"the loss is {float(terms.total.detach())} at step {step} ({told}; the descriptors are {broken}; {flat} of "
        f"{2 * len(batch.anchors)} patches are flat); {remedy}."
    )


def _validate(state: State[Network], sets: ValidationSets, out: Path, about: Mapping[str, Any], log: Watch) -> None:
    """FPR@95 on every set; keeps the weights that are the best on their mean."""
    if distributed.rank() != 0:
        return
    now = state.position
    now.validation = {name: validation_error(partial(described, state.averaged), *some) for name, some in sets.items()}
    keep_best(state, out, about, log)


def _present(device: str) -> str:
    """The device with its number, if torch knows it and it is there: to the thread that makes batches, "cuda" alone
    is the first GPU, whichever this process trains on."""
    try:
        return str(torch.empty(0, device=device).device)
    except (RuntimeError, AssertionError):
        raise BadInput(f"there is no device {device!r}; leave the device out, or name one that torch has.") from None
