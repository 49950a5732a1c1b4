"""Photos still to be extracted, shard by shard and batch by batch: new ones, and those that have changed since."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..errors import BadInput
from ..runtime.pool import Batch, Failed, Pool, run_batches
from ..types import Progress
from .shards import (
    ASSEMBLE,
    EXTRACT,
    RECHECK,
    ExtractionSpec,
    ListedPhoto,
    PartTask,
    Shard,
    drop_parts,
    names_by_part,
    quarantine,
)

_LOG = logging.getLogger(__name__)

ASSEMBLING = 1800.0  # seconds that a shard may take


@dataclass(frozen=True)
class Listed:
    """The photos of a run, and the shards that they go to."""

    shards: Mapping[str, Shard]  # by name, each with all its photos, also those that are no longer in the list
    addresses: Mapping[str, str]  # photo -> where it is, of those in the list
    masks: Mapping[str, Path]
    watchdog: float | None = None  # seconds that a photo may take

    def photos(self, shard: str) -> list[ListedPhoto]:
        """Return the photos of a shard that are in the list."""
        names = (name for name in self.shards[shard].names if name in self.addresses)
        return [ListedPhoto(name, self.addresses[name], self._mask(name)) for name in names]

    def _mask(self, name: str) -> str | None:
        return str(self.masks[name].absolute()) if name in self.masks else None

    def held_by(self, shard: str) -> frozenset[str]:
        """Return the photos that the file of a shard holds."""
        written = self.shards[shard]
        if not written.file.exists():
            return frozenset()
        return frozenset(written.names) if written.held is None else written.held

    def is_begun(self, shard: str) -> bool:
        """True if the shard or parts of it are there."""
        return bool(self.held_by(shard)) or self.shards[shard].parts.exists()


@dataclass
class RetrySet:
    """Photos of a shard that were extracted, and are to be extracted again."""

    changed: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)  # by bad luck, perhaps, or by too short a time


def find_changed(pool: Pool, listed: Listed, progress: Progress) -> dict[str, RetrySet]:
    """Compare the content of every photo that was extracted; shard -> what is to be extracted again."""
    begun = {shard: photos for shard in listed.shards if listed.is_begun(shard) and (photos := listed.photos(shard))}
    for shard in begun:
        names_by_part(listed.shards[shard].parts, ())  # removes what cannot be read
    total = sum(map(len, begun.values()))
    batches = (Batch(RECHECK, listed.shards[shard], tuple(begun[shard]), listed.watchdog) for shard in begun)
    by_file = {listed.shards[shard].file: shard for shard in begun}
    retry: dict[str, RetrySet] = {}
    finished = 0
    for batch, result in run_batches(pool, partial(next, batches, None)):
        finished += len(batch.items)
        progress(finished, total, "checking")
        if isinstance(result, Failed):
            _LOG.info("%s cannot be checked, and is kept: %s", batch.items[0].name, result.why)
            continue
        for photo, known in zip(batch.items, result, strict=True):
            if known != "kept":
                of_shard = retry.setdefault(by_file[batch.context.file], RetrySet())
                (of_shard.changed if known == "changed" else of_shard.quarantined).add(photo.name)
    return retry


@dataclass
class _Open:
    """A shard that is worked on."""

    shard: Shard
    waiting: set[str]  # photos
    changed: set[str]
    is_newer: bool  # whether its parts hold what the shard itself does not


class Todo:
    """Batches of photos, shard by shard, and what became of them."""

    def __init__(self, listed: Listed, retry: Mapping[str, RetrySet], spec: ExtractionSpec, together: int) -> None:
        """retry: found by `find_changed`; together: photos in a batch."""
        self.total = len(listed.addresses)
        self.finished = 0  # photos
        self.new = 0  # photos extracted in this run
        self.failed: dict[str, str] = {}  # photo -> why, of this run
        self._listed, self._retry, self._spec, self._together = listed, retry, spec, together
        self._open: dict[Path, _Open] = {}  # by its parts
        self._complete: deque[Shard] = deque()
        for shard in listed.shards:
            if self._is_finished(shard):
                self.finished += len(listed.photos(shard))
        self._batches = self._each()

    def next(self) -> Batch | None:
        """Return the next batch to extract or shard to assemble, None if there is none just now."""
        if not self._complete and (batch := next(self._batches, None)) is not None:
            return batch
        if self._complete:
            return Batch(ASSEMBLE, self._spec, (self._complete.popleft(),), ASSEMBLING)
        return None

    def done(self, batch: Batch, unreadable: Mapping[str, str]) -> None:
        """Take the photos of a batch as extracted."""
        self.new += len(batch.items) - len(unreadable)
        self._leave(batch, unreadable)

    def fail(self, batch: Batch, why: str) -> None:
        """Quarantine the one photo of a batch, or leave it in quarantine."""
        photo, shard = batch.items[0], self._open[batch.context.parts].shard
        if self._spec.in_collection and not batch.failed_before:
            quarantine(shard, photo, why)
        self._leave(batch, {photo.name: why}, batch.failed_before)

    def _leave(self, batch: Batch, failed: Mapping[str, str], as_before: bool = False) -> None:
        self.finished += len(batch.items)
        self.failed |= failed
        opened, names = self._open[batch.context.parts], {photo.name for photo in batch.items}
        opened.waiting -= names
        if self._spec.in_collection:  # whose shards say why photos failed
            opened.is_newer |= not as_before
        else:
            opened.is_newer |= bool(names - failed.keys() or names & opened.changed)
            held = tuple(name for name in opened.shard.names if name not in failed)
            opened.shard = replace(opened.shard, names=held)
        if not opened.waiting:
            del self._open[batch.context.parts]
            if opened.is_newer and opened.shard.names:
                self._complete.append(opened.shard)

    def _is_finished(self, shard: str) -> bool:
        all_held = self._listed.held_by(shard) >= {photo.name for photo in self._listed.photos(shard)}
        return all_held and shard not in self._retry and not self._listed.shards[shard].parts.exists()

    def _each(self) -> Iterator[Batch]:
        for name, shard in self._listed.shards.items():
            if self._is_finished(name):
                continue
            retry, there, listed = self._retry.get(name, RetrySet()), self._listed.held_by(name), self._listed.addresses
            changed = retry.changed | (drop_parts(shard.parts, shard.names, retry.changed) & listed.keys())
            in_parts = set().union(*names_by_part(shard.parts, shard.names).values())
            kept = (in_parts | there) - changed
            photos = [photo for photo in self._listed.photos(name) if photo.name not in kept | retry.quarantined]
            retried = [photo for photo in self._listed.photos(name) if photo.name in retry.quarantined]
            waiting = {photo.name for photo in [*photos, *retried]}
            # An earlier list may have had more: what is neither there nor listed now is not waited for.
            held = tuple(each for each in shard.names if each in waiting | kept)
            self.finished += len((kept - waiting) & listed.keys())
            is_newer = bool(in_parts) or not there
            opened = _Open(replace(shard, names=held), waiting, changed, is_newer)
            if not waiting:
                if held and is_newer:
                    self._complete.append(opened.shard)
                continue
            self._open[shard.parts] = opened
            task = PartTask(self._spec, shard.parts)
            for start in range(0, len(photos), self._together):
                yield Batch(EXTRACT, task, tuple(photos[start : start + self._together]), self._listed.watchdog)
            for photo in retried:
                yield Batch(EXTRACT, task, (photo,), self._listed.watchdog, failed_before=True)


def work(pool: Pool, todo: Todo, progress: Progress) -> None:
    """Extract what is to be extracted, and assemble the shards that are complete."""
    for batch, result in run_batches(pool, todo.next):
        if batch.function == ASSEMBLE:
            if isinstance(result, Failed):
                raise BadInput(f"{batch.items[0].file} could not be put together: {result.why}")
            _LOG.info("%s is finished", batch.items[0].file)
            continue
        if isinstance(result, Failed):
            _LOG.info("%s is quarantined: %s", batch.items[0].name, result.why)
            todo.fail(batch, result.why)
        else:
            todo.done(batch, result)
        progress(todo.finished, todo.total, batch.items[-1].name)
