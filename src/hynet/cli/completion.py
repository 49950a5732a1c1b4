"""Print a script that completes commands and options in your shell.

Example: hynet completion bash > ~/.local/share/bash-completion/completions/hynet
         hynet completion zsh > ~/.zfunc/_hynet          (a folder on your fpath)
         hynet completion fish > ~/.config/fish/completions/hynet.fish
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Annotated, Any, Literal, Union

import tyro

from ..evaluation import BENCHMARKS
from ..training.recipes import ALL_RECIPES
from . import COMMANDS, Report
from .evaluate import Asked
from .paper import PARTS
from .train import command

# tyro's function answers one empty word where it knows nothing, which would keep bash from completing file names.
FILES_IN_BASH = """
_hynet() { _tyro_hynet; [ -n "${COMPREPLY[0]}" ] || COMPREPLY=(); }
complete -o default -F _hynet hynet
"""

Shell = Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]


def run(shell: Shell) -> Report:
    """Print the script.

    Args:
        shell: The shell to complete in.
    """
    written = io.StringIO()
    try:
        with redirect_stdout(written):
            tyro.cli(
                _one_of(_commands()),
                prog="hynet",
                args=["--tyro-print-completion", shell],
                description="HyNet local features",
            )
    except SystemExit:
        pass
    script = written.getvalue() + (FILES_IN_BASH if shell == "bash" else "")
    return Report(script.rstrip("\n"), {"shell": shell, "script": script})


def _commands() -> dict[str, Any]:
    """Each command as tyro takes it. The first word of three of them decides on their options."""
    modules = {name: importlib.import_module(f".{name.replace('-', '_')}", __package__) for name in COMMANDS}
    plain = {name: module.run for name, module in modules.items() if not hasattr(module, "main")}
    recipes = {name: command(name, recipe.config) for name, recipe in ALL_RECIPES.items()}
    benchmarks = {name: Asked[row.options()] for name, row in BENCHMARKS.items()}  # type: ignore[misc]
    parts = {name: options for name, (options, _) in PARTS.items()}
    return plain | {"train": _one_of(recipes), "evaluate": _one_of(benchmarks), "paper": _one_of(parts)}


def _one_of(choices: Mapping[str, Any]) -> Any:
    """A type of which the command line names one."""
    return Union[  # noqa: UP007
        tuple(Annotated[Any, tyro.conf.subcommand(name, constructor=each)] for name, each in choices.items())
    ]
