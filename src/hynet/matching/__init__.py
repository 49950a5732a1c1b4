"""Features x Features -> Matches. ADD A MATCHER: a file in this folder and a row in MATCHERS."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from ..runtime.parts import FilePart, open_part
from ..runtime.plugins import with_plugins
from ..types import Features, Matches


class Matcher(Protocol):
    """Matches the features of one photo with those of another."""

    def __call__(self, a: Features, b: Features) -> Matches: ...


MATCHERS: dict[str, FilePart[Matcher]] = with_plugins(
    "matchers",
    {
        "consensus": FilePart(
            "hynet.matching.consensus:Consensus",
            "mutual nearest neighbours that are probably right, by their ratio and by neighbours that moved alike",
        ),
        "nearest": FilePart(
            "hynet.matching.nearest:Nearest", "mutual nearest neighbours with a ratio test, FGINN if wanted"
        ),
        "hamming": FilePart(
            "hynet.features.descriptors.compressed.hamming:Hamming",
            "by bits, for models that `hynet compress --to bits256` made",
        ),
        "lighterglue": FilePart(
            "hynet.matching.lighterglue:LighterGlue",
            "learnt for XFeat's features (Potje 2024)",
            files=("onnx",),
            needs_file=True,
        ),
    },
    FilePart[Matcher],
)


def open_matcher(name_or_path: str | Path, **options: Any) -> Matcher:
    """Open a matcher by name, or by the path of its weights. Options are its own, such as the ratio of nearest."""
    return open_part(MATCHERS, name_or_path, "matcher", **options)


def weights_of(name_or_path: str | Path) -> str | None:
    """Fingerprint a matcher's weights; None where its name alone makes it."""
    from ..runtime import fingerprints  # here, since matching two photos does not need it

    found = None if str(name_or_path) in MATCHERS else fingerprints.weights(Path(name_or_path))
    return None if found is None else found[:16]
