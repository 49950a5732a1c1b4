"""The help of a command: what it does, an example, its common options; with --help-all every option."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Collection, Iterator
from typing import Any

from .arguments import Argument, arguments, named
from .choices import listed_choices

HELP = ("-h", "--help", "--help-all")
COLUMN = 26  # where the help of an option begins
EXAMPLES = 4  # in the short help


def help_text(command: Any, prog: str, description: str, common: Collection[str] = (), everything: bool = False) -> str:
    """Return the help of a function or dataclass, in the width of the terminal; `common` names options, without --."""
    width = min(shutil.get_terminal_size().columns, 120)
    known = list(arguments(command))
    options = sorted((each for each in known if not each.positional), key=lambda each: not each.required)
    shown = options
    if common and not everything:
        by_name = {each.name[2:]: each for each in options if not each.required}
        shown = [each for each in options if each.required] + [by_name[name] for name in common]
    positional = [each for each in known if each.positional]
    usage = ["usage:", prog, *(each.name for each in positional), *(str(each) for each in options if each.required)]
    lines = [f"{' '.join(usage)} [OPTIONS]", "", *_description(description, width, None if everything else EXAMPLES)]
    for argument in [*positional, *shown]:
        lines += _option(argument, width)
    hidden = [each.name[2:] for each in options if each not in shown]
    more = f" `{prog} --help-all` shows {len(hidden)} more options: {', '.join(hidden)}." if hidden else ""
    closing = f"--json prints one JSON object on stdout; -v logs to stderr.{more}"
    return "\n".join([*lines, "", *textwrap.wrap(closing, width, break_on_hyphens=False)])


def _option(argument: Argument, width: int) -> Iterator[str]:
    """The option with its type, and beside it its help with what it is by default."""
    head = "  " + _head(argument)
    told = argument.help
    if choices := listed_choices(argument.name):
        told = f"{told.removesuffix('.')}. Names: {choices}."
    if not argument.positional and (default := _default(argument)):
        told = f"{told} (default: {default})".strip()
    column = min(COLUMN, width // 3)
    wrapped = textwrap.wrap(told, width - column, break_on_hyphens=False) or [""]
    if len(head) < column:
        yield f"{head.ljust(column)}{wrapped[0]}".rstrip()
        wrapped = wrapped[1:]
    else:
        yield head
    yield from (" " * column + line for line in wrapped)


def _head(argument: Argument) -> str:
    if argument.positional:
        return argument.name
    if argument.is_flag:
        return argument.name if argument.default is False else ", ".join(argument.flags)
    return f"{argument.name} {named(argument.kind, '|')}"


def _default(argument: Argument) -> str:
    """The default in words; nothing where there is none, or it says no more than the help."""
    default = argument.default
    if argument.required:
        return ""
    if isinstance(default, bool):
        return "on" if default else ""
    if default is None or default in ("", (), [], {}):
        return ""
    if isinstance(default, tuple | list):
        return " ".join(map(str, default))
    return f"{default:.4g}" if isinstance(default, float) else str(default)


def _description(description: str, width: int, examples: int | None) -> Iterator[str]:
    """Paragraphs wrapped, lists as they stand, and at most so many of the examples."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(description).partition("\nArgs:")[0]):
        if part.startswith("Example:"):
            yield from part.splitlines()[:examples]
        elif re.search(r"^ ", part, re.MULTILINE):
            yield from part.splitlines()
        else:
            yield from textwrap.wrap(part, width, break_on_hyphens=False)
        yield ""
