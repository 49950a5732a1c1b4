"""Settings of training runs, a dataclass for each kind, and the schedule that follows from them. Without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from ..errors import BadInput, choose

Precision = Literal["float32", "bfloat16", "auto"]
Schedule = Literal["constant", "linear", "cosine", "stepwise"]
LENGTHS = ("epochs", "steps", "minutes")  # of which a run has one
NO_EFFECT = ("compiled", "validate_minutes", "checkpoint_minutes", "log_every")  # on the weights
FREE_TO_CHANGE = (*LENGTHS, *NO_EFFECT)  # when a run is resumed, besides its validation sets and its device
FORMER = {"lessons": "distill_fraction", "together": "group_size", "fall": "lr_decay", "stretches": "num_decays"}
BOUNDS: dict[str, tuple[float, float]] = {  # setting -> its least, its most
    **dict.fromkeys(("jitter", "light", "night", "blur", "noise", "jpeg", "balance", "hard", "dampening"), (0, 1)),
    **dict.fromkeys(("lr_decay", "distill_fraction"), (0, 1)),
    **dict.fromkeys(("epochs", "steps", "minutes", "validate_minutes", "checkpoint_minutes"), (0, math.inf)),
    **dict.fromkeys(("weight_decay", "seed", "turn"), (0, math.inf)),
    **dict.fromkeys(("log_every", "group_size", "num_decays", "pairs_per_epoch", "tilt"), (1, math.inf)),
    **dict.fromkeys(("dropout", "warmup"), (0, 0.99)),
    **dict.fromkeys(("average", "momentum"), (0, 0.99999)),
    **dict.fromkeys(("learning_rate", "gain"), (1e-9, math.inf)),
    "pairs_per_batch": (2, math.inf),
}
WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    dict: "a dict",
}


def of_the_loss() -> Any:
    """A setting that is an option of the loss; None is the loss's own value."""
    return field(default=None, metadata={"of": "the loss"})


def of_the_recipe(default: Any) -> Any:
    """A setting that recipes and Python set, and the command line does not."""
    return field(default=default, metadata={"of": "the recipe"})


@dataclass(frozen=True)
class RunConfig:
    """Settings of any training run, saved in full in every checkpoint."""

    epochs: int | None = None  # length of the run: give epochs, steps or minutes
    steps: int | None = None  # length in optimiser steps
    minutes: float | None = None  # wall-clock time; the time between an interruption and --resume does not count
    learning_rate: float = 0.01  # peak value
    schedule: Schedule = "constant"  # of the rate, after the warm-up; linear and cosine end at zero
    lr_decay: float = of_the_recipe(0.8)  # of stepwise: factor of each decay
    num_decays: int = of_the_recipe(30)  # of stepwise: number of equal parts of the run, each ending in a decay
    warmup: float = 0.0  # share of the run in which the learning rate rises from zero
    average: float = 0.0  # decay of the averaged weights that are validated and saved; 0 saves the trained ones
    seed: int = 0  # of first weights, pairs, augmentation and dropout
    precision: Precision = "float32"  # precision of convolutions; auto: bfloat16 where the processor is fast in it
    validate_minutes: float | None = None  # time between validations; None validates after each epoch
    checkpoint_minutes: float = 5.0  # time between checkpoints
    log_every: int = 10  # steps between log lines

    @property
    def task(self) -> str:
        """The row of TASKS that these settings are for."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        if sum(getattr(self, length) is not None for length in LENGTHS) != 1:
            raise BadInput("a run is as long as its epochs, its steps or its minutes; give exactly one of them.")
        for name, kind in get_type_hints(type(self)).items():
            _check_kind(name, kind, getattr(self, name))
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name, None)
            if value is not None and not (least <= value <= most and math.isfinite(value)):
                bounds = f"goes from {least:g} to {most:g}" if most < math.inf else f"must be {least:g} or more"
                raise BadInput(f"{name} {bounds}; got {value}.")

    def seed_of(self, *numbers: int) -> int:
        """A seed for these numbers, such as a step and a rank, unlike that of any neighbour."""
        return int(np.random.SeedSequence((self.seed, *numbers)).generate_state(1, np.uint64)[0] >> 1)

    def progress(self, step: int, seconds: float, per_epoch: int) -> float:
        """The share of the run that is done, 0 to 1."""
        if self.minutes is not None:
            return seconds / (60 * self.minutes) if self.minutes else 1.0
        steps = self.steps if self.steps is not None else (self.epochs or 0) * per_epoch
        return step / steps if steps else 1.0

    def rate_at(self, done: float) -> float:
        """The learning rate after this share of the run."""
        if done < self.warmup:
            return self.learning_rate * max(done / self.warmup, 0.01)
        after = (done - self.warmup) / (1 - self.warmup)
        shape = {
            "constant": 1.0,
            "linear": 1 - after,
            "cosine": (1 + math.cos(math.pi * after)) / 2,
            "stepwise": self.lr_decay ** math.floor(after * self.num_decays),
        }
        return self.learning_rate * shape[self.schedule]


@dataclass(frozen=True)
class PairsConfig(RunConfig):
    """Settings of runs on pairs of patches. Strengths go from 0 (off) to 1."""

    pairs_per_batch: int = 512  # two patches each, summed over all processes
    pairs_per_epoch: int | None = None  # by default as many as the patches fill
    balance: float = 0.0  # 0: all points equally often; 0.5: scenes by the root of their size; 1: scenes equally
    group_size: int = 1  # neighbouring points of one reference image kept together in a batch: hard, certain negatives
    hard: float = 0.0  # share of geometrically hard pairs, for points that have them; sets of `hynet patches` list them
    certain: bool = False  # use only negatives that are known to be different points
    flips: bool = True  # 90-degree rotations and flips, the same for both patches of a pair
    jitter: float = 0.0  # shifts, rotates, scales and stretches each patch, as detectors do; reads 64-pixel patches
    light: float = 0.0  # contrast and brightness
    night: float = 0.0  # share of patches with another gamma; half as many get a shadow, half as many night
    blur: float = 0.0  # between a little sharper and the mean of 3 x 3 pixels
    noise: float = 0.0  # Gaussian noise
    jpeg: float = 0.0  # losses of JPEG compression
    optimiser: Literal["adam", "sgd"] = of_the_recipe("adam")
    momentum: float = of_the_recipe(0.9)  # of SGD
    dampening: float = of_the_recipe(0.0)  # of SGD: the gradient is weighted by 1 minus this
    weight_decay: float = of_the_recipe(0.0)


@dataclass(frozen=True)
class LossConfig(PairsConfig):
    """Settings of runs that train a descriptor by a loss of LOSSES."""

    dropout: float = 0.3  # before the last convolution, in networks that have it
    loss: str = "hynet"  # one of LOSSES
    margin: float | None = (
        of_the_loss()
    )  # of the loss; where this and the next five are not given, the loss's own value
    alpha: float | None = of_the_loss()  # weight of s in the hybrid similarity
    gamma: float | None = of_the_loss()  # weight of the norm regulariser
    z: float | None = of_the_loss()  # 1 is the released code's form, 2.736 the paper's for alpha 2
    sosr: float | None = of_the_loss()  # weight of the second-order term
    level: float | None = of_the_loss()  # weight of the term that holds all pairs to one threshold, as FPR@95 does
    loss_options: dict[str, float] = field(default_factory=dict)  # any other options of the loss: NAME VALUE ...
    compiled: bool = True  # on a CPU with a C++ compiler: the same mathematics, about twice as fast

    def options_of_the_loss(self) -> dict[str, float]:
        """Return the loss options that are set; the loss itself checks their names and bounds."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.metadata.get("of") == "the loss"}
        return {name: value for name, value in named.items() if value is not None} | self.loss_options


@dataclass(frozen=True)
class TrainConfig(LossConfig):
    """Settings of a run that trains a descriptor."""

    epochs: int | None = 200
    network: str = "hynet"  # a learnt network of DESCRIPTORS
    norm: Literal["frn", "bn", "in", "bn-affine"] = of_the_recipe("frn")  # in HyNet's layers; `bn` as the rivals have
    start: Literal["torch", "orthogonal"] = of_the_recipe("torch")  # initial weights: PyTorch's own, or HardNet's
    gain: float = of_the_recipe(0.6)  # gain of the orthogonal initialisation
    start_from: str | None = None  # weights to start from: a path, or `default`; None trains from scratch
    teacher: str | None = None  # a trained model, by name or path, that a loss such as `distilled` learns from
    distill_fraction: float = 1.0  # share of the run that uses the teacher; the rest of the run trains without it

    @property
    def task(self) -> str:
        return "descriptor" if self.teacher is None else "distillation"


@dataclass(frozen=True)
class AdaptConfig(TrainConfig):
    """Settings of a run that fine-tunes a descriptor on one's own photos."""

    @property
    def task(self) -> str:
        return "adapt"


@dataclass(frozen=True)
class ShapeConfig(PairsConfig):
    """Settings of a run that trains a network for affine shapes."""

    start_from: str | None = None  # weights to start from, such as AffNet's; without them, shapes start round
    descriptor: str = "light"  # what describes the patches, by name or path; it is not trained
    tilt: float = 2.5  # maximum stretch by a warp, length over width
    turn: float = 0.1  # maximum rotation by a warp, in radians

    @property
    def task(self) -> str:
        return "shape"


@dataclass(frozen=True)
class JointConfig(LossConfig):
    """Settings of a run that trains affine shapes and a descriptor together."""

    descriptor: str = "default"  # the descriptor to start from, by name or path
    shape: str = "affine-network"  # the network for affine shapes to start from: the one that ships, or a path
    tilt: float = 1.6  # maximum stretch by a warp, length over width
    turn: float = 0.1  # maximum rotation by a warp, in radians

    @property
    def task(self) -> str:
        return "joint"


@dataclass(frozen=True)
class KeynetConfig(RunConfig):
    """Settings of a run that trains the detector Key.Net."""

    learning_rate: float = 3e-3
    schedule: Schedule = "cosine"

    @property
    def task(self) -> str:
        return "keynet"

    def rate_at(self, done: float) -> float:
        return max(0.02 * self.learning_rate, super().rate_at(done))


def check_learns(config: RunConfig) -> None:
    """In Python a run of no length is a way to get untrained weights; as a command it is a mistake."""
    length = next(name for name in LENGTHS if getattr(config, name) is not None)
    if getattr(config, length) == 0:
        raise BadInput(f"{length} must be more than 0, or nothing is learnt.")


def _check_kind(name: str, kind: Any, value: Any) -> None:
    """The command line has done so already; in Python anything may be given."""
    if get_origin(kind) is Literal:
        choose(dict.fromkeys(get_args(kind)), value, name)
        return
    kinds = get_args(kind) if get_origin(kind) is UnionType else (get_origin(kind) or kind,)
    fits = isinstance(value, (*kinds, int) if float in kinds else kinds)
    if not fits or (isinstance(value, bool) and bool not in kinds):  # to Python, True is a whole number
        raise BadInput(f"{name} must be {WORDS[kinds[0]]}; got {value!r}.")


def changed_settings(saved: Mapping[str, Any], now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Setting -> its value in a checkpoint and today's, where a resumed run may not change it.

    Settings have the names of today; one that is younger than the checkpoint had its default.
    """
    before = {one.name: one.default for one in fields(now)}
    before["loss_options"] = {}
    before |= {FORMER.get(name, name): value for name, value in saved.items()}
    unknown = set(FREE_TO_CHANGE)
    if "start" not in saved:  # a checkpoint from before there were starts, which no longer matter to its weights
        unknown |= {"start", "gain"}
        before["norm"] = "bn-affine" if before.get("norm") == "bn" else before.get("norm")
    after = {one.name: getattr(now, one.name) for one in fields(now) if one.name not in unknown}
    return {name: (before[name], value) for name, value in sorted(after.items()) if before[name] != value}
