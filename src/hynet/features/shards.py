"""Shards: features files of some photos, put together from parts. What processes do, on this machine or elsewhere.

HDF5 files do not survive a crash while they are written. So a batch of photos becomes a part, a small file of its own,
and a shard is written whole from its parts: what was done is never lost.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import h5py

from ..errors import BadData, BadInput, UnreadableImage
from ..images import Content
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..runtime.processes import one_by_one
from .addresses import fetched
from .collection import SHARD, IndexRow, write_rows
from .descriptors.loading import models
from .detectors import DETECTORS
from .extractors import PhotoExtractor
from .extractors.patchwise import extract_with_mask, network_of_shape
from .hloc_file import columns, open_features, reading, write_settings
from .rotation_check import PhotoSample, sample_photo
from .settings import FeatureSettings

EXTRACT = f"{__name__}:extract_batch"
RECHECK = f"{__name__}:recheck"
ASSEMBLE = f"{__name__}:assemble"
SAMPLE = f"{__name__}:sample_photos"

PART = ".part.h5"  # no temporary file of `atomic_write` ends like this
FAILURES = ("unreadable", "quarantined")
# State of a photo in a shard and its parts: up to date; older or not there; not to be read; its worker died
Known = Literal["kept", "changed", "quarantined"]


@dataclass(frozen=True)
class ExtractionSpec:
    """All that decides what features come out, and what suits them; the same for all workers."""

    settings: FeatureSettings
    weights: str | None  # fingerprint
    stored: str  # the settings as features files hold them
    ratio: float | None
    thresholds: Mapping[str, float]
    in_collection: bool  # whose shards also hold why photos have no features, and have rows for the index
    opened: PhotoExtractor | None = field(default=None, compare=False)  # by who works in this process


@dataclass(frozen=True)
class ListedPhoto:
    """One photo of a list."""

    name: str
    address: str  # absolute path or URL
    mask: str | None = None


@dataclass(frozen=True)
class Shard:
    """A features file, its parts, and the photos that it is to hold, in their order."""

    file: Path
    parts: Path
    names: tuple[str, ...] = ()
    held: frozenset[str] | None = None  # photos in the file, of which others are no more; None: all of the names


@dataclass(frozen=True)
class PartTask:
    """Features to make, and the folder for the part that holds them."""

    spec: ExtractionSpec
    parts: Path


def extract_batch(task: PartTask, photos: Sequence[ListedPhoto]) -> dict[str, str]:
    """Write one part, whole or not at all; photo -> why it could not be read."""
    spec = task.spec
    extract = spec.opened or _opened(spec.settings, spec.weights)
    unreadable, made = {}, {}
    for photo in one_by_one(photos):
        found: dict[str, str] = {}
        try:
            held = fetched(photo.address)
            if (seen := _fingerprint(held, photo.mask)) is not None:  # before it is read, to notice a change meanwhile
                found["fingerprint"] = seen
            made[photo.name] = found, columns(extract_with_mask(extract, held, photo.mask), spec.settings.precision)
        except BadInput as error:  # unreadable, a mask of another size, a photo like a thread
            why = str(error) if isinstance(error, UnreadableImage) else f"{photo.address}: {error}"
            found["unreadable"] = unreadable[photo.name] = why
            if spec.in_collection:
                made[photo.name] = found, {}
    if made:
        with written_at_once(part_of(task.parts, photos[0].name)) as file:
            for name, (attributes, arrays) in made.items():
                group = file.create_group(name)
                group.attrs.update(attributes)
                for key, array in arrays.items():
                    group.create_dataset(key, data=array)
    return unreadable


def quarantine(shard: Shard, photo: ListedPhoto, why: str) -> None:
    """Write a part that says why it has no features of this photo."""
    with written_at_once(part_of(shard.parts, photo.name)) as file:
        file.create_group(photo.name).attrs["quarantined"] = why


def recheck(shard: Shard, photos: Sequence[ListedPhoto]) -> list[Known]:
    """Compare photos with what was extracted, by content; photos that have gone keep their features."""
    noted: dict[str, Any] = {}
    quarantined: set[str] = set()
    with ExitStack() as files:
        for file in _newest_first(shard, files):
            with reading(file.filename):
                for photo in photos:
                    if photo.name in noted or photo.name not in file:
                        continue
                    attributes = file[photo.name].attrs
                    noted[photo.name] = str(attributes.get("fingerprint"))
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


def part_of(parts: Path, name: str) -> Path:
    """The part whose first photo has this name."""
    return parts / f"{fingerprints.values(name)[:16]}{PART}"


def names_by_part(parts: Path, names: Collection[str]) -> dict[Path, set[str]]:
    """Parts of an earlier run, and which of these photos each holds; one that cannot be read is removed."""
    found: dict[Path, set[str]] = {}
    for part in sorted(parts.glob(f"*{PART}")):
        try:
            with h5py.File(part) as file:
                found[part] = {name for name in names if name in file}
        except (OSError, RuntimeError, KeyError):
            part.unlink()  # as a power cut leaves it
    return found


def drop_parts(parts: Path, names: Collection[str], changed: Collection[str]) -> set[str]:
    """Remove the parts that hold a photo which has changed since; returns all photos that were in them."""
    dropped: set[str] = set()
    for part, some in names_by_part(parts, names).items():
        if not some.isdisjoint(changed):
            part.unlink()
            dropped |= some
    return dropped


def assemble(spec: ExtractionSpec, shards: Sequence[Shard]) -> None:
    """Write each shard from its parts, photos in their order, and from the shard as it was; then remove the parts."""
    for shard in one_by_one(shards):
        if shard.file.exists() and not shard.parts.exists():  # by someone who was taken for dead
            continue
        rows = []
        with ExitStack() as files, written_at_once(shard.file, len(shard.names)) as file:
            file.attrs["settings"] = spec.stored
            write_settings(file, spec.ratio, spec.thresholds)
            sources = list(_newest_first(shard, files))
            for name in shard.names:
                source = next((each for each in sources if name in each), None)
                if source is None:
                    raise BadData(f"{shard.parts} lacks {name}; run the same command again.")
                with reading(source.filename, name):
                    source.copy(name, file, name)
                    rows.append(_row(shard, name, file[name]))
            if spec.in_collection:
                write_rows(shard.file.with_suffix(".parquet"), rows)  # before the shard itself, which vouches for it
                vectors = shard.file.parent.parent / "vectors" / f"{shard.file.stem}.npy"
                vectors.unlink(missing_ok=True)  # of what the shard held before
        for part, some in names_by_part(shard.parts, shard.names).items():
            if some:  # those of other photos wait for a run that asks for them
                part.unlink()
        if spec.in_collection and not any(shard.parts.glob(f"*{PART}")):
            shutil.rmtree(shard.parts, ignore_errors=True)  # also what a killed process had begun to write


def sample_photos(model: str, photos: Sequence[ListedPhoto]) -> list[PhotoSample | None]:
    """Samples that tell whether photos were rotated; None for those that cannot be read."""
    found: list[PhotoSample | None] = []
    for photo in one_by_one(photos):
        try:
            found.append(sample_photo(fetched(photo.address), model))
        except BadInput:  # who extracts will say so
            found.append(None)
    return found


def weights_of(settings: FeatureSettings) -> str | None:
    """Fingerprint of the descriptor; of detector and shape too where theirs are files, or of the extractor instead."""
    if settings.extractor is not None and not settings.patchwise:
        return _weights(Path(settings.extractor))
    described_by = _weights(models().get(settings.model, Path(settings.model)))
    found_by = None if settings.detector in DETECTORS else _weights(Path(settings.detector))
    shaped_by = _weights(shape) if (shape := network_of_shape(settings.shape)) else None
    others = [each for each in (found_by, shaped_by) if each is not None]
    return fingerprints.values([described_by, *others])[:16] if others else described_by


def _weights(path: Path) -> str | None:
    found = fingerprints.weights(path)
    return None if found is None else found[:16]


def _newest_first(shard: Shard, files: ExitStack) -> Iterator[Any]:
    """The parts, opened, and the shard that they are newer than, if it is there."""
    for path in [*sorted(shard.parts.glob(f"*{PART}")), *([] if shard.held == frozenset() else [shard.file])]:
        if path.exists():
            yield files.enter_context(open_features(path))


@contextmanager
def written_at_once(path: Path, photos: int = 1) -> Iterator[Any]:
    """An HDF5 file that is made in memory: where a disk is full, HDF5 itself may take the process with it.

    photos: how many it will hold; beyond a shard's they do not fit into memory.
    """
    with atomic_write(path) as temporary:
        if photos > SHARD:
            with h5py.File(temporary, "w") as file:
                yield file
            return
        with h5py.File(temporary.name, "w", driver="core", backing_store=False) as file:
            yield file
            file.flush()
            content = file.id.get_file_image()
        temporary.write_bytes(content)


def _row(shard: Shard, name: str, group: Any) -> IndexRow:
    where = f"{shard.file.parent.name}/{shard.file.name}"
    seen = str(group.attrs.get("fingerprint", ""))
    for status in FAILURES:
        if status in group.attrs:
            return IndexRow(name, where, fingerprint=seen, status=status, error=group.attrs[status])
    return IndexRow(name, where, len(group["keypoints"]), seen, "done")


@lru_cache(maxsize=1)
def _opened(settings: FeatureSettings, weights: str | None) -> PhotoExtractor:
    """Once in each process; with the weights that whoever asks has, too."""
    if weights_of(settings) != weights:
        raise BadData(f"this worker has other weights of {settings.extractor or settings.model}; copy them there.")
    return settings.open_extractor()


def _content(photo: ListedPhoto) -> str | None:
    """None where it cannot be read."""
    try:
        return _fingerprint(fetched(photo.address), photo.mask)
    except BadInput:
        return None


def _fingerprint(held: Path | Content, mask: str | None) -> str | None:
    """Content of a photo and its mask; None if a file cannot be opened: whoever reads the photo says why."""
    if isinstance(held, Path):
        return fingerprints.photo(held, None if mask is None else Path(mask))
    contents = [hashlib.sha256(held.data).hexdigest(), *([] if mask is None else [fingerprints.content(Path(mask))])]
    return fingerprints.values(contents)
