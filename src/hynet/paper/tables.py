"""`hynet paper tables`: the paper's Tables 1 to 5 and its figures of HPatches, as far as the data given allows.

    DATA/liberty, DATA/notredame, DATA/yosemite     PhotoTour, each as unpacked
    DATA/hpatches-release                           the patch release, or image sequences
    DATA/eth, DATA/imc                              scenes as `hynet evaluate eth` and `imc` take them

Networks are trained by the recipes, so as their authors did; runs that have ended are not trained again, and what was
described is cached, so that a reproduction goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import datasets
from ..datasets import hpatches, sequences
from ..errors import BadData, BadInput, DataNotFound, HynetError, MissingExtra
from ..evaluation import BENCHMARKS
from ..evaluation.contestants import Contestant, Model, fingerprint
from ..evaluation.results import Evaluation
from ..evaluation.ubc import SCENES
from ..training.configuration import LENGTHS, TrainConfig
from ..training.recipes import HYNET, RECIPES
from ..training.sampling import batches_per_epoch, mix
from ..types import Progress, silent
from . import runs
from .ablate import ablate
from .plans import Ablation
from .runs import Budget, Tell, Training

RIVALS = ("tfeat", "l2net", "hardnet", "doap", "sosnet", "hynet")  # Table 1, without SIFT
SECOND_ORDER = ("hardnet", "sosnet", "hynet", "hynet-sosr")  # Table 5
STRONGEST = ("hardnet", "sosnet", "hynet")  # Table 2 and 4
TRAINED_ON = "liberty"  # of all models but Table 1's and 5's


class NotTrained(HynetError):
    """All networks of a part diverged."""


@dataclass(frozen=True)
class Networks:
    """Networks that were trained for a part."""

    models: Sequence[Contestant]
    diverged: Sequence[str]  # sentences about those that have no result

    def __add__(self, other: Networks) -> Networks:
        return Networks([*self.models, *other.models], [*self.diverged, *other.diverged])

    def evaluated(self, benchmark: str, models: Sequence[Model], data: Path, **options: Any) -> Evaluation:
        """Evaluate models, some of which are these networks, with notes on those that could not be trained."""
        found = BENCHMARKS[benchmark](models, data, **options)
        return replace(found, notes=[*found.notes, *self.diverged])


@dataclass(frozen=True)
class Reproduction:
    """Data, folder and trainings of a reproduction; `steps` and `pairs_per_batch` shorten them for a trial."""

    data: Path
    out: Path
    steps: int | None = None
    pairs_per_batch: int | None = None
    compiled: bool = True
    jobs: int | None = None
    progress: Progress = silent
    tell: Tell = lambda line: None

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("pairs_per_batch", 2)):
            asked = getattr(self, name)
            if asked is not None and asked < least:
                raise BadInput(f"--{name.replace('_', '-')} must be {least} or more; got {asked}.")

    def patch_sets(self) -> dict[str, Path]:
        """PhotoTour's scenes that are there."""
        return {name: self.data / name for name in SCENES if datasets.holds_patches(self.data / name)}

    def stacks(self) -> Path:
        """HPatches, or sequences of which its patches are cut."""
        for folder in sorted(self.data.glob("hpatches*")):
            if hpatches.recognise(folder) or sequences.recognise(folder):
                return folder
        raise DataNotFound(f"it needs HPatches: no {self.data}/hpatches-release; `hynet data list` says where it is.")

    def folder(self, name: str) -> Path:
        if not (self.data / name).is_dir():
            raise DataNotFound(
                f"it needs the scenes of `hynet evaluate {name}` in {self.data / name}, which is not there."
            )
        return self.data / name

    def liberty(self) -> Path:
        if TRAINED_ON not in (found := self.patch_sets()):
            raise DataNotFound(
                f"it trains on {TRAINED_ON}: no {self.data / TRAINED_ON}; `hynet data get` downloads it."
            )
        return found[TRAINED_ON]


def table2(asked: Reproduction) -> Evaluation:
    scenes = asked.folder("eth")  # before days of training
    networks = _trained(asked, STRONGEST, asked.liberty())
    hynet = [each for each in networks.models if each.name == f"hynet-{TRAINED_ON}"]
    models: list[Model] = ["sift", *networks.models]
    models += [replace(each, name=f"keynet+{each.name}") for each in hynet]  # as in the paper, whose others have DoG's
    return networks.evaluated("eth", models, scenes, progress=asked.progress)


def table3(asked: Reproduction) -> Evaluation:
    root = asked.liberty()
    others = [path for name, path in asked.patch_sets().items() if name != TRAINED_ON]
    if not others:
        raise DataNotFound(f"it chooses margins on another set than it trains on: none in {asked.data}.")
    config = _lasting(asked, HYNET, root)
    assert config.steps is not None
    budget = Budget(config.steps, config.pairs_per_batch, 1, asked.compiled)
    study = Ablation("components", [root], others[0], asked.stacks(), asked.out / "table3", budget, jobs=asked.jobs)
    return ablate(study, asked.progress, asked.tell).evaluation


def table4(asked: Reproduction) -> Evaluation:
    scenes = asked.folder("imc")
    networks = _trained(asked, STRONGEST, asked.liberty())
    options: dict[str, Any] = {"task": "both", "detector": ("keynet",), "max_keypoints": 2048, "matcher": "nearest"}
    return networks.evaluated("imc", networks.models, scenes, progress=asked.progress, **options)


# What is made, in the paper's order, and what it is called
PARTS: Mapping[str, tuple[str, Callable[[Reproduction], Evaluation]]] = {
    "table1": ("Table 1: FPR@95 in % on PhotoTour", lambda asked: _phototour(asked, RIVALS)),
    "fig4": ("Fig. 4: HPatches", lambda asked: _on_stacks(asked, RIVALS)),
    "table2": ("Table 2: ETH's structure from motion", table2),
    "table3": ("Table 3: what each component of HyNet brings", table3),
    "table4": ("Table 4: the Image Matching Challenge", table4),
    "table5": ("Table 5: FPR@95 in % on PhotoTour, with SOSR", lambda asked: _phototour(asked, SECOND_ORDER)),
    "figA": ("Appendix: HPatches, with SOSR", lambda asked: _on_stacks(asked, SECOND_ORDER)),
}


def reproduce(asked: Reproduction, done: Callable[[str, Evaluation], None]) -> dict[str, str]:
    """Every part in order, each given to `done` as soon as it is there; part -> why not, of those that are not."""
    if not asked.data.is_dir():
        raise DataNotFound(f"no folder {asked.data}; put PhotoTour's sets and HPatches there, `hynet data list` helps.")
    missing = {}
    for name, (title, make) in PARTS.items():
        try:
            done(name, replace(make(asked), title=title))
        except (BadData, DataNotFound, MissingExtra, NotTrained) as error:  # the other parts are worth having
            missing[name] = f"{title} is not here: {error}"
        asked.tell(missing.get(name, f"{title}: done"))
    if len(missing) == len(PARTS):
        raise DataNotFound(f"nothing could be reproduced from {asked.data}: {next(iter(missing.values()))}")
    return missing


def _phototour(asked: Reproduction, recipes: Sequence[str]) -> Evaluation:
    """Trained on each set, tested on the others."""
    found = asked.patch_sets()
    if len(found) < 2:
        raise DataNotFound(f"it trains on one PhotoTour set and tests on another, and {asked.data} has {len(found)}.")
    networks = sum((_trained(asked, recipes, root) for root in found.values()), Networks([], []))
    return networks.evaluated("ubc", ["sift", *networks.models], asked.data, progress=asked.progress, against="sift")


def _on_stacks(asked: Reproduction, recipes: Sequence[str]) -> Evaluation:
    root, stacks = asked.liberty(), asked.stacks()
    lists = asked.data / "hpatches-tasks"
    options = {"tasks": lists} if lists.is_dir() else {}
    networks = _trained(asked, recipes, root)
    models: list[Model] = [*reversed(networks.models), "sift"]
    return networks.evaluated("hpatches", models, stacks, progress=asked.progress, **options)


def _trained(asked: Reproduction, recipes: Sequence[str], root: Path) -> Networks:
    """The recipes' networks of one set, trained where that was not done."""
    from ..features.descriptors.loading import load

    trainings = []
    for recipe in recipes:
        config = _lasting(asked, RECIPES[recipe].config, root)
        name = f"{recipe}-{root.name}"
        trainings.append(Training(name, config, runs.place(asked.out, config, [root])))
    called = f"runs on {root.name}"
    ended = runs.train_all(trainings, [root], called=called, jobs=asked.jobs, progress=asked.progress, tell=asked.tell)
    models, diverged = [], []
    for training, one in zip(trainings, ended, strict=True):
        if one.diverged:
            diverged.append(f"{training.name} could not be trained: {one.diverged}")
            continue
        descriptor = load(one.checkpoint)
        models.append(Contestant(training.name, descriptor, fingerprint(str(one.checkpoint), descriptor)))
    if not models:
        raise NotTrained(diverged[0])
    return Networks(models, diverged)


def _lasting(asked: Reproduction, config: TrainConfig, root: Path) -> TrainConfig:
    """The recipe with its epochs as steps, or with those that were asked for."""
    pairs = config.pairs_per_batch if asked.pairs_per_batch is None else asked.pairs_per_batch
    steps = asked.steps
    if steps is None:
        patch_set = datasets.find_patches(root).load(root, 32, asked.progress)
        steps = (config.epochs or 1) * batches_per_epoch(mix([patch_set]), pairs, config.pairs_per_epoch)
    lengths: dict[str, Any] = dict.fromkeys(LENGTHS) | {"steps": steps}
    # The steps are known; else an epoch of HardNet, five million pairs, would be drawn whole for a trial of few steps.
    return replace(config, **lengths, pairs_per_batch=pairs, pairs_per_epoch=None, compiled=asked.compiled)
