"""Which photos of a collection to match: those most alike by one vector a photo; and how many that misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np

from ..errors import BadInput
from ..features.collection import stamp
from ..features.hloc_file import are_features, h5_names, read_h5, unit_features
from ..matching.consensus import Consensus
from ..matching.verification import verify
from ..runtime.files import atomic_write
from ..runtime.pool import Batch, Failed, Pool, run_batches
from ..runtime.processes import one_by_one
from ..types import Array, Features, Progress, silent
from .neighbours import EXACT, most_similar, query_expansion
from .pairs import unique_pairs
from .photo_vectors import vectors_of

DUPLICATE = 0.8  # similarity of two files of one photo: docs/scale.md says what these were chosen by
ALONE = 0.15  # similarity that photos of one place exceed
FEW = 50  # photos; of fewer, whose mean is much of each of them, nobody is called alone
VERIFIED = 15  # inliers, COLMAP's own limit
RUN = 25  # photos one after the other in the list, which are more often of one place
TOGETHER = 64  # pairs in a batch
PAIR_SECONDS = 30.0


@dataclass(frozen=True)
class Recall:
    """How many of the pairs that share a geometry are among those chosen."""

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
    """Each photo of a features file or collection with the so many that look most alike.

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
    """Two names a line, as hloc has it."""
    with atomic_write(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{found.names[first]} {found.names[second]}\n" for first, second in found.pairs)


def _check_names(names: Sequence[str]) -> None:
    """Whether they can be written, before the long work."""
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
    """So many places, in runs evenly through all."""
    if check >= count:
        return list(range(count))
    starts = np.linspace(0, count - min(RUN, check), max(1, check // RUN)).astype(int)
    return sorted({int(start) + k for start in starts for k in range(min(RUN, check))})


def count_inliers(features: Path, pairs: Sequence[tuple[str, str, int, int]]) -> list[int]:
    """In a worker: of each pair, matches that agree on one epipolar geometry."""
    counts, seen = [], stamp(features)
    for first, second, *_ in one_by_one(pairs):
        a, b = _read(features, seen, first), _read(features, seen, second)
        found = Consensus()(a, b)
        counts.append(len(verify(a, b, found, "fundamental")) if len(found) >= VERIFIED else 0)
    return counts


@lru_cache(maxsize=64)
def _read(features: Path, seen: tuple[int, ...], name: str) -> Features:
    """seen: the stamp of the features, since a worker may outlive them."""
    return unit_features(read_h5(features, name))
