"""Pairs of photos -> matches and the geometries they agree on, in COLMAP's database. Pairs that are there are kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from ..colmap import Store, Verifiable
from ..errors import BadInput, need
from ..extractors.hloc_file import read_h5, unit_features
from ..matchers import Matcher
from ..matchers.hloc_matches import MatchesFile
from ..types import Features, Matches, Progress, silent

Key = TypeVar("Key")
Value = TypeVar("Value")

NEAR = 32  # photos: pairs are matched in squares of so many, so that no more than twice as many are in memory


@dataclass(frozen=True)
class MatchedView:
    """One photo, ready to be matched and verified."""

    features: Features
    seen: Verifiable


def match_all(
    store: Store,
    file: Path,
    pairs: Sequence[tuple[str, str]],
    *,
    matcher: Matcher,
    threads: int,
    matched: MatchesFile | None = None,
    progress: Progress = silent,
) -> None:
    """Matches of all pairs, verified by COLMAP; `file` holds the features.

    matched: matches that were found before, in place of our own.
    """
    done = store.pairs()
    square = {name: k // NEAR for k, name in enumerate(store.names)}
    todo = sorted((pair for pair in pairs if pair not in done), key=lambda pair: (square[pair[0]], square[pair[1]]))
    view = lru_cache(maxsize=2 * NEAR)(lambda name: _view(store, file, name))

    def work(pair: tuple[str, str], first: MatchedView, second: MatchedView) -> tuple[Matches, Any]:
        if matched is None:
            found = matcher(first.features, second.features)
        else:
            found = matched.read(*pair, first.features, second.features)
        return found, store.verify(first.seen, second.seen, found.indices)

    pieces = ((pair, partial(work, pair, view(pair[0]), view(pair[1]))) for pair in todo)
    with _one_thread_a_product():
        for count, (pair, (matches, geometry)) in enumerate(_at_once(pieces, threads), len(pairs) - len(todo) + 1):
            progress(count, len(pairs), "matching")
            store.add_pair(*pair, matches.indices, geometry)


def _view(store: Store, file: Path, name: str) -> MatchedView:
    features, seen = read_h5(file, name), store.verifiable(name)
    if len(features) != len(seen.points):
        raise BadInput(f"{file} has changed since {name} was read from it; choose another folder for the model.")
    return MatchedView(unit_features(features), seen)


def _one_thread_a_product() -> AbstractContextManager[Any]:
    """Two pairs at once on two cores take half the time of one after the other with two threads each."""
    return need("threadpoolctl", "sfm", "reconstruction").threadpool_limits(1, "blas")


def _at_once(work: Iterable[tuple[Key, Callable[[], Value]]], threads: int) -> Iterator[tuple[Key, Value]]:
    """What each piece of work gives, in their order; never many ahead of the reader."""
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
