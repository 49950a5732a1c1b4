"""`hynet.train`: from a recipe, data by path or as values, and parts by name or as objects, to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import datasets
from ..errors import BadInput, choose, need
from ..runtime.files import as_path
from ..types import PatchPairs, PatchSet, Progress, silent
from .configuration import LENGTHS, RunConfig, TrainConfig
from .logbook import Watch, unwatched
from .recipes import ALL_RECIPES
from .tasks import TASKS, Trained

if TYPE_CHECKING:
    from torch import nn

Sets = str | Path | PatchSet | Sequence[str | Path] | Mapping[str, PatchSet]
CheckedSets = str | Path | Sequence[str | Path] | Mapping[str, tuple[PatchSet, PatchPairs]]


def train(
    recipe: str | RunConfig,
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
    """Train into a run folder; `hynet.load(trained.checkpoint)` uses the descriptor in it.

        hynet.train("hynet-cpu", "sets/mine", "runs/mine", minutes=10)
        hynet.train("hynet", patch_set, "runs/own", network=MyNetwork, loss=my_loss, steps=1000)

    Args:
        recipe: one of `hynet train --list`, or settings such as a TrainConfig.
        data: what to train on: folders of patch sets, or PatchSets (by name where there are several); for Key.Net,
            folders of photos.
        out: the run folder.
        validate: the sets that choose best.pt: folders, or name -> (PatchSet, PatchPairs).
        validate_on_training: allow a validation folder that holds the patches of a training folder.
        network: in place of the recipe's, a name of DESCRIPTORS; or a module from (N, 1, 32, 32) grey 0-255 to raw (N,
            D), trained from the weights it has; or a class or function that makes one, which starts as the recipe says.
            Its checkpoints load by `hynet.load(path, network=MyNetwork())`, or by path alone where a package adds it to
            our table.
        loss: in place of the recipe's, a name of LOSSES; or a function of raw anchors and positives (N, D) that returns
            LossTerms.
        resume: go on with the run in that folder; its settings are the same but for FREE_TO_CHANGE.
        device: where it trains, such as "cpu" or "cuda:1"; None: on a GPU if there is one.
        watch: is shown every line of the log.
        progress: is shown the thousandths of the run that are done.
        recipe_name: what the run is called; None: the recipe's own name, or "custom".
        settings: fields of the settings that differ from the recipe's.
    """
    need("torch", "train", "training")
    from . import checkpoints, distributed, loop, run_folder

    out = as_path(out, "the run folder")
    config = _settings(recipe, network, loss, settings)
    own = {name: made for name, made in (("network", network), ("loss", loss)) if not isinstance(made, str | None)}
    task = TASKS[config.task].imported()
    if not validate_on_training:
        check_apart(data, validate, "Validate on another set, or add --validate-on-training.")
    sets = _by_name(data, lambda root: task.load(config, root, progress))
    checks = _by_name(validate, lambda root: task.load_validation(config, root))
    with distributed.joined():
        place = distributed.device_named(device)
        name = recipe_name or _name(recipe)
        about = checkpoints.about(name, config, {name: task.fingerprint(one) for name, one in sets.items()})
        checkpoint = run_folder.previous(out, about, config, resume)
        ready = task(config, sets, checks, place, resumed=checkpoint is not None, **own)
        ended = loop.run(ready, out, {**about, **ready.facts}, checkpoint, watch=watch, progress=progress)
        return ready.finish(ended, out) if distributed.rank() == 0 else ended


def check_apart(data: Sets, validate: CheckedSets, remedy: str) -> None:
    """Refuse to validate on a training set; a copy or a link of one, by its content, is one too."""
    if not validate or isinstance(data, PatchSet | Mapping) or isinstance(validate, Mapping):
        return
    trained = {datasets.find_patches(root).fingerprint(root): root for root in _paths(data)}
    for root in _paths(validate):
        if (same := trained.get(datasets.find_patches(root).fingerprint(root))) is not None:
            raise BadInput(
                f"{root} holds the patches of {same}, which is trained on: its FPR@95 would choose what was learnt by "
                f"heart. {remedy}"
            )


def _settings(recipe: str | RunConfig, network: Any, loss: Any, settings: Mapping[str, Any]) -> RunConfig:
    """The recipe's settings with other ones; another length takes the place of the recipe's."""
    if not isinstance(recipe, str | RunConfig):
        raise BadInput(f"a recipe is a name or a TrainConfig, got {type(recipe).__name__}.")
    config = choose(ALL_RECIPES, recipe, "recipe").config if isinstance(recipe, str) else recipe
    settings = dict(settings)
    if network is not None:
        settings["network"] = _label(network, "network")
    if loss is not None:
        settings["loss"] = _label(loss, "loss")
        if isinstance(recipe, str):  # its options are those of its own loss; another has perhaps none of them
            of_its_loss = [one.name for one in fields(config) if one.metadata.get("of") == "the loss"]
            settings = {"loss_options": {}, **dict.fromkeys(of_its_loss), **settings}
    known = vars(config)
    if strange := [name for name in settings if name not in known]:
        raise BadInput(f"a run has no setting {' and no '.join(strange)}; the settings are {', '.join(known)}.")
    lengths = dict.fromkeys(LENGTHS) if any(name in LENGTHS for name in settings) else {}
    return replace(config, **{**lengths, **settings})


def _name(recipe: str | RunConfig) -> str:
    """Name of a recipe; settings of one's own are called "custom", or by their task."""
    if isinstance(recipe, str):
        return recipe
    return "custom" if isinstance(recipe, TrainConfig) else recipe.task


def _label(made: Any, kind: str) -> str:
    """The name of a network or a loss in the run's settings: its name among ours, or where an object was defined."""
    if isinstance(made, str):
        return made
    if not callable(made):
        raise BadInput(f"the {kind} must be a name or something that can be called, got {made!r}.")
    defined = made if hasattr(made, "__qualname__") else type(made)
    return f"{defined.__module__}:{defined.__qualname__}"


def _by_name(data: Any, load: Callable[[Path], Any]) -> dict[str, Any]:
    """Data by name: given so, or loaded from folders."""
    if isinstance(data, PatchSet):
        return {"data": data}
    if isinstance(data, Mapping):
        return dict(data)
    return {str(root): load(root) for root in _paths(data)}


def _paths(roots: str | Path | Sequence[str | Path]) -> Sequence[Path]:
    several = isinstance(roots, Iterable) and not isinstance(roots, str)
    return [as_path(root, "a patch set that is no PatchSet") for root in (roots if several else [roots])]  # type: ignore[union-attr]
