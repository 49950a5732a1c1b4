"""Tables of parts, to which installed packages add their own.

    [project.entry-points."hynet.losses"]
    mine = "my_package.losses:mine"

A row names what it stands for in the same notation, and imports it when it is first used: looking at a table costs
nothing, and a broken package stops nobody who does not ask for its part.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from ..errors import HynetError


class BrokenPlugin(HynetError):
    """A part of an installed package cannot be imported or made."""


Product = TypeVar("Product", covariant=True)


@dataclass(frozen=True)
class Part(Generic[Product]):
    """A row of a table. Calling it calls what it names: a class, a function."""

    where: str  # "package.module:name", or a module alone
    about: str = ""  # in one line; a plug-in says it in its docstring
    package: str = ""  # that brings it; empty: ours

    def __call__(self, *values: Any, **options: Any) -> Product:
        make = self.imported()
        with self.blamed():
            return make(*values, **options)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Raise errors of a package's code as one sentence that names the package."""
        try:
            yield
        except HynetError:
            raise
        except Exception as error:
            if not self.package:
                raise
            raise BrokenPlugin(
                f"{self.where} of the package {self.package} fails ({type(error).__name__}: {error}); "
                "fix the package or uninstall it."
            ) from error

    def imported(self) -> Any:
        """Import and return what the row names."""
        if not self.package:
            return pkgutil.resolve_name(self.where)
        try:
            return pkgutil.resolve_name(self.where)
        except Exception as error:  # whatever its import runs into is its own
            raise BrokenPlugin(
                f"{self.where} of the package {self.package} cannot be imported ({type(error).__name__}: {error}); "
                "fix the package or uninstall it."
            ) from None

    def summary(self) -> str:
        """Description in one line."""
        if not self.package:
            return self.about
        first_line = (self.imported().__doc__ or "").strip().partition("\n")[0]
        return f"{first_line} (from {self.package})".strip()


Row = TypeVar("Row", bound=Part[Any])


def with_plugins(group: str, rows: Mapping[str, Row], kind: type[Row]) -> dict[str, Row]:
    """Add to a table the rows of installed packages: the entry points of the group `hynet.losses` and so on.

    kind: the class of the rows. A name that we use ourselves stays ours.
    """
    added = {
        entry.name: kind(entry.value, package=entry.dist.name if entry.dist else entry.module)
        for entry in sorted(_installed().select(group=f"hynet.{group}"), key=lambda entry: entry.name)
    }
    return {**rows, **{name: row for name, row in added.items() if name not in rows}}


def importable(table: Mapping[str, Row]) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a table, ours first, without plug-ins that cannot be imported."""
    for name, row in table.items():
        try:
            row.imported()
        except BrokenPlugin:
            continue
        yield name, row


@cache
def _installed() -> Any:
    """Entry points of all installed packages, looked up once."""
    return entry_points()
