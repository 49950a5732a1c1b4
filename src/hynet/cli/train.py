"""Train a network with a named recipe; any setting of the recipe can be changed.

Example: hynet train hynet-cpu --data set/ --validate other/ --out run/ --minutes 60
         hynet train hynet-cpu --data mine/ --out run/ --minutes 10 --start-from model.safetensors
         hynet train shape --data set/ --validate other/ --out run/ --minutes 45
         hynet train keynet --data photos/ --out run/ --minutes 10
         hynet train --list

Several processes: torchrun --nproc-per-node 2 -m hynet train hynet --data liberty/ --out run/
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro

from ..errors import BadInput, UnknownName, listed
from ..training.configuration import LENGTHS, RunConfig, check_learns
from ..training.recipes import ALL_RECIPES, RECIPES
from ..training.train import train
from ..types import Table
from . import Report, parse, terminal_width
from .help import HELP
from .progress import bar

TrainingDevice = Annotated[
    str | None, tyro.conf.arg(help="where to train: cpu, cuda, cuda:1, mps; by default a GPU if there is one.")
]
# Options of the short help, where the recipe has them
COMMON = (
    "validate",
    "resume",
    "device",
    "minutes",
    "steps",
    "start-from",
    "teacher",
    "loss",
    "pairs-per-batch",
    "seed",
)


def main(args: list[str]) -> Report:
    """Train; the options depend on the recipe, which is the first argument."""
    if args[:1] == ["--list"]:
        return _list()
    if not args or args[0].startswith("-"):
        if not {*HELP} & {*args}:
            names = ", ".join(ALL_RECIPES)
            raise BadInput(f"say which recipe to train, one of {names}; `hynet train --list` explains.")
        return _parsed("hynet", args, prog="hynet train RECIPE")
    name, options = args[0], args[1:]
    if name not in ALL_RECIPES:
        raise UnknownName(f"no recipe {name!r}; choose {listed(ALL_RECIPES)}.")
    given = [option.partition("=")[0] for option in options]
    config = ALL_RECIPES[name].config
    if lengths := [length for length in LENGTHS if f"--{length}" in given]:  # another takes the place of the recipe's
        others: dict[str, Any] = {length: 1 if length == lengths[0] else None for length in LENGTHS}
        config = replace(config, **others)
    return _parsed(name, options, config)


def _parsed(recipe: str, args: list[str], config: RunConfig | None = None, prog: str = "") -> Report:
    """The report of a run with these options."""
    config = config or ALL_RECIPES[recipe].config
    common = [name for name in COMMON if name in COMMON[:3] or hasattr(config, name.replace("-", "_"))]
    asked = command(recipe, config)
    return parse(asked, args, prog=prog or f"hynet train {recipe}", description=_described(), common=common)()


def command(recipe: str, defaults: RunConfig) -> Callable[..., Report]:
    """The function that trains a recipe; its options are the fields of the recipe's settings."""
    kind, options = type(defaults), _options(defaults)

    def run(
        data: list[Path],
        out: Path,
        validate: tuple[Path, ...] = (),
        validate_on_training: bool = False,
        resume: bool = False,
        device: TrainingDevice = None,
        config: Annotated[Any, tyro.conf.arg(name="")] = options,
    ) -> Report:
        """Train.

        Args:
            data: one or more patch sets to train on, mixed; for Key.Net, folders of photos.
            out: the run folder: checkpoints, log, settings.
            validate: patch sets whose FPR@95 chooses best.pt; never give test sets here.
            validate_on_training: allow a validation set that is also trained on; its FPR@95 says nothing about other
                photos.
            resume: continue the run in that folder, as if it had not stopped; a finished one with a greater length.
            config: the recipe's settings.
        """
        settings = kind(**{one.name: getattr(config, one.name) for one in fields(kind)})
        return _train(recipe, settings, data, out, validate, resume, validate_on_training, device)

    run.__annotations__["config"] = Annotated[type(options), tyro.conf.arg(name="")]
    return run


def _options(defaults: RunConfig) -> RunConfig:
    """Copy the settings into a subclass whose fields that belong to the recipe are no options of the command line."""
    kind: Any = type(defaults)
    hints: Any = get_type_hints(kind)
    own = [one for one in fields(kind) if one.metadata.get("of") == "the recipe"]
    fixed = [(one.name, Annotated[hints[one.name], tyro.conf.Fixed], one) for one in own]
    made: Any = make_dataclass(kind.__qualname__, fixed, bases=(kind,), frozen=True)
    made.__module__ = kind.__module__  # whose source has the comments that are the help
    return made(**{one.name: getattr(defaults, one.name) for one in fields(kind)})


def _described() -> str:
    """The recipes first: they are what to choose from."""
    width = max(map(len, ALL_RECIPES))
    others = {name: f" (`hynet train {name} --help`)" for name in ALL_RECIPES if name not in RECIPES}
    recipes = [f"  {name.ljust(width)}  {recipe.about}{others.get(name, '')}" for name, recipe in ALL_RECIPES.items()]
    return "\n".join(["RECIPE is one of:", *recipes, "", __doc__ or ""])


def _train(
    recipe: str,
    config: RunConfig,
    data: list[Path],
    out: Path,
    validate: tuple[Path, ...],
    resume: bool,
    validate_on_training: bool,
    device: str | None,
) -> Report:
    check_learns(config)
    if os.environ.get("RANK", "0") != "0":  # under torchrun, one process speaks for all
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115

    def show(line: Mapping[str, Any]) -> None:
        print(_for_people(line, config), end="", file=sys.stderr, flush=True)

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
    return Report(ended.summary(), ended.to_dict())


def _for_people(line: Mapping[str, Any], config: RunConfig) -> str:
    """One line of the log."""
    if "negatives" in line:
        pairs = getattr(config, "pairs_per_batch", 0)
        if line["negatives"] >= pairs / 4:
            return ""
        return (
            f"Only {line['negatives']:.0f} others of a batch of {pairs} are certain negatives, "
            "because few scenes share it: --no-certain lets all other points be negatives.\n"
        )
    if "validation" in line:
        words = [f"FPR@95 {name} {error:.2f}%" for name, error in line["validation"].items()]
    else:
        known = ("step", "minutes", "learning_rate", "violated")
        words = [
            f"{name} {value:.3f}" for name, value in line.items() if isinstance(value, float) and name not in known
        ]
        words += [f"violated {line['violated']:.0%}"] if "violated" in line else []
    return f"step {line['step']}  {line['minutes']:.1f} min  " + "  ".join(words) + "\n"


def _list() -> Report:
    rows = {name: {"what": recipe.about, "network": _network(recipe.config)} for name, recipe in ALL_RECIPES.items()}
    data = {name: {"about": recipe.about, "config": asdict(recipe.config)} for name, recipe in ALL_RECIPES.items()}
    return Report(Table("Recipes", ["what", "network"], rows).markdown(terminal_width()), {"recipes": data})


def _network(config: RunConfig) -> str:
    """The network that is trained, as the list shows it."""
    named = {"shape": "affnet", "joint": "affnet, hynet", "keynet": "keynet"}
    return named.get(config.task) or config.network  # type: ignore[attr-defined]
