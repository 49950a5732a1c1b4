"""What a training run is: its settings, and the schedule that follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..errors import BadInput, choose

Precision = Literal["float32", "bfloat16", "auto"]
LENGTHS = ("epochs", "steps", "minutes")  # of which a run has one
BOUNDS: dict[str, tuple[float, float]] = {  # setting -> its least, its most
    **dict.fromkeys(
        ("jitter", "light", "night", "blur", "noise", "jpeg", "balance", "hard", "dampening", "fall", "lessons"), (0, 1)
    ),
    **dict.fromkeys(("epochs", "steps", "minutes", "validate_minutes", "checkpoint_minutes"), (0, math.inf)),
    **dict.fromkeys(("weight_decay", "seed"), (0, math.inf)),
    **dict.fromkeys(("log_every", "together", "stretches", "pairs_per_epoch"), (1, math.inf)),
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


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one training run, saved in full in every checkpoint. Strengths go from 0 (off) to 1."""

    network: str = "hynet"  # a learnt network of DESCRIPTORS
    norm: Literal["frn", "bn", "in", "bn-affine"] = "frn"  # in HyNet's layers; `bn` gives the rivals' network
    dropout: float = 0.3  # before the last convolution, in networks that have it
    start: Literal["torch", "orthogonal"] = "torch"  # initial weights: PyTorch's own, or HardNet's
    gain: float = 0.6  # gain of the orthogonal initialisation
    start_from: str | None = None  # weights to start from: a path, or `default`; None trains from scratch
    teacher: str | None = None  # a trained model, by name or path, that a loss such as `distilled` learns from
    lessons: float = 1.0  # share of the run that uses the teacher; the rest of the run trains without it
    loss: str = "hynet"  # one of LOSSES
    margin: float | None = of_the_loss()  # of the loss; for this and the next five, None is the loss's own value
    alpha: float | None = of_the_loss()  # weight of s in the hybrid similarity
    gamma: float | None = of_the_loss()  # weight of the norm regulariser
    z: float | None = of_the_loss()  # 1 is the released code's form, 2.736 the paper's for alpha 2
    sosr: float | None = of_the_loss()  # weight of the second-order term
    level: float | None = of_the_loss()  # weight of the term that holds all pairs to one threshold, as FPR@95 does
    loss_options: dict[str, float] = field(default_factory=dict)  # any other options of the loss: NAME VALUE ...
    pairs_per_batch: int = 512  # two patches each, summed over all processes
    pairs_per_epoch: int | None = None  # None: as many as the patches fill
    optimiser: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.01  # peak value
    momentum: float = 0.9  # of SGD
    dampening: float = 0.0  # of SGD: the gradient is weighted by 1 minus this
    weight_decay: float = 0.0
    # After the warm-up; linear and cosine end at zero, stepwise drops after each of its stretches.
    schedule: Literal["constant", "linear", "cosine", "stepwise"] = "constant"
    stretches: int = 30  # of stepwise: number of equal parts of the run
    fall: float = 0.8  # of stepwise: rate of a stretch relative to the one before
    warmup: float = 0.0  # share of the run in which the learning rate rises from zero
    average: float = 0.0  # decay of the averaged weights that are validated and saved; 0 saves the trained ones
    epochs: int | None = 200  # length of the run: give epochs, steps or minutes
    steps: int | None = None
    minutes: float | None = None  # wall-clock time; the time between an interruption and --resume does not count
    flips: bool = True  # 90-degree rotations and flips, the same for both patches of a pair
    jitter: float = 0.0  # shifts, rotates, scales and stretches each patch, as detectors do; reads 64-pixel patches
    light: float = 0.0  # contrast and brightness
    night: float = 0.0  # share of patches with another gamma; half as many get a shadow, half as many night
    blur: float = 0.0
    noise: float = 0.0
    jpeg: float = 0.0
    balance: float = 0.0  # 0: all points equally often; 0.5: scenes by the root of their size; 1: scenes equally
    together: int = 1  # neighbouring points of one reference image kept together in a batch: hard, certain negatives
    hard: float = 0.0  # share of geometrically hard pairs, for points that have them; sets of `hynet patches` list them
    certain: bool = False  # use only negatives that are known to be different points
    seed: int = 0
    precision: Precision = "float32"  # precision of convolutions on a CPU; auto: bfloat16 if the CPU is fast in it
    compiled: bool = True  # on a CPU with a C++ compiler: the same mathematics, about twice as fast
    validate_minutes: float | None = None  # time between validations; None validates after each epoch
    checkpoint_minutes: float = 5.0
    log_every: int = 10  # steps between log lines

    def options_of_the_loss(self) -> dict[str, float]:
        """Those that are set; the loss itself says what it takes and within which bounds."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if "of" in one.metadata}
        return {name: value for name, value in named.items() if value is not None} | self.loss_options

    def __post_init__(self) -> None:
        if sum(getattr(self, length) is not None for length in LENGTHS) != 1:
            raise BadInput("a run is as long as its epochs, its steps or its minutes; give exactly one of them.")
        for name, kind in get_type_hints(TrainConfig).items():
            _check_kind(name, kind, getattr(self, name))
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not (least <= value <= most and math.isfinite(value)):
                bounds = f"goes from {least:g} to {most:g}" if most < math.inf else f"must be {least:g} or more"
                raise BadInput(f"{name} {bounds}; got {value}.")


def check_learns(config: TrainConfig) -> None:
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


def as_now(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a checkpoint as they are named now; one that is younger than the checkpoint had its default."""
    settings = asdict(TrainConfig()) | dict(saved)
    if "start" not in saved and settings["norm"] == "bn":  # `bn` had more parameters before there were starts
        settings["norm"] = "bn-affine"
    return settings


def progress(config: TrainConfig, step: int, seconds: float, per_epoch: int) -> float:
    """How much of the run is done, 0 to 1."""
    if config.minutes is not None:
        return seconds / (60 * config.minutes) if config.minutes else 1.0
    steps = config.steps if config.steps is not None else (config.epochs or 0) * per_epoch
    return step / steps if steps else 1.0


def learning_rate(config: TrainConfig, done: float) -> float:
    if done < config.warmup:
        return config.learning_rate * max(done / config.warmup, 0.01)
    after = (done - config.warmup) / (1 - config.warmup)
    shape = {
        "constant": 1.0,
        "linear": 1 - after,
        "cosine": (1 + math.cos(math.pi * after)) / 2,
        "stepwise": config.fall ** math.floor(after * config.stretches),
    }
    return config.learning_rate * shape[config.schedule]
