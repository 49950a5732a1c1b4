"""Reading any COLMAP database by SQLite alone and read-only: COLMAP itself would change one of an older version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import BadData
from ...runtime import fingerprints
from ...types import Array, Pair
from .cameras import Camera
from .package import pycolmap

LARGEST_ID = 2147483647  # COLMAP's number of a pair is first * LARGEST_ID + second
# What columns hold; all others hold whole numbers
KINDS: dict[str, Any] = {"name": str, "params": bytes, "data": bytes | None, "length(data)": int | None}
# COLMAP's TwoViewGeometry::ConfigurationType, in its order
GEOMETRIES = (
    "undefined",
    "degenerate",
    "calibrated",
    "uncalibrated",
    "planar",
    "panoramic",
    "planar or panoramic",
    "watermark",
    "multiple",
    "calibrated rig",
)


@dataclass(frozen=True)
class Funnel:
    """Counts of what each step left. The first photo of a pair was added to the database before the second."""

    keypoints: Mapping[str, int]  # photo -> how many
    matches: Mapping[Pair, int]  # pair -> raw matches; no entry where it was not tried
    inliers: Mapping[Pair, int]  # pair -> verified matches, 0 where there are none; the same entries


@dataclass(frozen=True)
class Matched:
    """One row of the matches or of the two-view geometries."""

    first: int  # image number
    second: int
    matches: Array  # (K, 2) int64 keypoints of the first and of the second
    geometry: str


class Tables:
    """An open database. Tables that an old or foreign one lacks are empty."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def names(self) -> dict[int, str]:
        """Names by image number."""
        return dict(self._rows("images", "image_id, name"))

    def cameras(self) -> dict[str, tuple[int, Camera]]:
        """Number of the camera, and the camera, by name of a photo."""
        model_names = pycolmap().CameraModelId
        columns = "camera_id, model, width, height, params, prior_focal_length"
        found = {}
        for number, model, width, height, data, prior in self._rows("cameras", columns):
            try:
                parameters = tuple(np.frombuffer(data, np.float64).tolist())
                found[number] = Camera(model_names(model).name, (width, height), parameters, bool(prior))
            except ValueError as error:
                raise BadData(f"camera {number} of the database is broken: {error}.") from None
        used = self._rows("images", "name, camera_id")
        return {name: (number, found[number]) for name, number in used if number in found}

    def keypoints(self) -> dict[int, int]:
        """Number of keypoints by image number."""
        counts = dict.fromkeys(self.names(), 0)
        for image, rows, columns, size in self._rows("keypoints", "image_id, rows, cols, length(data)"):
            if (size or 0) != 4 * rows * columns:
                raise BadData(f"the database is broken: it counts {rows} keypoints in {size or 0} bytes.")
            counts[image] = rows
        return counts

    def keypoint_digests(self) -> dict[str, str]:
        """Fingerprints by name, which change when any keypoint of the photo moves."""
        names = self.names()
        return {
            names[image]: fingerprints.arrays(_numbers(data, rows, columns, np.float32)[:, :2])
            for image, rows, columns, data in self._rows("keypoints", "image_id, rows, cols, data")
            if image in names and rows
        }

    def match_counts(self) -> dict[tuple[int, int], int]:
        """Number of matches by image numbers of a pair, without reading them."""
        return self._counts("matches")

    def inlier_counts(self) -> dict[tuple[int, int], int]:
        """Number of verified matches by image numbers of a pair, without reading them."""
        return self._counts("two_view_geometries")

    def matches(self) -> Iterator[Matched]:
        """All pairs that were compared, those without a match among them."""
        return self._pairs("matches", "0")

    def two_view_geometries(self) -> Iterator[Matched]:
        """All pairs that were verified, with their inliers."""
        return self._pairs("two_view_geometries", "config")

    def _counts(self, table: str) -> dict[tuple[int, int], int]:
        names = self.names()
        pairs = {divmod(number, LARGEST_ID): rows for number, rows in self._rows(table, "pair_id, rows")}
        return {(a, b): rows for (a, b), rows in pairs.items() if a in names and b in names}

    def _pairs(self, table: str, geometry: str) -> Iterator[Matched]:
        keypoints, names = self.keypoints(), self.names()
        for number, rows, columns, data, kind in self._rows(table, f"pair_id, rows, cols, data, {geometry}"):
            first, second = divmod(number, LARGEST_ID)
            if first not in names or second not in names:
                continue  # a photo that was deleted since
            if rows and columns != 2:
                raise BadData(f"the {table} of the database have {columns} columns, not two.")
            matches = _numbers(data, rows, columns, np.uint32).astype(np.int64) if rows else np.zeros((0, 2), np.int64)
            if len(matches) and (matches.max(0) >= [keypoints[first], keypoints[second]]).any():
                raise BadData(f"the {table} of the database name keypoints that it does not hold.")
            yield Matched(first, second, matches, GEOMETRIES[kind] if 0 <= kind < len(GEOMETRIES) else str(kind))

    def _rows(self, table: str, columns: str) -> Iterator[tuple]:
        kinds = [KINDS.get(column, int) for column in columns.split(", ")]
        for row in self._connection.execute(f"SELECT {columns} FROM {table}") if table in self.present else ():
            # SQLite keeps any value in any column.
            if not all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True)):
                raise BadData(f"the table {table} of the database holds values of the wrong type: {row[:3]}.")
            if any(value < 0 for value in row if isinstance(value, int)):
                raise BadData(f"the table {table} of the database holds negative counts: {row[:3]}.")
            yield row


@contextmanager
def read_tables(path: Path) -> Iterator[Tables]:
    """Open a database, or raise a sentence that says why it is none."""
    if not path.is_file():
        raise BadData(f"no database at {path}; give a folder with a database.db, or name one with --database.")
    try:
        with closing(_connected(path)) as connection:
            tables = Tables(connection)
            if "images" not in tables.present:
                raise BadData(f"{path} is not a COLMAP database: it has no table of images.")
            yield tables
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise BadData(f"{path} is not a COLMAP database that can be read: {error}.") from None


def read_funnel(database: str | Path) -> Funnel:
    """Count what each step left, of a finished or unfinished run. Needs no pycolmap, which leaves out empty pairs."""
    with read_tables(Path(database)) as tables:
        names = tables.names()
        keypoints = tables.keypoints()
        matches = {pair: count for pair, count in tables.match_counts().items() if names.keys() >= set(pair)}
        inliers = tables.inlier_counts()
    return Funnel(
        {name: keypoints.get(number, 0) for number, name in names.items()},
        {(names[a], names[b]): count for (a, b), count in matches.items()},
        {(names[a], names[b]): inliers.get((a, b), 0) for a, b in matches},
    )


def check_database(path: Path) -> None:
    """Check a database before COLMAP opens it, which believes what it reads: a wrong count ends the process."""
    with read_tables(path) as tables:
        for _ in tables.matches():
            pass  # read, and so checked
        without = set(tables.names().values()) - tables.cameras().keys()
    if without:
        raise BadData(f"{path} holds no camera of {min(without)}; make it again.")


def _connected(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True)
        connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone()
        return connection
    except sqlite3.OperationalError:  # a write-ahead log in a folder where we may not write
        return sqlite3.connect(f"{address}&immutable=1", uri=True)


def _numbers(data: bytes | None, rows: int, columns: int, kind: type[np.float32] | type[np.uint32]) -> Array:
    """Read numbers (rows, columns)."""
    data = data or b""
    if len(data) != 4 * rows * columns:
        raise BadData(f"the database is broken: {rows} x {columns} numbers were to be in {len(data)} bytes.")
    return np.frombuffer(data, kind).reshape(rows, columns)
