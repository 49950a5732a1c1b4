"""What workers do for a collection: a batch of photos into a part, and the parts of a shard into the shard."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py

from .. import images
from ..errors import BadData, BadInput, UnreadableImage
from ..images import Content
from ..system import fingerprints
from ..system.files import whole
from ..types import Array
from . import PhotoExtractor
from .collection import IndexRow, write_rows
from .folder import weights_of
from .hloc_file import columns, open_features, reading, write_settings
from .manifest import fetched
from .masking import extract_unmasked
from .settings import Settings
from .standing import look

EXTRACT = f"{__name__}:extract_batch"
ASSEMBLE = f"{__name__}:assemble"
LOOK = f"{__name__}:look_at"


@dataclass(frozen=True)
class Made:
    """How features are made, and what suits them: the same for all workers."""

    settings: Settings
    noted: str  # the settings as they are written down
    ratio: float | None
    thresholds: Mapping[str, float]


@dataclass(frozen=True)
class ListedPhoto:
    """One photo of a shard."""

    name: str
    address: str  # absolute path or URL
    place: int  # in its shard
    mask: str | None = None


@dataclass(frozen=True)
class Shard:
    """Which photos it has, in their order, and where its parts are."""

    file: Path
    parts: Path
    names: tuple[str, ...]


@dataclass(frozen=True)
class PartTask:
    """Where a batch goes."""

    made: Made
    parts: Path


def extract_batch(task: PartTask, photos: Sequence[ListedPhoto]) -> dict[str, str]:
    """One part, whole or not at all; name -> why it could not be read."""
    extract = _opened(task.made.settings)
    unreadable = {}
    with _written_at_once(task.parts / f"{photos[0].place:03}.h5") as file:
        for photo in photos:
            group = file.create_group(photo.name)
            try:
                held = fetched(photo.address)
                seen = _fingerprint(held, photo.mask)
                features = extract_unmasked(extract, held, photo.mask)
            except BadInput as error:  # unreadable, a mask of another size, a photo like a thread
                why = str(error) if isinstance(error, UnreadableImage) else f"{photo.address}: {error}"
                group.attrs["unreadable"] = unreadable[photo.name] = why
                continue
            group.attrs["fingerprint"] = seen
            for key, column in columns(features, task.made.settings.precision).items():
                group.create_dataset(key, data=column)
    return unreadable


def quarantine(shard: Shard, photo: ListedPhoto, why: str) -> None:
    """A part that says why it has no features of this photo."""
    with _written_at_once(shard.parts / f"{photo.place:03}.h5") as file:
        file.create_group(photo.name).attrs["quarantined"] = why


def names_in_parts(parts: Path, names: Sequence[str]) -> set[str]:
    """The photos of a shard that an earlier run has done; a part that cannot be read is done again."""
    found: set[str] = set()
    for part in sorted(parts.glob("[0-9]*.h5")):
        try:
            with h5py.File(part) as file:
                found |= {name for name in names if name in file}
        except (OSError, RuntimeError, KeyError):
            part.unlink()
    return found


def assemble(made: Made, shards: Sequence[Shard]) -> list[str]:
    """The parts of a shard as one file, photos in the order of the list, and its rows of the index."""
    for shard in shards:
        rows = []
        parts = sorted(shard.parts.glob("[0-9]*.h5"))
        if shard.file.exists():  # by someone who was taken for dead
            continue
        with _written_at_once(shard.file) as file:
            file.attrs["settings"] = made.noted
            write_settings(file, made.ratio, made.thresholds)
            for part in parts:
                with open_features(part) as stored, reading(part):
                    for name in shard.names:
                        if name in stored and name not in file:
                            stored.copy(name, file, name)
            for name in shard.names:
                if name not in file:
                    raise BadData(f"{shard.parts} lacks {name}; run the same command again.")
                rows.append(_row(shard, name, file[name]))
            write_rows(shard.file.with_suffix(".parquet"), rows)  # before the shard itself, which vouches for it
            vectors = shard.file.parent.parent / "vectors" / f"{shard.file.stem}.npy"
            vectors.unlink(missing_ok=True)  # of a shard that was deleted to be made again
        shutil.rmtree(shard.parts, ignore_errors=True)
    return [shard.file.name for shard in shards]


def look_at(model: str, photos: Sequence[ListedPhoto]) -> list[tuple[Array, Array] | None]:
    """What tells whether photos were turned."""
    found: list[tuple[Array, Array] | None] = []
    for photo in photos:
        try:
            found.append(look(fetched(photo.address), model))
        except BadInput:  # who extracts will say so
            found.append(None)
    return found


@contextmanager
def _written_at_once(path: Path) -> Iterator[Any]:
    """An HDF5 file that is made in memory: where a disk is full, HDF5 itself may take the process with it."""
    with whole(path) as temporary:
        with h5py.File(temporary.name, "w", driver="core", backing_store=False) as file:
            yield file
            file.flush()
            content = file.id.get_file_image()
        temporary.write_bytes(content)


def _row(shard: Shard, name: str, group: Any) -> IndexRow:
    where = f"{shard.file.parent.name}/{shard.file.name}"
    for status in ("unreadable", "quarantined"):
        if status in group.attrs:
            return IndexRow(name, where, status=status, error=group.attrs[status])
    return IndexRow(name, where, len(group["keypoints"]), group.attrs["fingerprint"], "done")


@lru_cache(maxsize=1)
def _opened(settings: Settings) -> PhotoExtractor:
    """Once in each process; with the weights that whoever asks has, too."""
    found = weights_of(settings)
    if found != settings.weights:
        raise BadData(f"this worker has other weights of {settings.extractor or settings.descriptor}; copy them there.")
    return settings.open_extractor()


def _fingerprint(held: Path | Content, mask: str | None) -> str:
    """As `fingerprints.photo` gives it, without remembering every photo."""
    try:
        contents = [held.data if isinstance(held, Content) else held.read_bytes()]
    except OSError:
        images.read(held)  # says why not
        raise
    contents += [] if mask is None else [Path(mask).read_bytes()]
    return fingerprints.values([hashlib.sha256(content).hexdigest() for content in contents])
