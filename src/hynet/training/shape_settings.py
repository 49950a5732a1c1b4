"""What runs of the recipes `shape` and `joint` are: the settings of any run, and those of its warps. Without torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isfinite

from ..errors import BadInput
from .configuration import TrainConfig


@dataclass(frozen=True)
class ShapeConfig(TrainConfig):
    """Pairs, light, schedule and length are as in any run; settings of other networks and losses are not used."""

    descriptor: str = "light"  # what describes the patches, by name or path; only `joint` trains it
    tilt: float = 2.5  # maximum stretch by a warp, length over width
    turn: float = 0.1  # maximum rotation by a warp, in radians

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in {"tilt": 1.0, "turn": 0.0}.items():
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= least):
                raise BadInput(f"{name} must be {least:g} or more; got {getattr(self, name)}.")


# Chosen by short runs: docs/training.md.
SHAPE = ShapeConfig(
    network="affnet",
    loss="hardnegc",
    epochs=None,
    minutes=45.0,
    pairs_per_batch=128,
    learning_rate=0.001,
    schedule="linear",
    warmup=0.03,
    average=0.995,
    balance=0.5,
    together=8,
    hard=0.5,
    certain=True,
    precision="auto",
    validate_minutes=10.0,
    checkpoint_minutes=3.0,
)


@dataclass(frozen=True)
class JointConfig(ShapeConfig):
    """The same, of a run that trains the descriptor as well."""

    shape: str = "affine-network"  # the network for affine shapes to start from: the one that ships, or a path


# Warps are milder, since patches are described in their full width. The loss and the augmentation are those of the last
# runs of `commercial`, since both networks have been trained before; blur and noise, which act on patches of 64 pixels
# here and are halved with them, are twice as strong.
JOINT = replace(
    JointConfig(**asdict(SHAPE)),
    network="joint",
    descriptor="default",
    loss="hynet",
    sosr=1.0,
    level=1.0,
    pairs_per_batch=256,
    learning_rate=0.002,
    average=0.998,
    tilt=1.6,
    dropout=0.1,
    jitter=0.6,
    light=0.2,
    blur=0.4,
    noise=0.2,
    jpeg=0.1,
)
