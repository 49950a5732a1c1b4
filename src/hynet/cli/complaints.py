"""One sentence on arguments that tyro refuses.

tyro gives its reasons only as a box drawn on stderr. So the reason is found again here, from the command's signature:
an option that does not exist, one that is missing, or a value that tyro does not take for that option by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from . import RENAMED_OPTIONS
from .arguments import arguments, named


def complaint(command: Callable[..., Any], args: Sequence[str]) -> str:
    """Return the first thing that is wrong."""
    known = list(arguments(command))
    by_flag = {flag: argument for argument in known for flag in argument.flags}
    positional = [argument for argument in known if argument.positional]
    loose: list[str] = []  # values that belong to no option
    given: dict[str, list[str]] = {}  # name of an argument -> its values
    for flag, values in _in_pieces(args):
        if flag is None:
            loose += values
        elif flag not in by_flag:
            return _unknown(flag, by_flag)
        else:
            argument = by_flag[flag]
            most = len(values) if argument.several else 0 if argument.is_flag else 1
            given[argument.name] = values[:most]
            loose += values[most:]
    for argument in positional:
        most = len(loose) if argument.several else 1
        if loose:
            given[argument.name] = loose[:most]
        loose = loose[most:]

    if missing := [str(argument) for argument in known if argument.required and argument.name not in given]:
        return f"missing: {', '.join(missing)}"
    for argument in known:
        values = given.get(argument.name, [])
        if argument.name in given and not argument.is_flag and not argument.takes(values):
            wrong = f"cannot be {' '.join(map(repr, values))}" if values else "has no value"
            return f"{argument.name} {wrong}: it takes {named(argument.kind)}"
    if loose:
        return f"unexpected: {', '.join(map(repr, loose))}"
    return "these arguments do not go together"


def _unknown(flag: str, known: Sequence[str] | dict[str, Any]) -> str:
    """The new form of a renamed option, or those that are called nearly so."""
    for new in RENAMED_OPTIONS.get(flag, ()):
        if new.split()[0] in known:
            return f"{flag} is now {new}"
    near = get_close_matches(flag, known, n=2, cutoff=0.7)
    return f"no option {flag}" + (f"; perhaps you meant {' or '.join(near)}" if near else "")


def _in_pieces(args: Sequence[str]) -> Iterator[tuple[str | None, list[str]]]:
    """Each option with the values after it; first the values before any option, under None."""
    flag: str | None = None
    values: list[str] = []
    for arg in args:
        if arg.startswith("--"):
            yield flag, values
            name, is_assigned, value = arg.partition("=")
            flag = name.replace("_", "-")
            values = [value] if is_assigned else []
        else:
            values.append(arg)
    yield flag, values
