"""Features x Features -> Matches. ADD A MATCHER: a file in this folder and a row in MATCHERS."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from ..system.parts import Part, PartTable, open_part
from ..system.plugins import plugins
from ..types import Features, Matches


class Matcher(Protocol):
    """Which features of one photo go with which of another."""

    def __call__(self, a: Features, b: Features) -> Matches: ...


MATCHERS: dict[str, Part] = {
    "nearest": Part(f"{__name__}.nearest", "Nearest", "mutual nearest neighbours, with a ratio test; FGINN if wanted"),
    "lighterglue": Part(
        f"{__name__}.lighterglue",
        "LighterGlue",
        "learnt for XFeat's features (Potje 2024)",
        files=("onnx",),
        needs_file=True,
    ),
}


def all_matchers() -> PartTable:
    """Ours, and those of installed packages."""
    return MATCHERS | plugins("matchers")


def open_matcher(name_or_path: str | Path, **options: Any) -> Matcher:
    """A matcher by name, or by the path of its weights. Options are those of the matcher, such as ratio of nearest."""
    return open_part(all_matchers(), name_or_path, "matcher", **options)
