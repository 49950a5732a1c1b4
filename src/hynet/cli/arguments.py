"""The arguments of a command, read from its function's signature and the dataclasses among its parameters.

tyro parses them; its help and its errors are boxes, so `help.py` and `complaints.py` write their own from what is here.
"""

from __future__ import annotations

import inspect
import io
import re
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro

REQUIRED = inspect.Parameter.empty
TYPES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


@dataclass(frozen=True)
class Argument:
    """One argument of a command."""

    name: str  # --max-keypoints, or what the help calls a positional one
    kind: Any  # its type, without notes to tyro
    default: Any
    help: str
    positional: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def is_flag(self) -> bool:
        """True for --name and --no-name, without a value."""
        return self.kind in (bool, bool | None)

    @property
    def flags(self) -> tuple[str, ...]:
        return (self.name, f"--no-{self.name[2:]}") if self.is_flag else (self.name,)

    @property
    def several(self) -> bool:
        kinds = get_args(self.kind) if get_origin(self.kind) in (typing.Union, types.UnionType) else (self.kind,)
        return any(get_origin(kind) in (tuple, list, dict) for kind in kinds)

    def takes(self, values: Sequence[str]) -> bool:
        """Whether tyro makes a value of them."""
        try:
            with redirect_stderr(io.StringIO()):
                tyro.cli(self.kind, args=list(values), console_outputs=False)
        except SystemExit:
            return False
        return True

    def __str__(self) -> str:
        return self.name if self.positional else f"{self.name} {named(self.kind)}"


def arguments(command: Any, given: Any = None) -> Iterator[Argument]:
    """Arguments of a function or a dataclass (with the defaults of the value `given`), nested dataclasses flattened."""
    origin = get_origin(command) or command
    kinds = dict(zip(getattr(origin, "__parameters__", ()), get_args(command), strict=True))  # of a generic dataclass
    hints = typing.get_type_hints(origin, include_extras=True)
    defaults, helps = _defaults(origin, given), _helps(origin)
    for name, default in defaults.items():
        kind, *notes = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
        kind = kinds.get(kind, kind)
        if is_dataclass(kind):
            yield from arguments(kind, None if default is REQUIRED else default)
            continue
        if tyro.conf.Fixed in notes:  # by a recipe
            continue
        help_ = next((note.help for note in notes if getattr(note, "help", None)), helps.get(name, ""))
        if tyro.conf.Positional in notes:
            shown = next((note.metavar for note in notes if getattr(note, "metavar", None)), name.upper())
            yield Argument(shown, kind, default, help_, positional=True)
        else:
            called = next((note.name for note in notes if getattr(note, "name", None)), name)
            yield Argument(f"--{called.replace('_', '-')}", kind, default, help_)


def named(kind: Any, alternatives: str = " or ") -> str:
    """A type as people read it: PATH, FLOAT, auto or upright or gradient."""
    if get_origin(kind) is Literal:
        return alternatives.join(map(str, get_args(kind)))
    if get_origin(kind) is dict:
        return "NAME VALUE..."
    if get_origin(kind) in (tuple, list):
        inner = get_args(kind)
        several = get_origin(kind) is list or Ellipsis in inner
        return f"{named(inner[0])}..." if several else " ".join(map(named, inner))
    if get_origin(kind) in (typing.Union, types.UnionType):
        return alternatives.join(named(one, alternatives) for one in get_args(kind) if one is not types.NoneType)
    return TYPES.get(kind) or kind.__name__.upper()


def _defaults(origin: Callable[..., Any], given: Any) -> dict[str, Any]:
    """Parameters or fields by name, in their order, with what they are if nobody gives them."""
    if not is_dataclass(origin):
        return {name: parameter.default for name, parameter in inspect.signature(origin).parameters.items()}
    if given is not None:
        return {field.name: getattr(given, field.name) for field in fields(origin)}
    made = {field.name: field.default_factory for field in fields(origin) if field.default_factory is not MISSING}
    plain = {field.name: REQUIRED if field.default is MISSING else field.default for field in fields(origin)}
    return {name: made[name]() if name in made else default for name, default in plain.items()}


def _helps(origin: Any) -> dict[str, str]:
    """Help by name: from the section Args of the docstring, and from the comments at the fields of a dataclass."""
    found: dict[str, str] = {}
    for owner in reversed(origin.__mro__) if isinstance(origin, type) else (origin,):
        if is_dataclass(owner):
            found |= _comments(inspect.getsource(owner).splitlines())
        section = inspect.cleandoc(owner.__doc__ or "").partition("Args:\n")[2]
        entries = re.findall(r"^    (\w+): ((?:.*(?:\n        .*)*))", section, re.MULTILINE)
        found |= {name: " ".join(text.split()) for name, text in entries}
    return found


def _comments(lines: Sequence[str]) -> dict[str, str]:
    """The comment behind each field, or on the lines above it."""
    found, above = {}, ""
    for line in lines:
        if comment := re.match(r"    # (.*)", line):
            above = f"{above} {comment[1]}".strip()
            continue
        if field := re.match(r"    (\w+): [^#]*(?:  # (.*))?$", line):
            found[field[1]] = field[2] or above
        above = ""
    return found
