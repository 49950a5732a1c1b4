"""The checkpoints of a run folder, written whole: last.pt holds all that a run needs to go on, best.pt the best."""

from __future__ import annotations

import copy
import io
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from .. import __version__
from ..errors import BadInput, BadWeights
from ..features.descriptors import DESCRIPTORS
from ..features.models import shipped
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from . import distributed
from .configuration import FREE_TO_CHANGE, RunConfig, changed_settings

LAST, BEST, ABOUT = "last.pt", "best.pt", "run.json"


@dataclass
class Position:
    """The point that a run has reached. Batches and dropout follow from the seed, the step and the processes."""

    step: int = 0
    seconds: float = 0.0  # of training, over all sessions
    best: float = math.inf  # mean FPR@95 of the best checkpoint, in percent
    best_validation: dict[str, float] = field(default_factory=dict)  # set -> FPR@95 in percent, of that checkpoint
    validation: dict[str, float] = field(default_factory=dict)  # the same of the latest weights that were looked at
    validated_step: int = -1

    def choose_anew(self, validation_sets: Iterable[str]) -> None:
        """Forget the best weights so far if other validation sets are to choose them."""
        names = set(validation_sets)
        if names and names != self.best_validation.keys():
            self.best, self.best_validation, self.validated_step = math.inf, {}, -1


Network = TypeVar("Network", bound=torch.nn.Module)


@dataclass
class State(Generic[Network]):
    """Everything that changes while a run trains."""

    network: Network
    optimiser: torch.optim.Optimizer
    average: float  # decay of the averaged weights; 0 keeps none
    position: Position = field(default_factory=Position)

    def __post_init__(self) -> None:
        self.averaged = copy.deepcopy(self.network) if self.average else self.network

    def update_average(self) -> None:
        """After each step: the shipped weights follow the trained ones slowly, faster at the start of a run."""
        if not self.average:
            return
        step = self.position.step
        decay = min(self.average, (1 + step) / (10 + step))
        for slow, fast in zip(self.averaged.state_dict().values(), self.network.state_dict().values(), strict=True):
            slow.lerp_(fast, 1 - decay) if slow.is_floating_point() else slow.copy_(fast)

    def content(self) -> dict[str, Any]:
        """`network` is what `hynet.load` uses: the averaged weights, where there are such."""
        return {
            "network": self.averaged.state_dict(),
            "trained": self.network.state_dict() if self.average else None,
            "optimiser": self.optimiser.state_dict(),
            "position": asdict(self.position),
        }

    def restore(self, content: Mapping[str, Any]) -> None:
        self.averaged.load_state_dict(content["network"])
        self.network.load_state_dict(content["trained"] or content["network"])
        self.optimiser.load_state_dict(content["optimiser"])
        self.position = Position(**content["position"])


def save(path: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(path) as temporary:
        buffer = io.BytesIO()  # torch's own writer tells a full disk in words of its own
        torch.save(dict(content), buffer)
        temporary.write_bytes(buffer.getbuffer())


def read(path: Path) -> dict[str, Any]:
    """A checkpoint that can be resumed."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch fails in many ways on broken files
        raise BadWeights(
            f"{path} is not a whole checkpoint ({type(error).__name__}); remove it to start anew."
        ) from None
    if not isinstance(content, dict) or not {"optimiser", "position", "about"} <= content.keys():
        raise BadWeights(f"{path} holds no training state; only checkpoints of `hynet train` can be resumed.")
    return content


def about(recipe: str, config: RunConfig, data: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a run, for run.json, model cards and every checkpoint. data: name -> `Task.fingerprint`."""
    return {
        "recipe": recipe,
        "config": asdict(config),
        "data": dict(data),
        "processes": distributed.world(),
        "taught_by": _weights_of(config),
        "environment": environment(),
    }


def _weights_of(config: RunConfig) -> dict[str, str | None]:
    """Fingerprints of other networks that a training looks at, where they are files."""
    others = {name: str(given) for name in ("teacher", "descriptor", "shape") if (given := getattr(config, name, None))}
    ours = shipped("descriptor")
    files = {name: ours.get(given, Path(given)) for name, given in others.items() if given not in DESCRIPTORS}
    return {name: fingerprints.weights(files[name]) if name in files else None for name in others}


def check_same_run(path: Path, saved: Mapping[str, Any], now: Mapping[str, Any], config: RunConfig) -> None:
    """A checkpoint goes on only with its recipe, its data and, but for FREE_TO_CHANGE, its settings."""
    if saved["recipe"] != now["recipe"]:
        raise BadInput(f"{path} is a run of {saved['recipe']}, not of {now['recipe']}; choose another --out.")
    if changed := changed_settings(saved["config"], config):
        values = ", ".join(f"{name} was {before}, now {after}" for name, (before, after) in changed.items())
        raise BadInput(
            f"{path} was made with other settings ({values}); use the same, or choose another --out. A run that goes "
            f"on may change {', '.join(FREE_TO_CHANGE)}."
        )
    then = saved.get("processes", now["processes"])  # which earlier versions did not note
    if then != now["processes"]:
        raise BadInput(
            f"{path} was made by {then} processes, and {now['processes']} would see other batches; start as many, or "
            "choose another --out."
        )
    taught_by = saved.get("taught_by", now["taught_by"])
    if taught_by != now["taught_by"]:
        who = next(name for name in now["taught_by"] if taught_by.get(name) != now["taught_by"][name])
        raise BadInput(f"{path} was made with other weights of the {who}, which have changed; choose another --out.")
    before, after = ([one.get("content") for one in some["data"].values()] for some in (saved, now))
    if before != after:
        raise BadInput(
            f"{path} was trained on {', '.join(saved['data'])} as they were then, which is not what is given now "
            f"({', '.join(now['data'])}); give the same sets unchanged, or choose another --out."
        )


def environment() -> dict[str, Any]:
    return {
        "hynet": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # a str of its own kind, which checkpoints may not hold
        "numpy": np.__version__,
        "machine": platform.platform(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
