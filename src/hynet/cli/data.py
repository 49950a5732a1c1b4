"""Get the public patch sets: downloads are resumed and verified.

Example: hynet data get liberty --to data     (then: hynet train hynet-liberty --data data/liberty ...)
         hynet data list
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tyro

from ..datasets import registry
from . import Report
from .progress import bar


def main(args: list[str]) -> Report:
    commands: dict[str, Callable[..., Report]] = {"get": get, "list": list_sets}
    return tyro.extras.subcommand_cli_from_dict(commands, args=args, prog="hynet data", description=__doc__)


def get(name: tyro.conf.Positional[str], to: Path = Path("data")) -> Report:
    """Download a set into the folder DIR/NAME, unless it is there.

    Args:
        name: the set, as `hynet data list` names it
        to: the folder to make the set's own folder in
    """
    with bar() as progress:
        folder = registry.get(name, to, progress)
    return Report(f"{name} is in {folder}", {"name": name, "folder": str(folder)})


def list_sets() -> Report:
    """Name the sets that can be had."""
    width = max(map(len, registry.SETS))
    lines = [f"{name.ljust(width)}  {known.download.rjust(6)}  {known.what}" for name, known in registry.SETS.items()]
    facts = {name: {"what": known.what, "download": known.download} for name, known in registry.SETS.items()}
    return Report("\n".join(lines), {"sets": facts})
