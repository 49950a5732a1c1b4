"""Many pairs of photos -> one HDF5 file of matches in hloc's layout. Run it again to go on, or to add pairs.

The pair of a/b.jpg and c.jpg is the group "a-b.jpg/c.jpg". For each keypoint of the first photo, `matches0` (N,) has
the row of its match in the second photo, or -1, and `matching_scores0` (N,) how alike they look, from 0 to 1.
`inliers0` (N,), which hloc passes over, says whether the match agrees with the geometry.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .. import images
from ..errors import BadInput
from ..features.folder import extract_all, name_photos
from ..features.hloc_file import FeaturesFile, h5_identities, h5_names, open_features, read_h5, unit_features
from ..features.settings import FeatureSettings
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..runtime.locks import exclusive_lock
from ..types import Array, Features, Pair, Progress, silent
from . import Matcher
from .hloc_matches import columns, flat_name, group_name
from .verification import verify

TOGETHER = 100  # pairs in one file of parts: what a power cut can cost
IN_MEMORY = 64  # photos


@dataclass(frozen=True)
class MatchedPairs:
    """What is in the file now."""

    counts: Mapping[Pair, tuple[int, int]]  # of the pairs asked for: matches, inliers
    new: int
    features: Path  # the file whose rows the matches name
    unreadable: Mapping[str, str]  # photo -> why


def match_pairs(
    photos: Mapping[str, Path],
    pairs: Sequence[Pair],
    out: Path,
    matcher: Matcher,
    *,
    settings: FeatureSettings,
    options: Mapping[str, Any],
    geometry: str = "auto",
    threshold: float | None = None,
    jobs: int = 1,
    overwrite: bool = False,
    progress: Progress = silent,
) -> MatchedPairs:
    """Match each pair by its names, and write `out`; the features of the photos go into a file beside it.

    photos: name -> path; empty where settings.extractor is a features file.
    options: of the matcher, by the names of the command's options, for who runs it again.
    """
    _check_groups(pairs)
    with exclusive_lock(out):
        noted = {**options, "geometry": geometry, "threshold": threshold}
        features, unreadable = _features(photos, pairs, out, settings, jobs, overwrite, progress)
        contents = h5_identities(features)
        asked = [pair for pair in dict.fromkeys(pairs) if contents.keys() >= set(pair)]
        if not asked:
            why = next(iter(unreadable.values()), "")
            raise BadInput(f"no pair has features of both photos: {why}")
        parts = _Parts(out, noted, overwrite)
        made_from = {pair: fingerprints.values([contents[name] for name in pair])[:16] for pair in asked}
        done = parts.done()
        todo = [pair for pair in asked if done.get(group_name(*pair)) != made_from[pair]]
        read = lru_cache(maxsize=IN_MEMORY)(lambda name: unit_features(read_h5(features, name)))
        try:
            for count, pair in enumerate(todo, len(asked) - len(todo) + 1):
                first, second = (read(name) for name in pair)
                parts.add(pair, made_from[pair], _matched(first, second, matcher, geometry, threshold))
                progress(count, len(asked), "matching")
        except KeyboardInterrupt as stop:
            parts.flush()
            stop.add_note("the pairs that are matched are kept")
            raise
        return MatchedPairs(parts.assemble(asked), len(todo), features, unreadable)


def _check_groups(pairs: Sequence[Pair]) -> None:
    """No two photos have one name there."""
    known: dict[str, str] = {}
    for name in (name for pair in pairs for name in pair):
        other = known.setdefault(flat_name(name), name)
        if other != name:
            raise BadInput(f"{other} and {name} have one name in hloc's matches; rename one of the photos.")


def find_photos(pairs: Iterable[Pair], given: Sequence[str | Path], beside: Path) -> dict[str, Path]:
    """The photos that pairs name: among those given and those in folders given, else as paths from here or `beside`."""
    names = dict.fromkeys(name for pair in pairs for name in pair)
    if given:
        known = name_photos([*given])
        strange = next((name for name in names if name not in known), None)
        if strange is not None:
            raise BadInput(
                f"the pairs name {strange!r}, which is not among the photos; write its path below the folder."
            )
        return {name: known[name] for name in names}
    return {name: path if (path := images.home(name)).is_file() else beside / name for name in names}


def _features(
    photos: Mapping[str, Path],
    pairs: Sequence[Pair],
    out: Path,
    settings: FeatureSettings,
    jobs: int,
    overwrite: bool,
    progress: Progress,
) -> tuple[Path, Mapping[str, str]]:
    """The file that holds them, and the photos that are not in it."""
    extract = settings.open_extractor()
    if isinstance(extract, FeaturesFile):
        if extract.path.resolve() == out.resolve():
            raise BadInput(f"{out} holds the features that are to be matched; choose another file for the matches.")
        known = set(h5_names(extract.path))
        names = dict.fromkeys(name for pair in pairs for name in pair)
        return extract.path, {
            name: f"{extract.path} holds no features of {name}." for name in names if name not in known
        }
    file = out.with_name(f"{out.stem}-features.h5")
    done = extract_all(photos, file, settings, jobs=jobs, extract=extract, overwrite=overwrite, progress=progress)
    return file, done.unreadable


def _matched(a: Features, b: Features, matcher: Matcher, geometry: str, threshold: float | None) -> dict[str, Array]:
    found = matcher(a, b)
    inliers0 = np.zeros(len(a), bool)
    inliers = True if geometry == "none" else verify(a, b, found, geometry, threshold=threshold).inliers
    inliers0[found.indices[:, 0]] = inliers
    return {**columns(found, len(a)), "inliers0": inliers0}


class _Parts:
    """Pairs as they are matched, in files beside `out`; HDF5 itself does not survive a crash while it is written."""

    def __init__(self, out: Path, settings: Mapping[str, Any], overwrite: bool) -> None:
        self.out, self.settings = out, json.dumps(dict(settings))
        self.folder = out.with_name(f"{out.name}.parts")
        self._waiting: dict[str, Array] = {}
        note = self.folder / "settings.json"
        wrong = {
            out: self._problem(out, self._in_file()) if out.exists() else None,
            self.folder: self._problem(self.folder, note.read_text()) if note.exists() else None,
        }
        for problem in wrong.values():
            if problem and not overwrite:
                raise problem
        if wrong[self.folder]:
            shutil.rmtree(self.folder)
        self._goes_on = out.exists() and not wrong[out]  # what is in the file is kept

    def add(self, pair: Pair, made_from: str, found: Mapping[str, Array]) -> None:
        name = group_name(*pair)
        self._waiting |= {f"{name}/{key}": column for key, column in found.items()}
        self._waiting[f"{name}/made_from"] = np.array(made_from)
        if len(self._waiting) >= 4 * TOGETHER:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            with atomic_write(self.folder / "settings.json") as temporary:  # first: it says what the others are
                temporary.write_text(self.settings)
            number = 1 + max((int(file.stem) for file in self._files()), default=-1)
            with atomic_write(self.folder / f"{number:06d}.npz") as temporary, temporary.open("wb") as file:
                np.savez(file, **self._waiting)  # type: ignore[arg-type]
            self._waiting = {}

    def done(self) -> dict[str, str]:
        """Group -> what its matches were made from, in the file and in the parts."""
        found: dict[str, str] = {}
        if self._goes_on:
            with open_features(self.out) as file:
                file.visititems(
                    lambda name, item: (
                        found.update({name: str(item.attrs.get("made_from"))})
                        if "matches0" in getattr(item, "keys", dict)()
                        else None
                    )
                )
        for part in self._files():
            try:
                with np.load(part) as stored:
                    found |= {
                        key.removesuffix("/made_from"): str(stored[key]) for key in stored if key.endswith("/made_from")
                    }
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                part.unlink()  # as a power cut leaves it
        return found

    def assemble(self, asked: Sequence[Pair]) -> dict[Pair, tuple[int, int]]:
        """One file of what was there and of all parts, which go; matches and inliers of the pairs asked for."""
        self.flush()
        with atomic_write(self.out) as temporary, h5py.File(temporary, "w") as file:
            if self._goes_on:
                with open_features(self.out) as earlier:
                    for name in earlier:
                        earlier.copy(name, file)
            for part in self._files():
                with np.load(part) as stored:
                    for key, column in stored.items():
                        name, _, kind = key.rpartition("/")
                        if kind == "made_from":
                            file.require_group(name).attrs[kind] = str(column)
                            continue
                        if key in file:
                            del file[key]
                        file.create_dataset(key, data=column)
            file.attrs["settings"] = self.settings
            counts = {}
            for pair in asked:
                group = file[group_name(*pair)]
                counts[pair] = int((group["matches0"][()] >= 0).sum()), int(group["inliers0"][()].sum())
        shutil.rmtree(self.folder, ignore_errors=True)  # not there where no pair was new
        return counts

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.npz"))

    def _in_file(self) -> object:
        with open_features(self.out) as file:
            return file.attrs.get("settings")

    def _problem(self, place: Path, written: object) -> BadInput | None:
        """Why matches there cannot be gone on with."""
        try:
            before = json.loads(written) if isinstance(written, str) else None
        except ValueError:
            before = None
        if not isinstance(before, dict):
            return BadInput(f"{place} was not made by `hynet match`; choose another --out, or --overwrite.")
        changed = fingerprints.difference(before, json.loads(self.settings))
        if not changed:
            return None
        return BadInput(f"{place} was made with other settings ({changed}); choose another --out, or --overwrite.")
