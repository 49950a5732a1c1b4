"""Many features files in hloc's layout that are read as one: a folder of shards, and an index of which photo is where.

COLLECTION/index.parquet      photo, shard, rows, fingerprint, status, error: one row a photo, in the order of the list
COLLECTION/shards/00000.h5    the features of (at most) 256 photos; 00000.parquet beside it are its rows of the index
COLLECTION/settings.json      how they were made
COLLECTION/.parts/            what is done of shards that are not finished, or newer than they
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import BadData, need
from ..runtime.files import atomic_write

INDEX = "index.parquet"
SHARD = 256  # photos


@dataclass(frozen=True)
class IndexRow:
    """One photo in the index."""

    photo: str
    shard: str  # below the collection
    rows: int = 0  # keypoints
    fingerprint: str = ""
    status: str = "waiting"  # done, unreadable, quarantined
    error: str = ""


@dataclass(frozen=True)
class Collection:
    """Index of a collection: the shard of each photo. No features are in memory."""

    folder: Path
    shards: Mapping[str, str]  # photo -> shard, of those that have features
    fingerprints: Mapping[str, str]

    def shard(self, name: str) -> Path:
        if name not in self.shards:
            raise BadData(f"{self.folder} holds no features of {name}.")
        return self.folder / self.shards[name]


def is_collection(path: str | Path) -> bool:
    return Path(path, INDEX).is_file()


def known_by(path: str | Path) -> list[Path]:
    """The files whose content says what features are there: a features file itself, or the index of a collection."""
    return [Path(path, INDEX), Path(path, "settings.json")] if is_collection(path) else [Path(path)]


def stamp(path: str | Path) -> tuple[int, ...]:
    """Changes whenever features there are written again; for whoever keeps some of them in memory."""
    status = known_by(path)[0].stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def open_collection(folder: str | Path) -> Collection:
    """Read the index of a collection, again only when it has changed."""
    return _opened(Path(folder) / INDEX, stamp(folder))


@lru_cache(maxsize=4)
def _opened(index: Path, seen: tuple[int, ...]) -> Collection:
    columns = read_index(index, ["photo", "shard", "fingerprint", "status"])
    rows = [row for row in zip(*columns.values(), strict=True) if row[3] == "done"]
    if not rows:
        raise BadData(f"{index.parent} holds no features yet; run `hynet extract` again to go on.")
    shards = {shard: shard for shard in columns["shard"]}  # one string for all photos of a shard
    return Collection(
        index.parent, {photo: shards[shard] for photo, shard, *_ in rows}, {row[0]: row[2] for row in rows}
    )


def read_index(path: Path, columns: list[str] | None = None) -> dict[str, list[Any]]:
    """The columns of an index, or of the rows beside a shard."""
    table = _read_table(path, columns)
    return {name: table[name].to_pylist() for name in table.column_names}


def write_rows(path: Path, rows: Iterable[IndexRow]) -> None:
    """The rows of one shard."""
    with atomic_write(path) as temporary:
        need("pyarrow.parquet", "cluster", "a collection").write_table(_table(rows), temporary)


def write_index(folder: Path, shards: Mapping[str, Iterable[str]]) -> None:
    """The rows of all shards, those of unfinished ones as waiting; never all in memory.

    shards: name -> its photos.
    """
    parquet = need("pyarrow.parquet", "cluster", "a collection")
    with atomic_write(folder / INDEX) as temporary, parquet.ParquetWriter(temporary, _schema()) as index:
        for shard, names in shards.items():
            rows = (folder / shard).with_suffix(".parquet")
            if (folder / shard).exists():
                index.write_table(_read_table(rows))
            else:
                index.write_table(_table(IndexRow(name, shard) for name in names))


def _read_table(path: Path, columns: list[str] | None = None) -> Any:
    try:
        return need("pyarrow.parquet", "cluster", "a collection").read_table(path, columns=columns)
    except ImportError:
        raise
    except Exception as error:  # pyarrow has its own
        what = "the index of a collection" if path.name == INDEX else f"what belongs to {path.with_suffix('.h5').name}"
        also = "" if path.name == INDEX else ", and that file"
        raise BadData(f"{path} is not {what} ({type(error).__name__}); delete it{also}, and extract again.") from None


def _table(rows: Iterable[IndexRow]) -> Any:
    return need("pyarrow", "cluster", "a collection").Table.from_pylist([vars(row) for row in rows], _schema())


def _schema() -> Any:
    pyarrow = need("pyarrow", "cluster", "a collection")
    kinds = {"rows": pyarrow.int32()}
    return pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in IndexRow.__dataclass_fields__])
