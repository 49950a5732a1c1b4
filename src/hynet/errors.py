"""Errors, and the sentences that a user reads.

HynetError              the command line prints its sentence and leaves with exit code 2
├── BadInput            an argument, array or file that cannot be used
│   ├── UnknownName     a name that is in none of our tables; lists what is there
│   ├── CannotWrite     a full disk, or a place where nothing may be written
│   └── UnreadableImage a photo that cannot be read, and why
├── DataNotFound        a data set is not where it should be; says where to put it
├── BadData             a data set is there, but broken
├── BadWeights          a weights file that is not one of ours, or of the published ones
├── MissingExtra        an optional package is not installed; names the extra
└── and beside what they belong to: sfm.colmap.package.NotReconstructed, training.loop.Diverged,
    features.export.Disagreement, runtime.plugins.BrokenPlugin, runtime.processes.EndedEarly
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TypeVar

Value = TypeVar("Value")


class HynetError(Exception):
    """An error whose message is one sentence that says what is wrong and what to do."""


class BadInput(HynetError, ValueError): ...


class UnknownName(BadInput, KeyError):
    __str__ = Exception.__str__  # KeyError would show the sentence in quotes


class CannotWrite(BadInput): ...


class UnreadableImage(BadInput): ...


class DataNotFound(HynetError, FileNotFoundError): ...


class BadData(HynetError, ValueError): ...


class BadWeights(HynetError, ValueError): ...


class MissingExtra(HynetError, ImportError): ...


def choose(table: Mapping[str, Value], name: str, kind: str) -> Value:
    """Return the entry of that name, or raise UnknownName, which lists the names there are."""
    if name not in table:
        raise UnknownName(f"no {kind} {name!r}; choose {listed(table)}.")
    return table[name]


def listed(choices: Iterable[str]) -> str:
    """Join names as a sentence has them: "one, two or three"."""
    names = list(choices)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def plural(count: int, noun: str, plural: str | None = None, *, spec: str = "") -> str:
    """Count and noun as a sentence has them: "1 match", "3 matches"; spec "," writes "1,234 pairs".

    plural: of nouns that take neither -s nor -es.
    """
    many = plural or noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")
    return f"{count:{spec}} {noun if count == 1 else many}"


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional package where it is used, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.split(".")[0] != module.split(".")[0]:
            raise  # the package is there, but one of its own imports is not: not ours to explain
        package = module.split(".")[0]
        raise MissingExtra(f"{purpose} needs {package}: pip install 'hynet-features[{extra}]'") from None
