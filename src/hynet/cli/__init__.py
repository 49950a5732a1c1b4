"""The command line: parses, calls, prints; no logic.

ADD A COMMAND: a file in this folder with a function `run(...) -> Report`, and a row in COMMANDS. Only the chosen
command's file is imported, so `hynet --help` answers at once.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import HynetError, UnknownName, choose

# command -> what it does, in one line
COMMANDS = {
    "data": "list and download the public patch sets",
    "bench": "measure speed as ratios against named peers, in one run",
    "info": "versions, descriptors, losses and models",
}


@dataclass(frozen=True)
class Report:
    """What a command found: a text for people, a JSON object for machines."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


def main(args: list[str] | None = None) -> int:
    """Run one command; 0 on success, 2 on bad input with one sentence on stderr, 130 on Ctrl-C."""
    # Threads that spin while they wait are several times slower than sleeping ones where a core is shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    args = sys.argv[1:] if args is None else args
    if not args or args[0] in ("-h", "--help"):
        print(_overview())
        return 0
    try:
        choose(COMMANDS, args[0], "command")
        as_json = "--json" in args
        report = _call(args[0], [arg for arg in args[1:] if arg != "--json"])
        print(json.dumps(report.data) if as_json else report.text)
        return 0
    except UnknownName as error:
        return _complain(f"{error} `hynet --help` says what each does." if args[0] not in COMMANDS else str(error))
    except HynetError as error:
        return _complain(str(error))
    except BrokenPipeError:  # `hynet ... | head` closed the pipe: nobody is left to tell
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return _complain("stopped; what was finished is kept.", code=130)


def _call(name: str, args: list[str]) -> Report:
    import tyro

    command = importlib.import_module(f".{name}", __package__)
    if hasattr(command, "main"):  # a command whose options depend on its first argument parses for itself
        return command.main(args)
    return tyro.cli(command.run, args=args, prog=f"hynet {name}", description=command.__doc__)


def _complain(sentence: str, code: int = 2) -> int:
    print(f"hynet: {sentence}", file=sys.stderr)
    return code


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "usage: hynet COMMAND [OPTIONS]",
            "",
            "HyNet local features: use them, train them, measure them.",
            "",
            *lines,
            "",
            "`hynet COMMAND --help` shows a command's options and an example; `--json` prints one JSON object.",
        ]
    )
