"""Counts of keypoints that reached each stage, per photo and pair: detected, matched, verified, triangulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...sfm.colmap.tables import Tables, read_tables
from ...types import Array

STAGES = ("detected", "matched", "verified", "triangulated")

# photo -> 3-D point of each keypoint, -1 for none: all that the doctor asks of a model
Observations = Mapping[str, Array]


@dataclass(frozen=True)
class PhotoCounts:
    """Keypoints of one photo that got so far; None where no table tells."""

    name: str
    detected: int
    matched: int | None  # with any photo
    verified: int | None  # in a match that agrees with its pair's geometry
    triangulated: int  # seen as a 3-D point of the model
    registered: bool
    seen: int = 0  # verified against a 3-D point of the model: what its pose could be computed from


@dataclass(frozen=True)
class PairCounts:
    """Matches between two photos that got so far; None where no table tells."""

    first: int  # row of the photo
    second: int
    matched: int | None
    verified: int | None
    triangulated: int  # verified, and seen as one 3-D point; 3-D points that both see where there is no database
    geometry: str = ""


@dataclass(frozen=True)
class StageCounts:
    """Everything that was counted. Pairs that were compared without a match are there, with 0."""

    photos: tuple[PhotoCounts, ...]
    pairs: tuple[PairCounts, ...]
    points: int  # 3-D points of the model

    def totals(self) -> dict[str, int | None]:
        """Keypoints of all photos that got so far; None where no table tells."""
        counts = {stage: [getattr(photo, stage) for photo in self.photos] for stage in STAGES}
        known = {stage: [count for count in of_stage if count is not None] for stage, of_stage in counts.items()}
        return {stage: sum(of_stage) if of_stage else None for stage, of_stage in known.items()}

    @property
    def registered(self) -> int:
        return sum(photo.registered for photo in self.photos)


def count(database: Path | None, observations: Observations) -> StageCounts:
    """One funnel of a database and a model, or of what there is of them."""
    everything = np.concatenate([np.zeros(0, np.int64), *observations.values()])
    points = len(np.unique(everything[everything >= 0]))
    if database is None:
        return StageCounts(_of_model(observations), tuple(_seen_together(observations)), points)
    with read_tables(database) as tables:
        photos, pairs = _counted(tables, observations)
    return StageCounts(photos, pairs, points)


def _counted(database: Tables, observations: Observations) -> tuple[tuple[PhotoCounts, ...], tuple[PairCounts, ...]]:
    names, keypoints = database.names(), database.keypoints()  # by image number, as all below
    order = sorted(names, key=lambda image: names[image])
    row = {image: number for number, image in enumerate(order)}
    points = {image: _points(observations.get(name), keypoints[image]) for image, name in names.items()}
    matched, verified, seen = ({image: np.zeros(keypoints[image], bool) for image in names} for _ in range(3))
    pairs: dict[tuple[int, int], PairCounts] = {}

    for found in database.matches():
        a, b = found.matches.T
        matched[found.first][a] = matched[found.second][b] = True
        pairs[found.first, found.second] = PairCounts(row[found.first], row[found.second], len(a), 0, 0)
    for found in database.two_view_geometries():
        a, b = found.matches.T
        matched[found.first][a] = matched[found.second][b] = True
        verified[found.first][a] = verified[found.second][b] = True
        point_a, point_b = points[found.first][a], points[found.second][b]
        seen[found.first][a[point_b >= 0]] = True
        seen[found.second][b[point_a >= 0]] = True
        pair = pairs.get((found.first, found.second), PairCounts(row[found.first], row[found.second], None, 0, 0))
        pairs[found.first, found.second] = replace(
            pair,
            verified=len(a),
            triangulated=int(((point_a == point_b) & (point_a >= 0)).sum()),
            geometry=found.geometry,
        )

    photos = [
        PhotoCounts(
            name=names[image],
            detected=keypoints[image],
            matched=int(matched[image].sum()),
            verified=int(verified[image].sum()),
            triangulated=int((observations.get(names[image], points[image]) >= 0).sum()),
            registered=names[image] in observations,
            seen=int(seen[image].sum()),
        )
        for image in order
    ]
    known = set(names.values())
    strangers = _of_model({name: of_photo for name, of_photo in observations.items() if name not in known})
    return (*photos, *strangers), tuple(sorted(pairs.values(), key=lambda pair: (pair.first, pair.second)))


def _of_model(observations: Observations) -> tuple[PhotoCounts, ...]:
    """Photos that no database knows of."""
    return tuple(
        PhotoCounts(name, len(points), None, None, int((points >= 0).sum()), registered=True)
        for name, points in sorted(observations.items())
    )


def _points(points: Array | None, keypoints: int) -> Array:
    """(N,) 3-D points by the database's keypoints; none where the model was made from other keypoints."""
    return points if points is not None and len(points) == keypoints else np.full(keypoints, -1, np.int64)


def _seen_together(observations: Observations, chunk: int = 4096) -> Iterator[PairCounts]:
    """Pairs of photos that see the same 3-D points, from the model alone; the points a chunk at a time."""
    seen = [np.unique(points[points >= 0]) for _, points in sorted(observations.items())]
    everything = np.unique(np.concatenate([np.zeros(0, np.int64), *seen]))
    together = np.zeros((len(seen), len(seen)), np.int64)
    for start in range(0, len(everything), chunk):
        some = everything[start : start + chunk]
        sees = np.stack([np.isin(some, points, assume_unique=True) for points in seen]).astype(np.float32)
        together += np.rint(sees @ sees.T).astype(np.int64)
    for first, second in zip(*np.nonzero(np.triu(together, 1)), strict=True):
        yield PairCounts(int(first), int(second), None, None, int(together[first, second]))
