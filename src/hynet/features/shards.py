"""What workers do for a collection: a batch of photos into a part, and the parts of a shard into the shard."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import h5py

from .. import images
from ..errors import BadData, BadInput, UnreadableImage
from ..images import Content
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..runtime.processes import one_by_one
from .collection import IndexRow, write_rows
from .extractors import PhotoExtractor
from .folder import weights_of
from .hloc_file import columns, open_features, reading, write_settings
from .manifest import fetched
from .masking import extract_unmasked
from .settings import FeatureSettings
from .standing import Seen, look

EXTRACT = f"{__name__}:extract_batch"
RECHECK = f"{__name__}:recheck"
ASSEMBLE = f"{__name__}:assemble"
LOOK = f"{__name__}:look_at"

# What a shard and its parts hold of a photo: it as it is now, something older or nothing, or that it failed
Known = Literal["kept", "changed", "quarantined"]


@dataclass(frozen=True)
class Made:
    """How features are made, and what suits them: the same for all workers."""

    settings: FeatureSettings
    weights: str | None  # fingerprint
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
    extract = _opened(task.made.settings, task.made.weights)
    unreadable = {}
    with _written_at_once(task.parts / f"{photos[0].place:03}.h5") as file:
        for photo in one_by_one(photos):
            group = file.create_group(photo.name)
            try:
                held = fetched(photo.address)
                group.attrs["fingerprint"] = _fingerprint(held, photo.mask)
                features = extract_unmasked(extract, held, photo.mask)
            except BadInput as error:  # unreadable, a mask of another size, a photo like a thread
                why = str(error) if isinstance(error, UnreadableImage) else f"{photo.address}: {error}"
                group.attrs["unreadable"] = unreadable[photo.name] = why
                continue
            for key, column in columns(features, task.made.settings.precision).items():
                group.create_dataset(key, data=column)
    return unreadable


def quarantine(shard: Shard, photo: ListedPhoto, why: str) -> None:
    """A part that says why it has no features of this photo."""
    with _written_at_once(shard.parts / f"{photo.place:03}.h5") as file:
        file.create_group(photo.name).attrs["quarantined"] = why


def recheck(shard: Shard, photos: Sequence[ListedPhoto]) -> list[Known]:
    """Whether photos are what they were, by their content; of one that has gone, what is there is kept."""
    noted: dict[str, str | None] = {}
    quarantined: set[str] = set()
    with ExitStack() as files:
        for file in _newest_first(shard, files):
            for photo in photos:
                if photo.name in noted or photo.name not in file:
                    continue
                attributes = file[photo.name].attrs
                noted[photo.name] = attributes.get("fingerprint")
                if "quarantined" in attributes:
                    quarantined.add(photo.name)
    found: list[Known] = []
    for photo in one_by_one(photos):
        if photo.name in quarantined:
            found.append("quarantined")
        elif photo.name not in noted:
            found.append("changed")
        else:
            found.append("kept" if _content(photo) in (None, noted[photo.name]) else "changed")
    return found


def names_in_parts(parts: Path, names: Sequence[str]) -> set[str]:
    """The photos of a shard that an earlier run has done; a part that cannot be read is done again."""
    return {name for some in _names_by_part(parts, names).values() for name in some}


def drop_parts(parts: Path, names: Sequence[str], changed: Collection[str]) -> set[str]:
    """Take away the parts that hold a photo which has changed since; all photos of theirs."""
    dropped: set[str] = set()
    for part, some in _names_by_part(parts, names).items():
        if not some.isdisjoint(changed):
            part.unlink()
            dropped |= some
    return dropped


def _names_by_part(parts: Path, names: Sequence[str]) -> dict[Path, set[str]]:
    found: dict[Path, set[str]] = {}
    for part in sorted(parts.glob("[0-9]*.h5")):
        try:
            with h5py.File(part) as file:
                found[part] = {name for name in names if name in file}
        except (OSError, RuntimeError, KeyError):
            part.unlink()
    return found


def assemble(made: Made, shards: Sequence[Shard]) -> list[str]:
    """The parts of a shard as one file, photos in the order of the list, and its rows of the index.

    What is in no part is taken from the shard as it was.
    """
    for shard in one_by_one(shards):
        rows = []
        if shard.file.exists() and not shard.parts.exists():  # by someone who was taken for dead
            continue
        with ExitStack() as files, _written_at_once(shard.file) as file:
            file.attrs["settings"] = made.noted
            write_settings(file, made.ratio, made.thresholds)
            sources = list(_newest_first(shard, files))
            for name in shard.names:
                source = next((each for each in sources if name in each), None)
                if source is None:
                    raise BadData(f"{shard.parts} lacks {name}; run the same command again.")
                with reading(source.filename, name):
                    source.copy(name, file, name)
                rows.append(_row(shard, name, file[name]))
            write_rows(shard.file.with_suffix(".parquet"), rows)  # before the shard itself, which vouches for it
            vectors = shard.file.parent.parent / "vectors" / f"{shard.file.stem}.npy"
            vectors.unlink(missing_ok=True)  # of what the shard held before
        shutil.rmtree(shard.parts, ignore_errors=True)
    return [shard.file.name for shard in shards]


def look_at(model: str, photos: Sequence[ListedPhoto]) -> list[Seen | None]:
    """What tells whether photos were turned."""
    found: list[Seen | None] = []
    for photo in one_by_one(photos):
        try:
            found.append(look(fetched(photo.address), model))
        except BadInput:  # who extracts will say so
            found.append(None)
    return found


def _newest_first(shard: Shard, files: ExitStack) -> Iterator[Any]:
    """The parts, opened, and the shard that they are newer than, if it is there."""
    for path in [*sorted(shard.parts.glob("[0-9]*.h5")), shard.file]:
        if path.exists():
            yield files.enter_context(open_features(path))


@contextmanager
def _written_at_once(path: Path) -> Iterator[Any]:
    """An HDF5 file that is made in memory: where a disk is full, HDF5 itself may take the process with it."""
    with atomic_write(path) as temporary:
        with h5py.File(temporary.name, "w", driver="core", backing_store=False) as file:
            yield file
            file.flush()
            content = file.id.get_file_image()
        temporary.write_bytes(content)


def _row(shard: Shard, name: str, group: Any) -> IndexRow:
    where = f"{shard.file.parent.name}/{shard.file.name}"
    for status in ("unreadable", "quarantined"):
        if status in group.attrs:
            seen = group.attrs.get("fingerprint", "")
            return IndexRow(name, where, fingerprint=seen, status=status, error=group.attrs[status])
    return IndexRow(name, where, len(group["keypoints"]), group.attrs["fingerprint"], "done")


@lru_cache(maxsize=1)
def _opened(settings: FeatureSettings, weights: str | None) -> PhotoExtractor:
    """Once in each process; with the weights that whoever asks has, too."""
    found = weights_of(settings)
    if found != weights:
        raise BadData(f"this worker has other weights of {settings.extractor or settings.model}; copy them there.")
    return settings.open_extractor()


def _content(photo: ListedPhoto) -> str | None:
    """None where it cannot be read."""
    try:
        return _fingerprint(fetched(photo.address), photo.mask)
    except BadInput:
        return None


def _fingerprint(held: Path | Content, mask: str | None) -> str:
    """As `fingerprints.photo` gives it, without remembering every photo."""
    contents = [held.data if isinstance(held, Content) else _bytes(held)]
    contents += [] if mask is None else [_bytes(Path(mask))]
    return fingerprints.values([hashlib.sha256(content).hexdigest() for content in contents])


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        images.read(path)  # says why not
        raise UnreadableImage(f"{path} cannot be read ({error.strerror}).") from None
