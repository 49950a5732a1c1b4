"""Pairs of photos of a collection to match: those most similar by one vector a photo; and how many that misses.

Vectors of a collection are made by a cluster, a shard a task, and kept:
COLLECTION/vectors/learnt.npz     how descriptors become a vector, learnt from the first photos there were
COLLECTION/vectors/00000.npy      the vectors of a shard's photos, in its order
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path

import numpy as np

from ..errors import BadData, BadInput
from ..features.collection import INDEX, is_collection, read_index, stamp
from ..features.hloc_file import are_features, h5_names, read_h5, unit_features
from ..matching.consensus import Consensus
from ..matching.verification import verify
from ..runtime.arrays import read_npz
from ..runtime.files import atomic_write, make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.pool import Batch, Failed, Pool, run_batches
from ..runtime.processes import one_by_one
from ..types import Array, Progress, silent
from .matches import read_again
from .pairs import VERIFIED, unique_pairs
from .retrieval import EXACT, PhotoVectors, learn_vectors, most_similar, query_expansion

DUPLICATE = 0.8  # similarity of two files of one photo: docs/scale.md says what these were chosen by
ALONE = 0.15  # similarity that photos of one place exceed
FEW = 50  # photos; of fewer, whose mean is much of each of them, none is called alone
RUN = 25  # photos one after the other in the list, which are more often of one place
TOGETHER = 64  # pairs in a batch
PAIR_SECONDS, SHARD_SECONDS = 30.0, 3600.0


@dataclass(frozen=True)
class Recall:
    """Counts of pairs that share a geometry, and of those among them that were chosen."""

    photos: int  # that were matched exhaustively
    verified: int  # pairs of them with enough inliers
    found: int  # of those, chosen


@dataclass(frozen=True)
class FoundPairs:
    """Pairs of rows of the names, and what stands out among the photos."""

    names: Sequence[str]
    pairs: Array  # (P, 2)
    duplicates: Array  # (n, 2) nearly the same photo twice
    alone: Array  # (m,) photos that no other is like
    recall: Recall | None = None


def find_pairs(
    features: str | Path,
    neighbours: int,
    *,
    cluster: Pool,
    check: int = 0,
    exact: bool | None = None,
    progress: Progress = silent,
) -> FoundPairs:
    """Pair each photo of a features file or collection with the most similar ones.

    check: match all pairs of so many photos, to tell the recall; 0: none.
    exact: compare all vectors with all, whatever their number; None: up to 20,000 photos.
    """
    features = Path(features)
    if neighbours < 1 or check < 0:
        raise BadInput(
            f"the neighbours must be at least 1 and the photos to check not negative: {neighbours}, {check}."
        )
    if not are_features(features):
        raise BadInput(f"no collection and no features file {features}; `hynet extract` makes them.")
    _check_names(h5_names(features))
    names, vectors = vectors_of(features, cluster, progress)
    rows, similar = most_similar(vectors, neighbours, exact=exact, progress=progress)
    if exact or len(names) <= EXACT:
        pairs = unique_pairs(query_expansion(vectors, neighbours, exact=exact, progress=progress)[0])
    else:
        pairs = unique_pairs(rows)
    duplicates = unique_pairs(np.where(similar >= DUPLICATE, rows, -1))
    alone = np.flatnonzero(similar[:, 0] < ALONE) if len(names) >= FEW else np.zeros(0, np.int64)
    recall = _recall(features, names, pairs, check, cluster, progress) if check else None
    return FoundPairs(names, pairs, duplicates, alone, recall)


def write_pairs(out: Path, found: FoundPairs) -> None:
    """Write two names a line, in hloc's layout."""
    with atomic_write(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{found.names[first]} {found.names[second]}\n" for first, second in found.pairs)


def _check_names(names: Sequence[str]) -> None:
    """Refuse names that cannot be written, before the long work."""
    odd = next((name for name in names if name.split() != [name]), None)
    if odd is not None:
        raise BadInput(f"the photo {odd!r} has white space in its name, which a file of pairs cannot hold; rename it.")


def _recall(
    features: Path, names: Sequence[str], pairs: Array, check: int, cluster: Pool, progress: Progress
) -> Recall:
    chosen = _in_runs(len(names), check)
    tried = list(combinations(chosen, 2))
    known = set(map(tuple, pairs[np.isin(pairs, chosen).all(1)].tolist()))
    batches = (
        Batch(
            f"{__name__}:count_inliers",
            features.absolute(),
            tuple((names[a], names[b], a, b) for a, b in tried[start : start + TOGETHER]),
            PAIR_SECONDS,
        )
        for start in range(0, len(tried), TOGETHER)
    )
    verified = found = finished = 0
    for batch, result in run_batches(cluster, lambda: next(batches, None)):
        if isinstance(result, Failed):
            continue
        for (_, _, a, b), inliers in zip(batch.items, result, strict=True):
            verified += inliers >= VERIFIED
            found += inliers >= VERIFIED and (a, b) in known
        finished += len(batch.items)
        progress(finished, len(tried), "verifying")
    return Recall(len(chosen), verified, found)


def _in_runs(count: int, check: int) -> list[int]:
    """Choose so many places, in runs evenly through all."""
    if check >= count:
        return list(range(count))
    starts = np.linspace(0, count - min(RUN, check), max(1, check // RUN)).astype(int)
    return sorted({int(start) + k for start in starts for k in range(min(RUN, check))})


def count_inliers(features: Path, pairs: Sequence[tuple[str, str, int, int]]) -> list[int]:
    """Count the matches of each pair that agree on one epipolar geometry; called in a worker."""
    counts, seen = [], stamp(features)
    for first, second, *_ in one_by_one(pairs):
        a, b = read_again(features, seen, first), read_again(features, seen, second)
        found = Consensus()(a, b)
        counts.append(len(verify(a, b, found, "fundamental")) if len(found) >= VERIFIED else 0)
    return counts


# --- Vectors of all photos ---


def vectors_of(features: Path, cluster: Pool, progress: Progress = silent) -> tuple[list[str], Array]:
    """Return the photos of a features file or collection, and unit rows (V, n)."""
    if not is_collection(features):
        names = _enough(features, h5_names(features))
        return names, learn_vectors(names, partial(_descriptors, features), progress)[1]
    with exclusive_lock(features):  # as `hynet extract` is: vectors of photos that change meanwhile would be outdated
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
    missing = [shard for shard in shards if not _file(features, shard).exists()]
    batches = (Batch(f"{__name__}:describe_shards", features.absolute(), (each,), SHARD_SECONDS) for each in missing)
    finished = len(names) - sum(len(shards[shard]) for shard in missing)
    for batch, result in run_batches(cluster, lambda: next(batches, None)):
        if isinstance(result, Failed):
            raise BadInput(f"the vectors of {features / batch.items[0]} could not be made: {result.why}")
        finished += len(shards[batch.items[0]])
        progress(finished, len(names), "photo vectors")
    return names, _joined(features, shards)


def describe_shards(features: Path, shards: Sequence[str]) -> None:
    """Write the vectors of each shard's photos into a file; called in a worker."""
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
    """Read the learnt vectors, from memory if the file is the one written then; a worker may outlive a file."""
    return PhotoVectors(**read_npz(file))


def _photos_by_shard(features: Path) -> dict[str, list[str]]:
    """Return the photos that have features, by shard."""
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
