"""Print what completes commands and options in your shell.

Example: hynet completion bash > ~/.local/share/bash-completion/completions/hynet
         hynet completion zsh > ~/.zfunc/_hynet          (a folder of your fpath)
         hynet completion fish > ~/.config/fish/completions/hynet.fish
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ..benchmarks import BENCHMARKS
from ..training.configuration import TrainConfig
from ..training.recipes import RECIPES
from . import COMMANDS, Report

Shell = Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]


def run(shell: Shell) -> Report:
    """Print the script.

    Args:
        shell: The shell that reads it.
    """
    written = io.StringIO()
    try:
        with redirect_stdout(written):
            tyro.extras.subcommand_cli_from_dict(
                _commands(), prog="hynet", args=["--tyro-print-completion", shell], description="HyNet local features"
            )
    except SystemExit:
        pass
    return Report(written.getvalue().rstrip("\n"), {"shell": shell, "script": written.getvalue()})


def _commands() -> dict[str, Callable[..., Any]]:
    """Each command as a function. Two whose options depend on their first argument offer what all choices share."""
    modules = {name: importlib.import_module(f".{name.replace('-', '_')}", __package__) for name in COMMANDS}
    plain = {name: module.run for name, module in modules.items() if not hasattr(module, "main")}
    return plain | {"train": _train, "evaluate": _evaluate}


def _train(
    recipe: Annotated[Literal[(*RECIPES, "keynet")], tyro.conf.Positional],  # type: ignore[valid-type]
    data: list[Path],
    out: Path,
    config: Annotated[TrainConfig, tyro.conf.arg(name="")],
    validate: tuple[Path, ...] = (),
    resume: bool = False,
) -> None: ...


def _evaluate(
    benchmark: Annotated[Literal[tuple(BENCHMARKS)], tyro.conf.Positional],  # type: ignore[valid-type]
    data: Path,
    model: str = "",
    out: Path | None = None,
) -> None: ...
