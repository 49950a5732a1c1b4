"""hloc's files of pairs (text) and of matches (HDF5: a group a pair, with the second photo's row for every row of the
first)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadData, BadInput, DataNotFound
from ..features.hloc_file import BROKEN, open_features
from ..types import Array, Features, Matches, Pair

NO_MATCH = -1


class MatchesFile:
    """Matches between photos of these names, from any program; checked as they are read."""

    def __init__(self, path: str | Path, names: Collection[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise DataNotFound(f"no matches file {path}; `hynet match --pairs pairs.txt --out {path}` makes one.")
        flat = {flat_name(name): name for name in names}
        if len(flat) < len(names):
            raise BadData(f"{path} cannot tell photos apart whose names differ only in / and -; rename them.")
        with open_features(path) as file:
            try:
                self._groups = {pair: path for group in file for pair, path in _pairs(file, group, flat)}
            except BROKEN as error:
                raise BadData(f"{path} is broken ({type(error).__name__}); match again.") from None
        if not self._groups:
            raise BadData(f"{path} holds no matches, in hloc's layout, between two of the {len(names)} photos.")

    def __contains__(self, pair: Pair) -> bool:
        return pair in self._groups or pair[::-1] in self._groups

    def pairs(self) -> list[Pair]:
        """Return the pairs in the direction in which they were matched."""
        return list(self._groups)

    def read(self, first: str, second: str, a: Features, b: Features) -> Matches:
        """Read the matches of two photos, with the distances between their descriptors."""
        turned = (first, second) not in self._groups
        rows = self._rows(second, first) if turned else self._rows(first, second)
        found = np.flatnonzero(rows != NO_MATCH)
        indices = np.stack([found, rows[found]], 1).astype(np.int64)
        if turned:  # sorted like our own, so that estimators, which draw by row, find the same
            indices = np.ascontiguousarray(indices[np.argsort(indices[:, 1], kind="stable"), ::-1])
        counts = (len(a), len(b))
        if len(rows) != counts[turned] or (indices < 0).any() or (indices >= counts).any():
            raise BadData(
                f"{self.path} matches {first} and {second} by other features than these ({counts[0]} and {counts[1]}); "
                "give the features file that they were matched with."
            )
        apart = a.descriptors[indices[:, 0]] - b.descriptors[indices[:, 1]]
        return Matches(indices, np.linalg.norm(apart, axis=1).astype(np.float32))

    def _rows(self, first: str, second: str) -> Array:
        """(N,) rows of the second photo, NO_MATCH where there is none."""
        group = self._groups[first, second]
        try:
            with open_features(self.path) as file:
                rows = np.asarray(file[f"{group}/matches0"])
        except BROKEN as error:
            raise BadData(f"{self.path} is broken at {group} ({type(error).__name__}); match again.") from None
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise BadData(f"{self.path} has matches0 of {group} of a wrong shape or type: {rows.shape} {rows.dtype}.")
        return rows.astype(np.int64)


def read_pairs(path: Path) -> list[Pair]:
    """Read hloc's layout: two names a line with white space between them; empty lines and those after # are skipped."""
    if not path.exists():
        raise DataNotFound(f"no file {path}; write two names of photos on each line.")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (UnicodeDecodeError, OSError):
        raise BadInput(f"{path} is not a text file; write two names of photos on each line.") from None
    pairs = []
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise BadInput(f"line {number} of {path} is {line!r}; write two names of photos.")
        pairs.append((words[0], words[1]))
    return pairs


def flat_name(name: str) -> str:
    """Return a photo's name in hloc's groups, where a/b.jpg becomes a-b.jpg."""
    return name.replace("/", "-")


def group_name(first: str, second: str) -> str:
    """Return the group of a pair."""
    return f"{flat_name(first)}/{flat_name(second)}"


def write_pair(file: Any, first: str, second: str, matches: Matches, count: int) -> None:
    """Write a pair into an open file. count: features of the first photo."""
    group = file.create_group(group_name(first, second))
    for key, column in columns(matches, count).items():
        group[key] = column


def columns(matches: Matches, count: int) -> dict[str, Array]:
    """Return the columns of a pair's group. Scores fall from 1 to 0 as distances grow from 0 to 2: (1 + cosine) / 2."""
    fits = matches.indices[:, 1].max(initial=0) < 2**15  # hloc itself writes int16, whatever the rows
    rows = np.full(count, NO_MATCH, np.int16 if fits else np.int32)
    scores = np.zeros(count, np.float16)
    rows[matches.indices[:, 0]] = matches.indices[:, 1]
    scores[matches.indices[:, 0]] = 1 - np.asarray(matches.distances) ** 2 / 4
    return {"matches0": rows, "matching_scores0": scores}


def _pairs(file: Any, group: str, flat: dict[str, str]) -> Iterator[tuple[Pair, str]]:
    """Pairs below a group at the root, and their paths: first/second, or first_second as hloc wrote until 2021."""
    if "matches0" in file[group]:
        cuts = (k for k, letter in enumerate(group) if letter == "_")
        halves = ((group[:k], group[k + 1 :]) for k in cuts)
        yield from (((flat[a], flat[b]), group) for a, b in halves if a in flat and b in flat)
    elif group in flat:
        others = (name for name in file[group] if name in flat and "matches0" in file[group][name])
        yield from (((flat[group], flat[name]), f"{group}/{name}") for name in others)
