"""Training: the loop, read top to bottom. `configuration.py` says what a run is, `recipes.py` names the paper's."""

from __future__ import annotations

import copy
import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..descriptors import DESCRIPTORS, loading
from ..descriptors.layers import Network, start_orthogonal
from ..errors import BadInput, BadWeights, HynetError, choose
from ..losses import LOSSES, Loss, LossTerms
from ..metrics import fpr95
from ..mining import Strangers, certainly_different
from ..system.files import make_folder
from ..system.locks import alone
from ..system.machine import keep_memory_mapped
from ..types import Array, PatchPairs, PatchSet
from . import checkpoints, distributed
from .checkpoints import Position, State
from .configuration import TrainConfig as TrainConfig
from .configuration import learning_rate, progress
from .logbook import Watch, logbook, unwatched
from .sampling import Mixture, augment, batches_per_epoch, mix, pairs
from .tiling import Tiled, has_bfloat16, one_worker_per_core, threads_for

VALIDATION_PAIRS = 10_000  # at most, of each set: bounds the time, and 1% is then known to 0.14%


class Diverged(HynetError, ArithmeticError):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class Batch:
    """This process's share of the pairs, and who is a stranger to whom in the whole batch."""

    anchors: Tensor  # (n, 1, 32, 32) float 0-255
    positives: Tensor  # (n, 1, 32, 32)
    strangers: Strangers


@dataclass(frozen=True)
class Trained:
    """How a run ended."""

    steps: int
    patches_per_second: float  # of the steps alone, without the first, which compiles
    checkpoint: Path  # the best on validation, or the last where nothing is validated
    validation: Mapping[str, float]  # set -> FPR@95 in percent, of that checkpoint
    last_validation: Mapping[str, float]  # of the last weights


ValidationSets = Mapping[str, tuple[PatchSet, PatchPairs]]


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
) -> Trained:
    """Train on the named sets, into a run folder; `watch` is shown every line of the log."""
    keep_memory_mapped()
    out, validate, device = Path(out), validate or {}, "cuda" if torch.cuda.is_available() else "cpu"
    about = checkpoints.about(recipe, config, data)
    if checkpoint := _previous(out, about, resume):
        state = start(replace(config, start_from=None), device)
        state.restore(checkpoint)
    else:
        state = start(config, device)
    fast = tiled(state.network, config)
    model = distributed.distributed(fast)
    mixture, loss, now, rate = mix(list(data.values())), loss_function(config), state.position, Rate()
    per_epoch = batches_per_epoch(mixture, config.pairs_per_batch, config.pairs_per_epoch)
    clock = saved = validated = time.perf_counter()
    snapshot: dict[str, Any] | None = None

    with _logging(out, about, now.step, watch) as log, _stop_signals() as stopped, threads_for(fast):
        for batch in batches(mixture, config, first=now.step, per_epoch=per_epoch, device=device):
            now.seconds, stop = distributed.agree(now.seconds + time.perf_counter() - clock, stopped.is_set())
            clock, done = time.perf_counter(), progress(config, now.step, now.seconds, per_epoch)
            if stop or done >= 1:
                break
            torch.manual_seed(seed_of(config.seed, now.step, distributed.rank()))  # for dropout
            terms = loss_of(model, batch, loss)
            _check(terms, batch, now.step, out)
            if snapshot:  # its weights gave a sound loss: they are good to go on from
                _save(out / checkpoints.LAST, snapshot, about)
                snapshot = None
            step(state, terms.total, learning_rate(config, done))
            now.step += 1
            rate.add(2 * config.pairs_per_batch, time.perf_counter() - clock)

            if now.step % config.log_every == 0:
                log(_line(config, now, terms, done, rate))
            if validate and _due(config.validate_minutes, validated, now.step % per_epoch == 0):
                _validate(state, validate, out, about, log)
                validated = time.perf_counter()
            if _due(config.checkpoint_minutes, saved):
                snapshot, saved = copy.deepcopy(state.content()), time.perf_counter()
        if validate and not stop and now.validated_step != now.step:
            _validate(state, validate, out, about, log)
        _save(out / checkpoints.LAST, state.content(), about)
    if stop:
        raise KeyboardInterrupt
    if not validate:
        return Trained(now.step, rate.patches_per_second, out / checkpoints.LAST, {}, {})
    best = dict(now.best_validation), dict(now.validation)
    return Trained(now.step, rate.patches_per_second, out / checkpoints.BEST, *best)


# --- one step -------------------------------------------------------------------------------------------------------


def start(config: TrainConfig, device: str) -> State:
    """A fresh network and its optimiser, the same in every process."""
    torch.manual_seed(seed_of(config.seed))
    network = network_of(config)
    if config.start == "orthogonal":
        start_orthogonal(network, config.gain)
    if config.start_from:
        found = loading.network(config.start_from)
        if [*found.state_dict()] != [*network.state_dict()]:
            raise BadWeights(
                f"{config.start_from} is a {type(found).__name__}, but the recipe trains another network; "
                "choose weights of the same network and --norm."
            )
        network.load_state_dict(found.state_dict())
    network.to(device).train()
    distributed.synchronise(network)
    return State(network, optimiser_of(config, network), config.average)


def optimiser_of(config: TrainConfig, network: nn.Module) -> torch.optim.Optimizer:
    weights, rate, decay = network.parameters(), config.learning_rate, config.weight_decay
    if config.optimiser == "adam":
        return torch.optim.Adam(weights, rate, weight_decay=decay, fused=True)
    return torch.optim.SGD(weights, rate, config.momentum, config.dampening, decay)


def network_of(config: TrainConfig) -> Network:
    """The untrained network; options that it does not have are left out."""
    row = choose({name: row for name, row in DESCRIPTORS.items() if row.learnt}, config.network, "network")
    known = inspect.signature(row.made_by().__init__).parameters
    options = {"norm": config.norm, "dropout": config.dropout}
    return row(**{name: value for name, value in options.items() if name in known})


def tiled(network: Network, config: TrainConfig) -> Tiled:
    """The network, ready for fast steps; L2-Net's loss looks at its feature maps too."""
    bfloat16 = config.precision == "bfloat16" or (config.precision == "auto" and has_bfloat16())
    with_maps = config.loss == "l2net" and hasattr(network, "with_maps")
    return Tiled(network, compiled=config.compiled, with_maps=with_maps, bfloat16=bfloat16)


def loss_function(config: TrainConfig) -> Loss:
    """The loss with the options that the config sets."""
    loss = choose(LOSSES, config.loss, "loss")
    options = {name: getattr(config, name) for name in ("margin", "alpha", "gamma", "z", "sosr", "level")}
    options = {name: value for name, value in options.items() if value is not None}
    if strange := [name for name in options if name not in inspect.signature(loss).parameters]:
        raise BadInput(f"the loss {config.loss} has no {' and no '.join(strange)}; leave it out.")
    return partial(loss, **options)


def loss_of(model: nn.Module, batch: Batch, loss: Loss) -> LossTerms:
    """The loss of the whole batch, negatives taken from all processes; its gradients reach this process's share."""
    device = batch.anchors.device.type
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        anchors, positives = model(batch.anchors, batch.positives)
    (raw_a, *maps_a), (raw_p, *maps_p) = map(distributed.gather, anchors), map(distributed.gather, positives)
    maps = {"maps": list(zip(maps_a, maps_p, strict=True))} if maps_a else {}
    return loss(raw_a, raw_p, strangers=batch.strangers, **maps)


def step(state: State, total: Tensor, rate: float) -> None:
    """Move the weights against the gradient of the loss."""
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    state.optimiser.zero_grad(set_to_none=True)
    total.backward()
    state.optimiser.step()
    state.update_average()


def batches(data: Mixture, config: TrainConfig, *, first: int, per_epoch: int, device: str) -> Iterator[Batch]:
    """Batch number `first` and all after it, without end; each follows from the seed and its number."""
    share = config.pairs_per_batch // distributed.world()
    if share * distributed.world() != config.pairs_per_batch:
        raise BadInput(f"{config.pairs_per_batch} pairs do not divide by {distributed.world()} processes.")
    mine = slice(distributed.rank() * share, (distributed.rank() + 1) * share)
    epoch, rows = -1, np.empty(0)
    number = first
    while True:
        if epoch != number // per_epoch:
            epoch = number // per_epoch
            rows = pairs(
                data,
                config.pairs_per_batch,
                seed=config.seed,
                epoch=epoch,
                balance=config.balance,
                together=config.together,
                hard=config.hard,
                batches=per_epoch,
            )
        chosen = rows[number % per_epoch]  # (N, 2)
        generator = torch.Generator().manual_seed(seed_of(config.seed, number, distributed.rank(), 1))
        patches = augment(
            torch.from_numpy(data.patches(chosen[mine])),
            generator,
            flips=config.flips,
            jitter=config.jitter,
            light=config.light,
            blur=config.blur,
            noise=config.noise,
            jpeg=config.jpeg,
        ).to(device)
        yield Batch(patches[:, :1], patches[:, 1:], Strangers(_certain(data, chosen[:, 0], config.certain).to(device)))
        number += 1


def _certain(data: Mixture, rows: Array, only_certain: bool) -> Tensor:
    """Who shows another point: by its number alone, or, where images are known, for certain. (N,) -> (N, N) bool."""
    points, scenes = torch.from_numpy(data.points[rows]), torch.from_numpy(data.scenes[rows])
    if data.images is None or not only_certain:
        return certainly_different(points)
    places = None if data.places is None else torch.from_numpy(data.places[rows])
    return certainly_different(points, torch.from_numpy(data.images[rows]), scenes, places)


def negatives(config: TrainConfig, data: Sequence[PatchSet]) -> float:
    """How many others of a batch may serve a pair as negatives, on average of the first one."""
    mixture = mix(data)
    first = pairs(
        mixture, config.pairs_per_batch, seed=config.seed, epoch=0, balance=config.balance, together=config.together
    )[0]
    return float(_certain(mixture, first[:, 0], config.certain).sum(1).float().mean())


def seed_of(*numbers: int) -> int:
    """One seed from several numbers, unlike that of any neighbour."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


# --- looking at it --------------------------------------------------------------------------------------------------


def validation_error(describe: Callable[[Array], Array], patch_set: PatchSet, known: PatchPairs) -> float:
    """FPR@95 in percent, over at most VALIDATION_PAIRS of the known pairs."""
    chosen = np.linspace(0, len(known) - 1, min(len(known), VALIDATION_PAIRS)).astype(np.int64)
    rows, where = np.unique(np.stack([known.first[chosen], known.second[chosen]]), return_inverse=True)
    first, second = describe(patch_set.patches[rows])[where.reshape(2, -1)]
    distances = np.linalg.norm(first - second, axis=1)
    return 100 * fpr95(distances, known.is_match[chosen]) if np.isfinite(distances).all() else 100.0


def _describe(network: Network, patches: Array) -> Array:
    """network.describe, by all cores at once."""
    parts = np.array_split(patches, max(1, len(patches) // 256))
    was_training = network.training
    network.eval()  # here, because workers must not switch it under each other
    with one_worker_per_core() as cores:
        rows = np.concatenate(list(cores.map(network.describe, parts)))
    network.train(was_training)
    return rows


@dataclass
class Rate:
    """How fast the steps of this session are. The first one compiles and is left out, once there is another."""

    patches: int = 0
    seconds: float = 0.0
    counted: int = 0

    def add(self, patches: int, seconds: float) -> None:
        if self.counted == 1:
            self.patches, self.seconds = 0, 0.0
        self.patches, self.seconds, self.counted = self.patches + patches, self.seconds + seconds, self.counted + 1

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
        **({} if config.loss == "tfeat" else _similarities(terms)),  # TFeat's distances are not of unit vectors
        "violated": float(terms.violated),
        "steps_per_second": round(rate.patches_per_second / (2 * config.pairs_per_batch), 4),
        "patches_per_second": round(rate.patches_per_second, 1),
    }


def _similarities(terms: LossTerms) -> dict[str, float]:
    """Mean cosine of partners, and of each with its hardest stranger."""
    cosines = {"positive_similarity": terms.d_pos, "negative_similarity": terms.d_neg}
    return {name: float((1 - distance.square() / 2).mean()) for name, distance in cosines.items()}


def _check(terms: LossTerms, batch: Batch, step: int, out: Path) -> None:
    """Stop before a loss that is no number reaches the weights."""
    if torch.isfinite(terms.total):
        return
    told = ", ".join(f"{name} {float(value.detach()):g}" for name, value in terms.terms.items())
    flat = sum(int((side.flatten(1).std(1) == 0).sum()) for side in (batch.anchors, batch.positives))
    broken = "already" if not torch.isfinite(terms.d_pos).all() else "not yet"
    raise Diverged(
        f"the loss is {float(terms.total.detach())} at step {step} ({told}; descriptors are {broken} broken; {flat} of "
        f"{2 * len(batch.anchors)} patches are flat); the last good checkpoint is kept in {out}, "
        "try a lower --learning-rate."
    )


def _validate(state: State, sets: ValidationSets, out: Path, about: Mapping[str, Any], log: Watch) -> None:
    """FPR@95 on every set; keeps the weights that are the best on their mean."""
    if distributed.rank() != 0:
        return
    now = state.position
    now.validation = {name: validation_error(partial(_describe, state.averaged), *some) for name, some in sets.items()}
    now.validated_step = now.step
    mean = float(np.mean(list(now.validation.values())))
    if mean < now.best:
        now.best, now.best_validation = mean, dict(now.validation)
        _save(out / checkpoints.BEST, state.content(), about)
    log({"step": now.step, "minutes": round(now.seconds / 60, 3), "validation": now.validation})


def _save(path: Path, content: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    if distributed.rank() == 0 and all(weights.isfinite().all() for weights in content["network"].values()):
        checkpoints.save(path, {**content, "about": dict(about)})


def _previous(out: Path, about: Mapping[str, Any], resume: bool) -> dict[str, Any] | None:
    """The checkpoint to go on from. A folder that holds a run is not overwritten."""
    last = out / checkpoints.LAST
    if not last.exists():
        return None
    if not resume:
        raise BadInput(f"{out} already holds a run; add --resume to go on with it, or choose another --out.")
    content = checkpoints.read(last)
    checkpoints.check_same_run(last, content["about"], about)
    if (best := out / checkpoints.BEST).exists():  # a killed run may have been there after it wrote `last`
        kept = checkpoints.read(best)
        checkpoints.check_same_run(best, kept["about"], about)
        if kept["position"]["best"] <= content["position"]["best"]:
            content["position"] |= {"best": kept["position"]["best"], "best_validation": kept["position"]["validation"]}
    return content


def _due(minutes: float | None, since: float, otherwise: bool = False) -> bool:
    return otherwise if minutes is None else time.perf_counter() - since >= 60 * minutes


@contextmanager
def _logging(out: Path, about: Mapping[str, Any], step: int, watch: Watch) -> Iterator[Watch]:
    """The first process writes, and no other run beside it; the others say nothing."""
    if distributed.rank() != 0:
        yield unwatched
        return
    with alone(make_folder(out)):
        checkpoints.describe_run(out, about)
        with logbook(out, step, watch) as log:
            yield log


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Ctrl-C or a polite kill sets the event, so that the step can end and be saved; a second one stops at once."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: Any) -> None:
        stopped.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
