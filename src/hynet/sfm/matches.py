"""Matching pairs of photos into COLMAP's database, with their geometries. Pairs that are there are kept."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import BadInput, need
from ..features.collection import stamp
from ..features.hloc_file import read_h5, unit_features
from ..matching import Matcher
from ..matching.hloc_matches import MatchesFile
from ..runtime.pool import Batch, Failed, Pool, run_batches
from ..runtime.processes import one_by_one
from ..types import Array, Features, Matches, Progress, silent
from .colmap import Store, Verifiable, pycolmap, verifiable, verify_pair

Key = TypeVar("Key")
Value = TypeVar("Value")

_LOG = logging.getLogger(__name__)

TOGETHER = 64  # pairs in a batch: what a worker that is killed loses
PAIR_SECONDS = 60.0  # that a pair may take
NEAR = 32  # photos: pairs are matched in squares of so many, so that no more than twice as many are in memory


@dataclass(frozen=True)
class MatchedView:
    """One photo, ready to be matched and verified."""

    features: Features
    seen: Verifiable


@dataclass(frozen=True)
class MatchTask:
    """Context of a batch of pairs."""

    features: Path
    matcher: Matcher


@dataclass(frozen=True)
class CameraPair:
    """Two photos with their cameras, which are COLMAP's."""

    first: str
    second: str
    camera: Any
    other_camera: Any


def match_all(
    store: Store,
    file: Path,
    pairs: Sequence[tuple[str, str]],
    *,
    matcher: Matcher,
    threads: int,
    matched: MatchesFile | None = None,
    cluster: Pool | None = None,
    progress: Progress = silent,
) -> None:
    """Store matches of all pairs, verified by COLMAP; `file` holds the features.

    matched: matches that were found before, in place of our own.
    cluster: matches and verifies in place of our threads.
    """
    there = store.pairs()
    square = {name: k // NEAR for k, name in enumerate(store.names)}
    todo = sorted((pair for pair in pairs if pair not in there), key=lambda pair: (square[pair[0]], square[pair[1]]))
    if cluster is not None and matched is None:
        by_workers = _by_cluster(cluster, store, file, todo, matcher)
        for count, (pair, indices, geometry) in enumerate(by_workers, len(pairs) - len(todo) + 1):
            store.add_pair(*pair, indices, geometry)
            progress(count, len(pairs), "matching")
        return
    view = lru_cache(maxsize=2 * NEAR)(lambda name: _view(store, file, name))

    def work(pair: tuple[str, str], first: MatchedView, second: MatchedView) -> tuple[Matches, Any]:
        if matched is None:
            found = matcher(first.features, second.features)
        else:
            found = matched.read(*pair, first.features, second.features)
        return found, verify_pair(first.seen, second.seen, found.indices)

    pieces = ((pair, partial(work, pair, view(pair[0]), view(pair[1]))) for pair in todo)
    with _one_thread_a_product():
        for count, (pair, (matches, geometry)) in enumerate(_at_once(pieces, threads), len(pairs) - len(todo) + 1):
            progress(count, len(pairs), "matching")
            store.add_pair(*pair, matches.indices, geometry)


def _by_cluster(
    cluster: Pool, store: Store, file: Path, todo: Sequence[tuple[str, str]], matcher: Matcher
) -> Iterator[tuple[tuple[str, str], Array, Any]]:
    """Yield each pair, its matches and their geometry; a pair that no worker survives has none."""
    cameras = lru_cache(maxsize=8 * NEAR)(lambda name: store.verifiable(name).camera)
    batches = (
        Batch(
            f"{__name__}:match_batch",
            MatchTask(file.absolute(), matcher),
            tuple(CameraPair(*pair, cameras(pair[0]), cameras(pair[1])) for pair in todo[start : start + TOGETHER]),
            PAIR_SECONDS,
        )
        for start in range(0, len(todo), TOGETHER)
    )
    for batch, result in run_batches(cluster, lambda: next(batches, None)):
        if isinstance(result, Failed):
            pair = batch.items[0]
            _LOG.info("%s and %s cannot be matched: %s", pair.first, pair.second, result.why)
            result = [(np.zeros((0, 2), np.uint32), pycolmap().TwoViewGeometry())]
        for pair, (matches, geometry) in zip(batch.items, result, strict=True):
            yield (pair.first, pair.second), matches, geometry


def match_batch(task: MatchTask, pairs: Sequence[CameraPair]) -> list[tuple[Array, Any]]:
    """Return matches (K, 2) uint32 and COLMAP's geometry of each pair; called in a worker."""
    results, seen = [], stamp(task.features)
    for pair in one_by_one(pairs):
        a, b = read_again(task.features, seen, pair.first), read_again(task.features, seen, pair.second)
        found = task.matcher(a, b).indices
        first, second = verifiable(pair.camera, a.keypoints.frames), verifiable(pair.other_camera, b.keypoints.frames)
        results.append((found.astype(np.uint32), verify_pair(first, second, found)))
    return results


@lru_cache(maxsize=2 * NEAR)
def read_again(features: Path, seen: tuple[int, ...], name: str) -> Features:
    """Read features, from memory if they were read before with this stamp; a worker may outlive a file."""
    return unit_features(read_h5(features, name))


def _view(store: Store, file: Path, name: str) -> MatchedView:
    features, seen = read_h5(file, name), store.verifiable(name)
    if len(features) != len(seen.points):
        raise BadInput(f"{file} has changed since {name} was read from it; choose another folder for the model.")
    return MatchedView(unit_features(features), seen)


def _one_thread_a_product() -> AbstractContextManager[Any]:
    """Limit BLAS: two pairs at once on two cores take half the time of one after the other with two threads each."""
    return need("threadpoolctl", "sfm", "reconstruction").threadpool_limits(1, "blas")


def _at_once(work: Iterable[tuple[Key, Callable[[], Value]]], threads: int) -> Iterator[tuple[Key, Value]]:
    """Yield the result of each piece of work, in order; never many ahead of the reader."""
    waiting: deque[tuple[Key, Future[Value]]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for key, piece in work:
            waiting.append((key, pool.submit(piece)))
            if len(waiting) > 2 * threads:
                key, future = waiting.popleft()
                yield key, future.result()
        for key, future in waiting:
            yield key, future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for pairs that are half done
