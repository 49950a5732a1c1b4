"""Many pairs of photos -> one HDF5 file of matches in hloc's layout. Run it again to go on, or to add pairs.

The pair of a/b.jpg and c.jpg is the group "a-b.jpg/c.jpg". For each keypoint of the first photo, `matches0` (N,) has
the row of its match in the second photo, or -1, and `matching_scores0` (N,) a similarity from 0 to 1. `inliers0` (N,),
which hloc does not read, says whether the match agrees with the geometry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np

from .. import images
from ..errors import BadInput
from ..features.addresses import name_photos
from ..features.folder import extract_all
from ..features.hloc_file import FeaturesFile, h5_identities, h5_names, read_h5, unit_features
from ..runtime import fingerprints
from ..runtime.locks import exclusive_lock
from ..runtime.machine import cores
from ..types import Array, Features, Pair, Progress, silent
from . import Matcher, weights_of
from .hloc_matches import columns, flat_name, group_name, read_pairs
from .matches_writer import MatchesWriter
from .settings import MatchSettings
from .verification import verify

IN_MEMORY = 64  # photos


@dataclass(frozen=True)
class MatchedPairs:
    """The contents of a matches file after a run."""

    counts: Mapping[Pair, tuple[int, int]]  # of the pairs asked for: matches, inliers
    new: int
    features: Path  # the file whose rows the matches name
    unreadable: Mapping[str, str]  # photo -> why


def match_many(
    photos: Sequence[str | Path],
    out: Path,
    settings: MatchSettings,
    *,
    pairs: Path | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> MatchedPairs:
    """Match pairs of photos into the file `out`; their features go into a file beside it.

    photos: files and folders; may be empty where the pairs name photos by path, or features that are there already.
    pairs: a file with the names of two photos on each line; None: each photo with each.
    """
    if out.suffix != ".h5":
        raise BadInput(f"matches of many pairs go into one HDF5 file; let the name {out.name!r} end in .h5.")
    matcher = settings.open_matcher()
    chosen = [*combinations(name_photos([*photos]), 2)] if pairs is None else read_pairs(pairs)
    if not chosen:
        raise BadInput("there is no pair to match; give two photos or more, or a file with two names on each line.")
    _check_groups(chosen)
    extract = settings.features.open_extractor()
    with exclusive_lock(out):
        unreadable: Mapping[str, str]
        if isinstance(extract, FeaturesFile):
            features, unreadable = extract.path, _without_features(extract.path, chosen, settings, out)
        else:
            named, features = _find_photos(chosen, photos, pairs), out.with_name(f"{out.stem}-features.h5")
            unreadable = extract_all(
                named,
                features,
                settings.features,
                jobs=len(cores()),
                extract=extract,
                overwrite=overwrite,
                progress=progress,
            ).unreadable
        contents = h5_identities(features)
        asked = [pair for pair in dict.fromkeys(chosen) if contents.keys() >= set(pair)]
        if not asked:
            raise BadInput(f"no pair has features of both photos: {next(iter(unreadable.values()), '')}")
        writer = MatchesWriter(out, _noted(settings), overwrite)
        made_from = {pair: fingerprints.values([contents[name] for name in pair])[:16] for pair in asked}
        done = writer.done()
        todo = [pair for pair in asked if done.get(group_name(*pair)) != made_from[pair]]
        read = lru_cache(maxsize=IN_MEMORY)(lambda name: unit_features(read_h5(features, name)))
        try:
            for count, pair in enumerate(todo, len(asked) - len(todo) + 1):
                writer.add(pair, made_from[pair], _matched(read(pair[0]), read(pair[1]), matcher, settings))
                progress(count, len(asked), "matching")
        except KeyboardInterrupt as stop:
            writer.flush()
            stop.add_note("the pairs that are matched are kept")
            raise
        return MatchedPairs(writer.assemble(asked), len(todo), features, unreadable)


def _check_groups(pairs: Iterable[Pair]) -> None:
    """Refuse two photos that hloc's layout gives one name."""
    known: dict[str, str] = {}
    for name in (name for pair in pairs for name in pair):
        other = known.setdefault(flat_name(name), name)
        if other != name:
            raise BadInput(f"{other} and {name} have one name in hloc's matches; rename one of the photos.")


def _find_photos(pairs: Iterable[Pair], given: Sequence[str | Path], file: Path | None) -> dict[str, Path]:
    """Find the photos that pairs name among those given, else as paths from here or from the folder of their file."""
    names = dict.fromkeys(name for pair in pairs for name in pair)
    if given:
        known = name_photos([*given])
        strange = next((name for name in names if name not in known), None)
        if strange is not None:
            raise BadInput(
                f"the pairs name {strange!r}, which is not among the photos; write its path below the folder."
            )
        return {name: known[name] for name in names}
    beside = Path() if file is None else file.parent
    return {name: path if (path := images.home(name)).is_file() else beside / name for name in names}


def _without_features(file: Path, pairs: Iterable[Pair], settings: MatchSettings, out: Path) -> dict[str, str]:
    """Say which photos of the pairs a features file does not hold."""
    if file.resolve() == out.resolve():
        raise BadInput(f"{out} holds the features that are to be matched; choose another file for the matches.")
    default = type(settings.features).max_keypoints
    if settings.features.mask or settings.features.max_keypoints != default:
        raise BadInput(f"{file} holds features that are made already; leave out masks and keypoints.")
    known = set(h5_names(file))
    names = dict.fromkeys(name for pair in pairs for name in pair)
    return {name: f"{file} holds no features of {name}." for name in names if name not in known}


def _noted(settings: MatchSettings) -> dict[str, object]:
    """Return what the matches depend on besides the features, by the names of the command's options."""
    weights = {"matcher": settings.matcher, "matcher_weights": weights_of(settings.matcher)}
    return weights | {name: getattr(settings, name) for name in ("ratio", "fginn", "geometry", "threshold")}


def _matched(a: Features, b: Features, matcher: Matcher, settings: MatchSettings) -> dict[str, Array]:
    found = matcher(a, b)
    inliers0 = np.zeros(len(a), bool)
    verified = settings.geometry != "none"
    fit = verify(a, b, found, settings.geometry, threshold=settings.threshold) if verified else None
    inliers0[found.indices[:, 0]] = True if fit is None else fit.is_inlier
    return {**columns(found, len(a)), "inliers0": inliers0}
