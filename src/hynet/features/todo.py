"""What is still to be done of a collection, batch by batch: new photos, and those that have changed since."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..errors import BadInput
from ..runtime.pool import Batch, Failed, Pool, run_batches
from ..types import Progress
from .shards import (
    ASSEMBLE,
    EXTRACT,
    RECHECK,
    ListedPhoto,
    Made,
    PartTask,
    Shard,
    drop_parts,
    names_in_parts,
    quarantine,
)

_LOG = logging.getLogger(__name__)

ASSEMBLING = 1800.0  # seconds that a shard may take


@dataclass(frozen=True)
class Listed:
    """The photos of a run, and where they go."""

    out: Path
    shards: Mapping[str, Sequence[str]]  # shard -> its photos, also those that are no longer in the list
    addresses: Mapping[str, str]  # photo -> where it is, of those in the list
    masks: Mapping[str, Path]
    watchdog: float  # seconds that a photo may take

    def parts(self, shard: str) -> Path:
        return self.out.absolute() / ".parts" / Path(shard).stem

    def photos(self, shard: str) -> list[ListedPhoto]:
        """Those in the list."""
        return [
            ListedPhoto(name, self.addresses[name], place, self._mask(name))
            for place, name in enumerate(self.shards[shard])
            if name in self.addresses
        ]

    def _mask(self, name: str) -> str | None:
        return str(self.masks[name].absolute()) if name in self.masks else None

    def count(self, shard: str) -> int:
        return sum(name in self.addresses for name in self.shards[shard])

    def name(self, shard: Shard) -> str:
        return shard.file.relative_to(self.out.absolute()).as_posix()

    def is_begun(self, shard: str) -> bool:
        return (self.out / shard).exists() or self.parts(shard).exists()


@dataclass
class Again:
    """Photos of a shard that are there, but are to be done again."""

    changed: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)  # by bad luck, perhaps, or by too short a time


@dataclass
class _Open:
    """A shard that is worked on."""

    shard: Shard
    waiting: set[str]  # photos
    is_newer: bool  # whether its parts hold what the shard itself does not


def find_changed(cluster: Pool, listed: Listed, progress: Progress) -> dict[str, Again]:
    """Read every photo of which something is there, and compare its content; shard -> what is to be done again."""
    begun = {shard: listed.count(shard) for shard in listed.shards if listed.is_begun(shard)}
    batches = (_recheck(listed, shard) for shard, photos in begun.items() if photos)
    again: dict[str, Again] = {}
    finished = 0
    for batch, result in run_batches(cluster, partial(next, batches, None)):
        finished += len(batch.items)
        progress(finished, sum(begun.values()), "checking")
        if isinstance(result, Failed):
            _LOG.info("%s cannot be checked, and is kept: %s", batch.items[0].name, result.why)
            continue
        found = {
            kind: {photo.name for photo, known in zip(batch.items, result, strict=True) if known == kind}
            for kind in ("changed", "quarantined")
        }
        if any(found.values()):
            of_shard = again.setdefault(listed.name(batch.context), Again())
            of_shard.changed |= found["changed"]
            of_shard.quarantined |= found["quarantined"]
    return again


def _recheck(listed: Listed, shard: str) -> Batch:
    names_in_parts(listed.parts(shard), ())  # parts that cannot be read are taken away
    where = Shard(listed.out.absolute() / shard, listed.parts(shard), ())
    return Batch(RECHECK, where, tuple(listed.photos(shard)), listed.watchdog)


class Todo:
    """Batches of photos, shard by shard, and what is finished."""

    def __init__(self, listed: Listed, again: Mapping[str, Again], made: Made, together: int) -> None:
        """again: what `find_changed` found; together: photos in a batch."""
        self.total = sum(map(len, listed.shards.values()))
        self.finished = 0  # photos
        self._listed, self._again, self._made, self._together = listed, again, made, together
        self._open: dict[Path, _Open] = {}  # by its parts
        self._complete: deque[Shard] = deque()
        for shard, names in listed.shards.items():
            if self._is_finished(shard):
                self.finished += len(names)
        self._batches = self._each()

    def next(self) -> Batch | None:
        if not self._complete and (batch := next(self._batches, None)) is not None:
            return batch
        if self._complete:
            return Batch(ASSEMBLE, self._made, (self._complete.popleft(),), ASSEMBLING)
        return None

    def done(self, batch: Batch) -> None:
        """Its photos are in a part now."""
        self._open[batch.context.parts].is_newer = True
        self._leave(batch)

    def failed(self, batch: Batch, why: str) -> None:
        """Its one photo is quarantined, or stays so."""
        if not batch.failed_before:
            quarantine(self._open[batch.context.parts].shard, batch.items[0], why)
            self._open[batch.context.parts].is_newer = True
        self._leave(batch)

    def _leave(self, batch: Batch) -> None:
        self.finished += len(batch.items)
        opened = self._open[batch.context.parts]
        opened.waiting -= {photo.name for photo in batch.items}
        if not opened.waiting:
            del self._open[batch.context.parts]
            if opened.is_newer:
                self._complete.append(opened.shard)

    def _is_finished(self, shard: str) -> bool:
        return (
            (self._listed.out / shard).exists() and shard not in self._again and not self._listed.parts(shard).exists()
        )

    def _each(self) -> Iterator[Batch]:
        for file, names in self._listed.shards.items():
            if self._is_finished(file):
                continue
            again, parts = self._again.get(file, Again()), self._listed.parts(file)
            is_there = (self._listed.out / file).exists()
            changed = again.changed | (drop_parts(parts, names, again.changed) & self._listed.addresses.keys())
            in_parts = names_in_parts(parts, names)
            kept = (in_parts | set(names if is_there else ())) - changed
            photos = [photo for photo in self._listed.photos(file) if photo.name not in kept | again.quarantined]
            retried = [photo for photo in self._listed.photos(file) if photo.name in again.quarantined]
            waiting = {photo.name for photo in [*photos, *retried]}
            # An earlier list may have had more: what is neither there nor listed now is not waited for.
            held = tuple(name for name in names if name in waiting | kept)
            self.finished += len(kept - waiting)
            if not held:
                continue
            shard = Shard(self._listed.out.absolute() / file, parts, held)
            if not waiting:
                self._complete.append(shard)
                continue
            self._open[parts] = _Open(shard, waiting, is_newer=bool(in_parts) or not is_there)
            task = PartTask(self._made, parts)
            for start in range(0, len(photos), self._together):
                yield Batch(EXTRACT, task, tuple(photos[start : start + self._together]), self._listed.watchdog)
            for photo in retried:
                yield Batch(EXTRACT, task, (photo,), self._listed.watchdog, failed_before=True)


def work(cluster: Pool, todo: Todo, progress: Progress) -> int:
    """Photos that were extracted."""
    new = 0
    progress(todo.finished, todo.total, "extracting")
    for batch, result in run_batches(cluster, todo.next):
        if batch.function == ASSEMBLE:
            if isinstance(result, Failed):
                raise BadInput(f"{batch.items[0].file} could not be put together: {result.why}")
            _LOG.info("%s is finished", batch.items[0].file)
            continue
        if isinstance(result, Failed):
            _LOG.info("%s is quarantined: %s", batch.items[0].name, result.why)
            todo.failed(batch, result.why)
        else:
            new += len(batch.items) - len(result)
            todo.done(batch)
        progress(todo.finished, todo.total, "extracting")
    return new
