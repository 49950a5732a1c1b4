"""The vectors of all photos in a features file or a collection.

Those of a collection are made by a cluster, a shard a task, and kept:
COLLECTION/vectors/learnt.npz     how descriptors become a vector, learnt from the first photos there were
COLLECTION/vectors/00000.npy      the vectors of a shard's photos, in its order
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from ..errors import BadData, BadInput
from ..features.collection import INDEX, is_collection, read_index
from ..features.hloc_file import h5_names, read_h5, unit_features
from ..runtime.arrays import read_npz
from ..runtime.files import atomic_write, make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.pool import Batch, Failed, Pool, run_batches
from ..runtime.processes import one_by_one
from ..types import Array, Progress, silent
from .retrieval import PhotoVectors, learn_vectors

SHARD_SECONDS = 3600.0


def vectors_of(features: Path, cluster: Pool, progress: Progress = silent) -> tuple[list[str], Array]:
    """The photos, and unit rows (V, n)."""
    if not is_collection(features):
        names = _enough(features, h5_names(features))
        return names, learn_vectors(names, partial(_descriptors, features), progress)[1]
    with exclusive_lock(
        features
    ):  # as `hynet extract` is: vectors of photos that change meanwhile would be of the old ones
        make_folder(features / "vectors")
        return _of_collection(features, cluster, progress)


def _of_collection(features: Path, cluster: Pool, progress: Progress) -> tuple[list[str], Array]:
    shards = _photos_by_shard(features)
    names = [name for photos in shards.values() for name in photos]
    if not (features / "vectors" / "learnt.npz").exists():
        progress(0, len(names), "learning the vectors")
        learnt = PhotoVectors.learn(_enough(features, names), partial(_descriptors, features))
        with atomic_write(features / "vectors" / "learnt.npz") as temporary:
            np.savez(temporary, words=learnt.words, mean=learnt.mean, directions=learnt.directions)
    missing = iter([shard for shard in shards if not _file(features, shard).exists()])

    def source() -> Batch | None:
        shard = next(missing, None)
        return (
            None
            if shard is None
            else Batch(f"{__name__}:describe_shards", features.absolute(), (shard,), SHARD_SECONDS)
        )

    finished = sum(len(photos) for shard, photos in shards.items() if _file(features, shard).exists())
    for batch, result in run_batches(cluster, source):
        if isinstance(result, Failed):
            raise BadInput(f"the vectors of {features / batch.items[0]} could not be made: {result.why}")
        finished += len(shards[batch.items[0]])
        progress(finished, len(names), "photo vectors")
    return names, _joined(features, shards)


def describe_shards(features: Path, shards: Sequence[str]) -> None:
    """In a worker: the vectors of each shard's photos into a file."""
    file = features / "vectors" / "learnt.npz"
    learnt = _learnt(file, file.stat().st_mtime_ns)
    for shard in one_by_one(shards):
        rows_of = read_index((features / shard).with_suffix(".parquet"), ["photo", "status"])
        names = [name for name, status in zip(*rows_of.values(), strict=True) if status == "done"]
        rows = np.stack([learnt(_descriptors(features, name)) for name in names])
        with atomic_write(_file(features, shard)) as temporary:
            np.save(temporary, rows)


def _enough(features: Path, names: list[str]) -> list[str]:
    if len(names) < 2:
        raise BadInput(f"{features} holds {len(names)} photos; pairs need two.")
    return names


def _descriptors(features: Path, name: str) -> Array:
    return unit_features(read_h5(features, name)).descriptors


@lru_cache(maxsize=1)
def _learnt(file: Path, written: int) -> PhotoVectors:
    """written: when, since a worker may outlive a file of that name."""
    return PhotoVectors(**read_npz(file))


def _photos_by_shard(features: Path) -> dict[str, list[str]]:
    """Only those that have features."""
    columns = read_index(features / INDEX, ["photo", "shard", "status"])
    shards: dict[str, list[str]] = {}
    for photo, shard, status in zip(*columns.values(), strict=True):
        if status == "done":
            shards.setdefault(shard, []).append(photo)
    return shards


def _file(features: Path, shard: str) -> Path:
    return features / "vectors" / f"{Path(shard).stem}.npy"


def _joined(features: Path, shards: dict[str, list[str]]) -> Array:
    total = sum(map(len, shards.values()))
    joined: Array | None = None
    start = 0
    for shard, photos in shards.items():
        rows = np.load(_file(features, shard), mmap_mode="r")
        if len(rows) != len(photos):
            raise BadData(f"{_file(features, shard)} is of another collection; delete {features / 'vectors'}.")
        if joined is None:
            joined = np.empty((total, rows.shape[1]), np.float32)
        joined[start : start + len(rows)] = rows
        start += len(rows)
    assert joined is not None
    return joined
