"""Other people's parts: installed packages add rows to our tables by entry points, without a fork.

    [project.entry-points."hynet.losses"]
    mine = "my_package.losses:mine"

A row is looked up by its name alone and imported when it is first used, so a package that is broken stops nobody who
does not ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..errors import HynetError

GROUPS = ("descriptors", "losses", "detectors", "extractors", "matchers", "engines", "datasets", "benchmarks")


class BrokenPlugin(HynetError):
    """A package announces a part that cannot be imported."""


@dataclass(frozen=True)
class Plugin:
    """A row that an installed package adds to one of our tables."""

    entry: EntryPoint

    @property
    def package(self) -> str:
        return self.entry.dist.name if self.entry.dist else self.entry.module

    def load(self) -> Any:
        """What the package offers, imported now."""
        try:
            return self.entry.load()
        except Exception as error:  # whatever its import runs into is its own
            raise BrokenPlugin(
                f"{self.entry.name} of the package {self.package} cannot be loaded ({type(error).__name__}: {error}); "
                "mend the package or uninstall it."
            ) from None

    def __call__(self, *values: Any, **options: Any) -> Any:
        return self.load()(*values, **options)


@cache
def plugins(table: str) -> dict[str, Plugin]:
    """What installed packages add to a table, by name: plugins("losses") are the entry points of `hynet.losses`."""
    return {entry.name: Plugin(entry) for entry in sorted(entry_points(group=f"hynet.{table}"), key=lambda e: e.name)}
