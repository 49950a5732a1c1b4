"""Adding our features and verified matches to a COLMAP database of another program, beside what is in it.

Our keypoints come after theirs, so that rows of theirs stay what they are; the matches of a pair are joined, and
verified together. Everything is written at once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import images
from ..errors import BadInput, DataNotFound
from ..features.addresses import name_photos
from ..features.folder import extract_all
from ..features.hloc_file import read_h5, unit_features
from ..features.settings import FeatureSettings
from ..matching.consensus import Consensus
from ..matching.nearest import Nearest, check_ratio
from ..runtime.locks import exclusive_lock
from ..runtime.machine import cores
from ..types import Array, Progress, silent
from . import colmap
from . import pairs as pairing
from .colmap import Store, Verifiable

IN_MEMORY = 64  # photos whose descriptors are held at once


@dataclass(frozen=True)
class Added:
    """Counts of what was added to the database, and photos that were left as they are."""

    photos: int
    keypoints: int
    pairs: int
    matches: int  # ours
    inliers: int  # ours and theirs together
    left: Mapping[str, str]  # name -> why


def add_features(
    photos: str | Path,
    database: str | Path,
    *,
    settings: FeatureSettings | None = None,
    features: str | Path | None = None,
    pairs: str = "auto",
    ratio: float | None = None,
    progress: Progress = silent,
) -> Added:
    """Add features of the photos in a folder that the database names, by their path below the folder.

    features: the file that keeps them, as `hynet extract` writes it; by default beside the database.
    pairs: as in `reconstruct`, but "auto" is all pairs of up to 200 photos, without rounds.
    ratio: as in `reconstruct`.
    """
    database = Path(database)
    if not database.is_file():
        raise DataNotFound(f"no database {database}; `colmap feature_extractor` makes one, or `hynet reconstruct`.")
    check_ratio(ratio)
    colmap.check_database(database)
    file = Path(features or database.with_name(f"{database.name}.features.h5"))
    named = name_photos(photos)
    settings = settings or FeatureSettings(max_keypoints=4096)
    with exclusive_lock(database):
        with colmap.opened(database) as store:
            left = _left(store, named)
            chosen = {name: named[name] for name in store.names if name not in left}
            if len(chosen) < 2:
                why = next(iter(left.values()), f"it names {len(store.names)} photos.")
                raise BadInput(f"{database} and {photos} share {len(chosen)} photos that can be used: {why}")
            pairing.check(pairs, chosen)
        extract = settings.open_extractor()
        done = extract_all(chosen, file, settings, jobs=len(cores()), extract=extract, progress=progress)
        left |= {name: why for name, why in done.unreadable.items() if name in chosen}
        with colmap.opened(database) as store:
            return _add(store, [name for name in chosen if name not in left], file, left, pairs, ratio, progress)


def _left(store: Store, named: Mapping[str, Path]) -> dict[str, str]:
    """Say which photos of the database are left as they are."""
    left = {}
    for name in store.names:
        if name not in named:
            left[name] = f"{name} is not in the folder; write photos by their path below it."
        elif images.is_turned(named[name]):
            left[name] = f"{name} is turned by its EXIF, which COLMAP passes over; turn it upright on disk."
    return left


def _add(
    store: Store,
    names: list[str],
    file: Path,
    left: dict[str, str],
    pairs: str,
    ratio: float | None,
    progress: Progress,
) -> Added:
    read = lru_cache(maxsize=IN_MEMORY)(lambda name: unit_features(read_h5(file, name)))
    theirs: dict[str, int] = {}  # how many keypoints each photo had
    joined: dict[str, Array] = {}  # theirs and ours, as the database stores them
    for name in names:
        found, before = read(name), store.stored_keypoints(name)
        if found.image_size != store.size(name):
            raise BadInput(
                f"{name} is of another size in the database: {store.size(name)}, and {found.image_size} here."
            )
        ours = colmap.colmap_keypoints(found.keypoints.frames, before.shape[1])
        if len(ours) and np.array_equal(before[-len(ours) :], ours):
            raise BadInput("the database holds these features already; nothing was added.")
        theirs[name] = len(before)
        joined[name] = np.concatenate([before, ours])

    def seen(name: str) -> Verifiable:
        return replace(store.verifiable(name), points=joined[name][:, :2].astype(np.float64))

    chosen = pairing.choose_pairs(pairs, names, lambda name: read(name).descriptors)
    matcher = Consensus() if ratio is None else Nearest(ratio)
    matches = inliers = 0
    results: list[tuple[str, str, Array, Any]] = []
    for count, (first, second) in enumerate(chosen, start=1):
        ours = matcher(read(first), read(second)).indices + np.array([theirs[first], theirs[second]])
        known = store.matches(first, second)
        both = ours if known is None else np.concatenate([known, ours])
        geometry = colmap.verify_pair(seen(first), seen(second), both)
        results.append((first, second, both, geometry))
        matches += len(ours)
        inliers += len(geometry.inlier_matches)
        progress(count, len(chosen), "matching")
    with store.transaction():  # pycolmap commits it however the block ends, so nothing slow is in here
        for name, keypoints in joined.items():
            store.write_stored_keypoints(name, keypoints)
        for result in results:
            store.replace_pair(*result)
    added = sum(len(keypoints) - theirs[name] for name, keypoints in joined.items())
    return Added(len(names), added, len(chosen), matches, inliers, left)
