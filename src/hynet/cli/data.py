"""Download the public patch sets; downloads can be resumed and are verified.

Example: hynet data list
         hynet data get liberty --to data     (then: hynet train hynet --data data/liberty ...)
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro

from ..datasets import downloads as registry
from ..errors import BadInput
from . import Report
from .progress import bar


def run(
    action: tyro.conf.Positional[Literal["list", "get"]],
    name: tyro.conf.Positional[str | None] = None,
    *,
    to: Path = Path("data"),
) -> Report:
    """List the public sets, or get one.

    Args:
        action: list the sets, or get one
        name: the set to get, as named in the list
        to: the folder in which the set's own folder is made
    """
    if action == "list":
        width = max(map(len, registry.SETS))
        lines = [f"{name.ljust(width)}  {one.download.rjust(6)}  {one.what}" for name, one in registry.SETS.items()]
        facts = {name: {"what": one.what, "download": one.download} for name, one in registry.SETS.items()}
        return Report("\n".join(lines), {"sets": facts})
    if name is None:
        raise BadInput("say which set to get; `hynet data list` names them.")
    with bar() as progress:
        folder = registry.get(name, to, progress)
    return Report(f"{name} is in {folder}", {"name": name, "folder": str(folder)})
