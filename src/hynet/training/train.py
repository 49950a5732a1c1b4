"""`hynet.train`: a recipe or settings, sets by path or as values, networks and losses by name or as objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import datasets
from ..errors import BadInput, choose, need
from ..runtime.files import as_path
from ..types import PatchPairs, PatchSet, Progress, silent
from .configuration import LENGTHS, TrainConfig
from .logbook import Watch, unwatched
from .recipes import RECIPES

if TYPE_CHECKING:
    from torch import nn

    from .loop import Trained

Sets = str | Path | PatchSet | Sequence[str | Path] | Mapping[str, PatchSet]
CheckedSets = str | Path | Sequence[str | Path] | Mapping[str, tuple[PatchSet, PatchPairs]]


def train(
    recipe: str | TrainConfig,
    data: Sets,
    out: str | Path,
    *,
    validate: CheckedSets = (),
    validate_on_training: bool = False,
    network: str | nn.Module | Callable[[], nn.Module] | None = None,
    loss: str | Callable[..., Any] | None = None,
    resume: bool = False,
    device: str | None = None,
    watch: Watch = unwatched,
    progress: Progress = silent,
    recipe_name: str | None = None,
    **settings: Any,
) -> Trained:
    """Train a descriptor into a run folder; `hynet.load(trained.checkpoint)` uses it.

        hynet.train("hynet-cpu", "sets/mine", "runs/mine", minutes=10)
        hynet.train("hynet", patch_set, "runs/own", network=MyNetwork, loss=my_loss, steps=1000)

    Args:
        recipe: one of `hynet train --list`, or a TrainConfig.
        data: what to train on: folders of patch sets, or PatchSets (by name where there are several).
        out: the run folder.
        validate: the sets that choose best.pt: folders, or name -> (PatchSet, PatchPairs).
        validate_on_training: allow a validation folder that holds the patches of a training folder.
        network: in place of the recipe's, a name of DESCRIPTORS; or a module from (N, 1, 32, 32) grey 0-255 to raw (N,
            D), trained from the weights it has; or a class or function that makes one, which starts as the recipe says.
            Its checkpoints load by `hynet.load(path, network=MyNetwork())`, or by path alone where a package adds it to
            our table.
        loss: in place of the recipe's, a name of LOSSES; or a function of raw anchors and positives (N, D) that returns
            LossTerms.
        resume: go on with the run in that folder.
        device: where it trains, such as "cpu" or "cuda:1"; None: on a GPU if there is one.
        watch: is shown every line of the log.
        recipe_name: what the run is called; None: the recipe's own name, or "custom".
        settings: fields of TrainConfig that differ from the recipe's.
    """
    need("torch", "train", "training")
    from . import loop

    if not isinstance(recipe, str | TrainConfig):
        raise BadInput(f"a recipe is a name or a TrainConfig, got {type(recipe).__name__}.")
    out = as_path(out, "the run folder")
    name = recipe_name or (recipe if isinstance(recipe, str) else "custom")
    config = choose(RECIPES, recipe, "recipe").config if isinstance(recipe, str) else recipe
    if loss is not None and isinstance(recipe, str):
        config = _without_loss_options(config)
    config = _changed(config, settings)
    if network is not None:
        config = replace(config, network=_label(network, "network"))
    if loss is not None:
        config = replace(config, loss=_label(loss, "loss"))
    if not validate_on_training:
        check_apart(data, validate, "Validate on another set, or add --validate-on-training.")
    # Jitter looks at the full 64 pixels; everything else only ever sees 32.
    sets = load_sets(data, 64 if config.jitter else 32, progress)
    checks = (
        validate
        if isinstance(validate, Mapping)
        else {str(root): load_validation(root, 32) for root in _paths(validate)}
    )
    return loop.train(
        config,
        sets,
        out,
        validate=checks,
        recipe=name,
        resume=resume,
        watch=watch,
        network=None if isinstance(network, str) else network,
        loss=None if isinstance(loss, str) else loss,
        device=device,
    )


def check_apart(data: Sets, validate: CheckedSets, remedy: str) -> None:
    """By content: a copy or a link of a training set is a training set."""
    if not validate or isinstance(data, PatchSet | Mapping) or isinstance(validate, Mapping):
        return
    trained = {datasets.find_patches(root).fingerprint(root): root for root in _paths(data)}
    for root in _paths(validate):
        if (same := trained.get(datasets.find_patches(root).fingerprint(root))) is not None:
            raise BadInput(
                f"{root} holds the patches of {same}, which is trained on: its FPR@95 would choose what was learnt by "
                f"heart. {remedy}"
            )


def _changed(config: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """The config with other settings; another length takes the place of the recipe's."""
    known = vars(config)
    if strange := [name for name in settings if name not in known]:
        raise BadInput(f"a run has no setting {' and no '.join(strange)}; the settings are {', '.join(known)}.")
    lengths = dict.fromkeys(LENGTHS) if any(name in LENGTHS for name in settings) else {}
    return replace(config, **{**lengths, **settings})


def _without_loss_options(config: TrainConfig) -> TrainConfig:
    """A recipe's options are those of its own loss; another has perhaps none of them."""
    unset: dict[str, Any] = {one.name: None for one in fields(config) if "of" in one.metadata}
    return replace(config, loss_options={}, **unset)


def _label(made: Any, kind: str) -> str:
    """What the run's settings call a network or a loss: its name among ours, or where an object was defined."""
    if isinstance(made, str):
        return made
    if not callable(made):
        raise BadInput(f"the {kind} must be a name or something that can be called, got {made!r}.")
    defined = made if hasattr(made, "__qualname__") else type(made)
    return f"{defined.__module__}:{defined.__qualname__}"


def load_sets(data: Sets, size: int, progress: Progress) -> dict[str, PatchSet]:
    """By name, in patches of that size where folders are given."""
    if isinstance(data, PatchSet):
        return {"data": data}
    if isinstance(data, Mapping):
        return dict(data)
    return {str(root): datasets.find_patches(root).load(Path(root), size, progress) for root in _paths(data)}


def load_validation(root: str | Path, size: int) -> tuple[PatchSet, PatchPairs]:
    """A set with the pairs to test on."""
    return datasets.find_patches(root).load(Path(root), size, silent), datasets.test_pairs(Path(root))


def _paths(roots: str | Path | Sequence[str | Path]) -> Sequence[Path]:
    several = isinstance(roots, Iterable) and not isinstance(roots, str)
    return [as_path(root, "a patch set that is no PatchSet") for root in (roots if several else [roots])]  # type: ignore[union-attr]
