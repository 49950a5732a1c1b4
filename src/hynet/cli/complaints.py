"""What is wrong with arguments that tyro refuses, in one sentence.

tyro gives its reasons only as a box drawn on stderr. So the reason is found again here, from the command's signature:
an option that does not exist, one that is missing, or a value that tyro does not take for that option by itself.
"""

from __future__ import annotations

import inspect
import io
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro


@dataclass(frozen=True)
class Argument:
    """One argument of a command."""

    name: str  # --max-keypoints, or what the help calls a positional one
    kind: Any  # its type, without notes to tyro
    required: bool
    positional: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        return (self.name, f"--no-{self.name[2:]}") if self.kind is bool else (self.name,)

    @property
    def several(self) -> bool:
        return get_origin(self.kind) in (tuple, list)

    def takes(self, values: Sequence[str]) -> bool:
        """Whether tyro makes a value of them."""
        try:
            with redirect_stderr(io.StringIO()):
                tyro.cli(self.kind, args=list(values), console_outputs=False)
        except SystemExit:
            return False
        return True

    def __str__(self) -> str:
        return self.name if self.positional else f"{self.name} {_named(self.kind)}"


def complaint(command: Callable[..., Any], args: Sequence[str]) -> str:
    """The first thing that is wrong."""
    known = list(_arguments(command))
    by_flag = {flag: argument for argument in known for flag in argument.flags}
    positional = [argument for argument in known if argument.positional]
    loose: list[str] = []  # values that belong to no option
    given: dict[str, list[str]] = {}  # name of an argument -> its values
    for flag, values in _in_pieces(args):
        if flag is None:
            loose += values
        elif flag not in by_flag:
            near = get_close_matches(flag, by_flag, n=2)
            return f"no option {flag}" + (f"; perhaps you meant {' or '.join(near)}" if near else "")
        else:
            argument = by_flag[flag]
            most = len(values) if argument.several else 0 if argument.kind is bool else 1
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
        if argument.name in given and argument.kind is not bool and not argument.takes(values):
            wrong = f"cannot be {' '.join(map(repr, values))}" if values else "has no value"
            return f"{argument.name} {wrong}: it takes {_named(argument.kind)}"
    if loose:
        return f"unexpected: {', '.join(map(repr, loose))}"
    return "these arguments do not go together"


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


def _arguments(command: Any) -> Iterator[Argument]:
    """Of a function or a dataclass; a dataclass among them stands for its own fields."""
    origin = get_origin(command) or command
    kinds = dict(zip(getattr(origin, "__parameters__", ()), get_args(command), strict=True))  # of a generic dataclass
    hints = typing.get_type_hints(origin, include_extras=True)
    defaults = {parameter.name: parameter.default for parameter in inspect.signature(origin).parameters.values()}
    names = [field.name for field in fields(origin)] if is_dataclass(origin) else list(defaults)
    for name in names:
        kind, *notes = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
        kind = kinds.get(kind, kind)
        if is_dataclass(kind):
            yield from _arguments(kind)
            continue
        required = defaults[name] is inspect.Parameter.empty
        if tyro.conf.Positional in notes:
            shown = next((note.metavar for note in notes if getattr(note, "metavar", None)), name.upper())
            yield Argument(shown, kind, required, positional=True)
        else:
            called = next((note.name for note in notes if getattr(note, "name", None)), name)
            yield Argument(f"--{called.replace('_', '-')}", kind, required)


def _named(kind: Any) -> str:
    """A type as the help names it."""
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if get_origin(kind) in (tuple, list):
        return f"{_named(get_args(kind)[0])}..."
    if get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(_named(one) for one in get_args(kind) if one is not types.NoneType)
    return kind.__name__.upper()
