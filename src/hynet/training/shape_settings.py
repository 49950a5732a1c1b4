"""What a run of the recipe `shape` is: the settings of any run, and those of its warps. Without torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from ..errors import BadInput
from .configuration import TrainConfig


@dataclass(frozen=True)
class ShapeConfig(TrainConfig):
    """Pairs, light, schedule and length are as in any run; settings of other networks and losses are not used."""

    descriptor: str = "light"  # the descriptor whose loss is minimised, by name or path; it is not trained
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
