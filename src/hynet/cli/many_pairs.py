"""`hynet match` of more than two photos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..matching.many_pairs import match_many
from ..matching.settings import MatchSettings
from . import Report, absence
from .progress import bar

LISTED = 20  # pairs


def run_many(
    photos: Sequence[str | Path], pairs: Path | None, out: Path, settings: MatchSettings, overwrite: bool
) -> Report:
    """Match each pair of the file, or each photo with each."""
    with bar() as progress:
        done = match_many(photos, out, settings, pairs=pairs, overwrite=overwrite, progress=progress)
    each = [
        f"  {first} {second}: {found} matches, {good} inliers" for (first, second), (found, good) in done.counts.items()
    ]
    matches, inliers = (sum(counts[k] for counts in done.counts.values()) for k in range(2))
    lines = [f"{len(done.counts)} pairs, {done.new} of them new: {matches:,} matches, {inliers:,} inliers."]
    lines += each[:LISTED] + ([f"  and {len(each) - LISTED} more"] if len(each) > LISTED else [])
    read = "" if done.features.is_dir() else "; hloc reads both"  # of a collection, it reads single shards
    lines += [f"{out} holds the matches, {done.features} the features whose rows they name{read}."]
    if done.unreadable:
        lines += [
            f"{len(done.unreadable)} photos could not be used:",
            *(f"  {why}" for why in done.unreadable.values()),
        ]
    rows = [{"names": list(pair), "matches": found, "inliers": good} for pair, (found, good) in done.counts.items()]
    data: dict[str, Any] = {"out": str(out), "features": str(done.features), "pairs": rows, "new": done.new}
    data |= {"matches": matches, "inliers": inliers, "unreadable": dict(done.unreadable)}
    return Report("\n".join(lines), data, absence(done.unreadable))
