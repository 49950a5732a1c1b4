"""The pair of photos that ships with the package, to try things on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..types import Array
from . import read

# Their ATTRIBUTION.md says who took them.
SACRE_COEUR = Path(__file__).with_name("sacre_coeur")


@dataclass(frozen=True)
class Example:
    """A pair of photos and a phrase that describes it."""

    about: str
    paths: tuple[Path, Path]

    @property
    def photos(self) -> tuple[Array, Array]:
        """(H, W) grey each."""
        return read(self.paths[0]), read(self.paths[1])


def example() -> Example:
    """One building by two cameras, at noon and in the evening."""
    about = "the Sacré-Cœur at noon and in the evening (photos by dullhunk and beggs, CC BY 2.0)"
    return Example(about, (SACRE_COEUR / "noon.jpg", SACRE_COEUR / "evening.jpg"))
