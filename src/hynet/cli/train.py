"""Train a network with a named recipe; any setting of the recipe can be changed.

Example: hynet train hynet-cpu --data set/ --validate other/ --out run/ --minutes 60
         hynet train hynet-cpu --data mine/ --out run/ --minutes 10 --start-from model.safetensors
         hynet train --list

Several processes: torchrun --nproc-per-node 2 -m hynet train hynet --data liberty/ --out run/
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from ..errors import BadInput, UnknownName, listed
from ..training.configuration import LENGTHS, TrainConfig, check_learns
from ..training.recipes import RECIPES
from ..training.train import train
from ..types import Table
from . import Report, parse, terminal_width
from .other_recipes import OTHER_RECIPES
from .progress import bar

TrainingDevice = Annotated[
    str | None, tyro.conf.arg(help="where to train: cpu, cuda, cuda:1, mps; by default a GPU if there is one.")
]


def main(args: list[str]) -> Report:
    """The options depend on the recipe, which is the first argument."""
    if args[:1] == ["--list"]:
        return _list()
    if not args or args[0].startswith("-"):
        if not {"-h", "--help"} & set(args):
            names = ", ".join([*RECIPES, *OTHER_RECIPES])
            raise BadInput(f"say which recipe to train, one of {names}; `hynet train --list` explains.")
        return _command("RECIPE", RECIPES["hynet"].config, args)
    name, options = args[0], args[1:]
    if name in OTHER_RECIPES:
        other = OTHER_RECIPES[name].run
        about = inspect.cleandoc(other.__doc__ or "").partition("\nArgs:")[0]  # tyro tells the options itself
        return parse(other, options, prog=f"hynet train {name}", description=about)()
    if name not in RECIPES:
        raise UnknownName(f"no recipe {name!r}; choose {listed([*RECIPES, *OTHER_RECIPES])}.")
    config = RECIPES[name].config
    given = [length for length in LENGTHS if any(arg.split("=")[0] == f"--{length}" for arg in options)]
    if given:  # another length takes the place of the recipe's
        lengths: dict[str, Any] = {length: 1 if length == given[0] else None for length in LENGTHS}
        config = replace(config, **lengths)
    return _command(name, config, options)


def _command(recipe: str, defaults: TrainConfig, args: Sequence[str]) -> Report:
    def command(
        data: list[Path],
        out: Path,
        validate: tuple[Path, ...] = (),
        validate_on_training: bool = False,
        resume: bool = False,
        device: TrainingDevice = None,
        config: Annotated[TrainConfig, tyro.conf.arg(name="")] = defaults,
    ) -> Report:
        """Train.

        Args:
            data: one or more patch sets to train on, mixed.
            out: the run folder: checkpoints, log, settings.
            validate: patch sets whose FPR@95 chooses best.pt; never give test sets here.
            validate_on_training: allow a validation set that is also trained on; its FPR@95 says nothing about other
                photos.
            resume: continue the run in that folder, as if it had not stopped.
            config: the recipe's settings.
        """
        return _train(recipe, config, data, out, validate, resume, validate_on_training, device)

    return parse(command, list(args), prog=f"hynet train {recipe}", description=_described())()


def _described() -> str:
    """The recipes first: they are what to choose from."""
    width = max(map(len, RECIPES))
    recipes = [f"  {name.ljust(width)}  {recipe.about}" for name, recipe in RECIPES.items()]
    recipes += [
        f"  {name.ljust(width)}  {recipe.about} (`hynet train {name} --help`)" for name, recipe in OTHER_RECIPES.items()
    ]
    return "\n".join(["RECIPE is one of:", *recipes, "", __doc__ or ""])


def _train(
    recipe: str,
    config: TrainConfig,
    data: list[Path],
    out: Path,
    validate: tuple[Path, ...],
    resume: bool,
    validate_on_training: bool,
    device: str | None,
) -> Report:
    check_learns(config)
    speaks = os.environ.get("RANK", "0") == "0"
    if not speaks:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  under torchrun, one process answers for all

    def show(line: Mapping[str, Any]) -> None:
        print(_told(line, config), end="", file=sys.stderr, flush=True)

    with bar() as progress:
        ended = train(
            config,
            data,
            out,
            validate=validate,
            validate_on_training=validate_on_training,
            resume=resume,
            device=device,
            watch=show,
            progress=progress,
            recipe_name=recipe,
        )
    text = f"{ended.steps} steps at {ended.patches_per_second:.0f} patches/s -> {ended.checkpoint}"
    errors = "".join(f"\nFPR@95 on {name}: {error:.2f}%" for name, error in ended.validation.items())
    if ended.last_validation != ended.validation:
        errors += "\nat the end: " + ", ".join(f"{error:.2f}%" for error in ended.last_validation.values())
    return Report(text + errors, asdict(ended) | {"checkpoint": str(ended.checkpoint)})


def _told(line: Mapping[str, Any], config: TrainConfig) -> str:
    """One line of the log for a person."""
    if "negatives" in line:
        if line["negatives"] >= config.pairs_per_batch / 4:
            return ""
        return (
            f"Only {line['negatives']:.0f} others of a batch of {config.pairs_per_batch} are certain negatives, "
            "because few scenes share it: --no-certain lets all other points be negatives.\n"
        )
    if "validation" in line:
        words = [f"FPR@95 {name} {error:.2f}%" for name, error in line["validation"].items()]
    else:
        known = ("step", "minutes", "learning_rate", "loss", "violated")
        terms = [
            f"{name} {value:.3f}" for name, value in line.items() if isinstance(value, float) and name not in known
        ]
        words = [f"loss {line['loss']:.3f}", *terms, f"violated {line['violated']:.0%}"]
    return f"step {line['step']}  {line['minutes']:.1f} min  " + "  ".join(words) + "\n"


def _list() -> Report:
    rows = {name: {"what": recipe.about, "network": recipe.config.network} for name, recipe in RECIPES.items()}
    rows |= {name: {"what": recipe.about, "network": recipe.network} for name, recipe in OTHER_RECIPES.items()}
    data = {name: {"about": recipe.about, "config": asdict(recipe.config)} for name, recipe in RECIPES.items()}
    return Report(Table("Recipes", ["what", "network"], rows).markdown(terminal_width()), {"recipes": data})
