"""The checkpoints of a run folder, written whole: last.pt holds all that a run needs to go on, best.pt the best."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from .. import __version__
from ..errors import BadInput, BadWeights
from ..features.descriptors import DESCRIPTORS
from ..features.descriptors.loading import models
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..types import PatchSet
from . import distributed
from .configuration import as_now

LAST, BEST, ABOUT = "last.pt", "best.pt", "run.json"
FREE_TO_CHANGE = {"compiled", "validate_minutes", "checkpoint_minutes", "log_every"}  # no pair depends on them
SAMPLED_PATCHES = 4096  # of each set: all that older checkpoints know of it
STARTS = {"start", "gain"}  # younger than some checkpoints, to whose weights they no longer matter


@dataclass
class Position:
    """Where a run is. Batches and dropout follow from the seed, the step and the number of processes."""

    step: int = 0
    seconds: float = 0.0  # of training, over all sessions
    best: float = math.inf  # mean FPR@95 of the best checkpoint, in percent
    best_validation: dict[str, float] = field(default_factory=dict)  # set -> FPR@95 in percent, of that checkpoint
    validation: dict[str, float] = field(default_factory=dict)  # the same of the latest weights that were looked at
    validated_step: int = -1


Trained = TypeVar("Trained", bound=torch.nn.Module)


@dataclass
class State(Generic[Trained]):
    """What changes while a run trains."""

    network: Trained
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


def about(recipe: str, config: Any, data: Mapping[str, PatchSet]) -> dict[str, Any]:
    """What a run is, for run.json, model cards and every checkpoint."""
    return {
        "recipe": recipe,
        "config": asdict(config),
        "data": {name: fingerprint(patch_set) for name, patch_set in data.items()},
        "processes": distributed.world(),
        "taught_by": _weights_of(config),
        "environment": environment(),
    }


def _weights_of(config: Any) -> dict[str, str | None]:
    """Fingerprints of other networks that a training looks at, where they are files."""
    others = {name: getattr(config, name, None) for name in ("teacher", "descriptor", "shape")}
    return {name: _fingerprint(str(given)) for name, given in others.items() if given}


def _fingerprint(model: str) -> str | None:
    """None of a name, which is no file."""
    return None if model in DESCRIPTORS else fingerprints.weights(models().get(model, Path(model)))


def describe_run(out: Path, about: Mapping[str, Any]) -> None:
    """run.json: the same for people."""
    with atomic_write(out / ABOUT) as temporary:
        temporary.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def check_same_run(path: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """A checkpoint goes on only with the recipe, settings and data that it was made with."""
    if saved["recipe"] != now["recipe"]:
        raise BadInput(f"{path} is a run of {saved['recipe']}, not of {now['recipe']}; choose another --out.")
    before, after = as_now(saved["config"]), now["config"]
    names = (before.keys() | after.keys()) - FREE_TO_CHANGE - (STARTS - saved["config"].keys())
    changed = sorted(name for name in names if before.get(name) != after.get(name))
    if changed:
        told = ", ".join(f"{name} was {before.get(name)}, now {after.get(name)}" for name in changed)
        raise BadInput(f"{path} was made with other settings ({told}); use the same, or choose another --out.")
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
    known_by = "content" if all("content" in one for one in saved["data"].values()) else "sha256"
    prints = [[one[known_by] for one in some["data"].values()] for some in (saved, now)]
    if prints[0] != prints[1]:
        raise BadInput(
            f"{path} was trained on {', '.join(saved['data'])} as they were then, which is not what is given now "
            f"({', '.join(now['data'])}); give the same sets unchanged, or choose another --out."
        )


def fingerprint(patch_set: PatchSet) -> dict[str, Any]:
    """What tells a set from another, or from itself before it was changed."""
    chosen = np.unique(np.linspace(0, len(patch_set) - 1, SAMPLED_PATCHES).astype(np.int64))
    sample = hashlib.sha256(patch_set.patches[chosen].tobytes())
    columns = (patch_set.points, patch_set.images, patch_set.scenes, patch_set.places, patch_set.hard_pairs)
    for column in columns:
        sample.update(b"-" if column is None else column.tobytes())
    return {
        "patches": len(patch_set),
        "points": len(np.unique(patch_set.points)),
        "sha256": sample.hexdigest(),
        "content": fingerprints.arrays(patch_set.patches, *columns),
    }


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
