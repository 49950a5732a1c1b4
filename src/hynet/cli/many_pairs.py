"""`hynet match` of more than two photos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from ..errors import BadInput
from ..features.collection import is_collection
from ..features.extractors import MAX_KEYPOINTS
from ..features.folder import name_photos
from ..features.settings import FeatureSettings
from ..matching import open_with_ratio, weights_of
from ..matching.matches_file import find_photos, match_pairs
from ..runtime.machine import cores
from ..sfm.pairs import from_file
from . import Report, absence
from .progress import bar

LISTED = 20  # pairs


def match_many(
    photos: Sequence[str | Path],
    pairs: Path | None,
    out: Path,
    settings: FeatureSettings,
    *,
    matcher: str,
    options: Mapping[str, Any],
    geometry: str,
    threshold: float | None,
    overwrite: bool,
) -> Report:
    """Each pair of the file, or each photo with each."""
    if out.suffix != ".h5":
        raise BadInput(f"matches of many pairs go into one HDF5 file; let the name {out.name!r} end in .h5.")
    found_by = open_with_ratio(matcher, **options)
    if pairs is None:
        named = name_photos([*photos])
        chosen = list(combinations(named, 2))
    else:
        chosen = from_file(pairs)
        has_features = str(settings.extractor).endswith((".h5", ".hdf5")) or is_collection(str(settings.extractor))
        if has_features and (settings.mask or settings.max_keypoints != MAX_KEYPOINTS):
            raise BadInput(f"{settings.extractor} holds features that are made already; leave out masks and keypoints.")
        named = {} if has_features and not photos else find_photos(chosen, photos, pairs.parent)
    if not chosen:
        raise BadInput("there is no pair to match; give two photos or more, or a file with two names on each line.")
    with bar() as progress:
        done = match_pairs(
            named,
            chosen,
            out,
            found_by,
            settings=settings,
            options={"matcher": matcher, "matcher_weights": weights_of(matcher), **options},
            geometry=geometry,
            threshold=threshold,
            jobs=len(cores()),
            overwrite=overwrite,
            progress=progress,
        )
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
