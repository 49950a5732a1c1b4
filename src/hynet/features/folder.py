"""Many photos -> one features file. Survives a kill at any moment, resumes, and uses several processes."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import h5py
import numpy as np

from .. import images
from ..errors import BadInput, UnreadableImage
from ..runtime import fingerprints
from ..runtime.arrays import read_npz
from ..runtime.files import as_path, atomic_write
from ..runtime.locks import exclusive_lock
from ..runtime.pool import in_processes
from ..types import Progress, silent
from .descriptors.loading import models
from .detectors import DETECTORS
from .extractors import PhotoExtractor
from .extractors.patchwise import Extractor, network_of_shape
from .hloc_file import columns, h5_names, open_features, reading, write_settings
from .masking import extract_unmasked
from .settings import ORIENTATIONS, FeatureSettings, stored_settings
from .standing import looking_model, orientation_of

_LOG = logging.getLogger(__name__)
PART = ".part.npz"  # no temporary file of `whole` ends like this


@dataclass(frozen=True)
class Extracted:
    """What became of the photos: all in the file, those of this run, and why some could not be read."""

    photos: int
    new: int
    unreadable: Mapping[str, str]  # name -> sentence


def extract_all(
    photos: str | Path | Sequence[str | Path] | Mapping[str, Path],
    out: str | Path,
    settings: FeatureSettings | None = None,
    *,
    jobs: int = 1,
    extract: PhotoExtractor | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Extracted:
    """Features of every photo into `out`, one group a photo; those of photos that have not changed are kept.

    HDF5 files do not survive a crash while they are written. So every photo becomes a small file of its own in
    `out`.parts, and `out` is put together whole at the end: what was done is never lost.

    photos: photos and folders of them, or name -> photo.
    extract: what the settings stand for, by who has it open already.
    overwrite: replace features that were made with other settings, instead of refusing.
    """
    out = images.home(as_path(out, "the features file"))
    if out.is_dir():
        raise BadInput(f"{out} is a folder; give the name of a file in it, such as {out / 'features.h5'}.")
    with exclusive_lock(out):
        return _extract_all(photos, out, settings or FeatureSettings(), jobs, extract, overwrite, progress)


def _extract_all(
    photos: str | Path | Sequence[str | Path] | Mapping[str, Path],
    out: Path,
    settings: FeatureSettings,
    jobs: int,
    extract: PhotoExtractor | None,
    overwrite: bool,
    progress: Progress,
) -> Extracted:
    parts = out.with_name(f"{out.name}.parts")
    named, unreadable = _with_names(name_photos(photos))
    masks = find_masks(settings.mask, named)
    extract = extract or settings.open_extractor()  # a wrong name is told here, before anything is written
    if isinstance(extract, Extractor) and extract.orientation == "auto":
        settled = None if overwrite else _settled(out, parts)
        found = settled or orientation_of([*named.values()], looking_model(settings.model), progress)
        settings = settings.replace(orientation=found)
        extract = extract.turned_as(settings.orientation)
    # Who calibrates or trains on between two runs does not mix two kinds.
    support = extract.support if isinstance(extract, Extractor) else None
    settings = settings.for_many_photos().replace(support=support)
    weights = weights_of(settings)
    earlier = _earlier(out, settings, weights, overwrite)
    _claim(parts, settings, weights, overwrite)
    begun = _begun(parts)
    made = earlier | begun  # a part is younger than what the file holds of its photo
    stale = _stale(made, named, masks)
    for name in stale & begun.keys():
        _part(parts, name).unlink()
    kept = earlier.keys() - begun.keys() - stale
    todo = [name for name in named if name in stale or name not in made]

    _LOG.info("%d photos: %d kept, %d to extract", len(named), len(named) - len(todo), len(todo))
    tasks = {name: Task(named[name], masks.get(name), _part(parts, name), settings.precision) for name in todo}
    each = (
        _in_turn(tasks, extract)
        if min(jobs, len(tasks)) < 2
        else in_processes(f"{__name__}:extract_apart", {name: (settings, task) for name, task in tasks.items()}, jobs)
    )
    try:
        with closing(each):
            for count, (name, problem) in enumerate(each, start=len(named) - len(todo) + 1):
                progress(count, len(named), name)
                if problem:
                    unreadable[name] = problem
    except KeyboardInterrupt as stop:
        done = len(kept) + len(_parts(parts))
        stop.add_note(f"the features of {done} of {len(named)} photos are kept")
        raise

    new = {name: part for name, part in _parts(parts).items() if name in named}
    if new or (stale and kept):
        _assemble(out, kept, new, settings.to_json(weights), extract)
    _remove(parts, new)
    if not new and not kept:
        raise BadInput(f"none of the {len(named)} photos could be read: {next(iter(unreadable.values()))}")
    return Extracted(len(kept) + len(new), len(new), dict(sorted(unreadable.items())))


def name_photos(photos: str | Path | Sequence[str | Path] | Mapping[str, Path]) -> dict[str, Path]:
    """Name -> path: a photo by its file name, those of a folder by their path below it."""
    if isinstance(photos, Mapping):
        return dict(photos)
    named: dict[str, Path] = {}
    several = isinstance(photos, Iterable) and not isinstance(photos, str)
    for given in photos if several else [photos]:  # type: ignore[union-attr]
        if images.is_url(given):
            raise BadInput(f"{given} is a URL, which only `hynet match` reads; download the photo first.")
        path = images.home(as_path(given, "a photo, or a folder of photos,"))
        for photo in images.list_photos(path) if path.is_dir() else [path]:
            name = photo.relative_to(path).as_posix() if path.is_dir() else photo.name
            if named.setdefault(name, photo) != photo:
                raise BadInput(f"two photos are named {name} ({named[name]} and {photo}); give the folder above both.")
    return named


def _with_names(photos: Mapping[str, Path]) -> tuple[dict[str, Path], dict[str, str]]:
    """The photos whose names can be written down, and what is wrong with the others."""
    named, unnamed = {}, {}
    for name, photo in photos.items():
        try:
            name.encode()
            named[name] = photo
        except UnicodeEncodeError:
            readable = str(photo).encode(errors="backslashreplace").decode()
            unnamed[name] = f"{readable} has a name that is not UTF-8; rename it."
    if not named:
        raise BadInput(f"none of the photos can be used: {next(iter(unnamed.values()))}")
    return named, unnamed


def _remove(parts: Path, used: Mapping[str, Path]) -> None:
    """What is in the file; parts of photos that were not asked for wait for a run that asks for them."""
    for part in used.values():
        part.unlink()
    if not _parts(parts):
        shutil.rmtree(parts)


def weights_of(settings: FeatureSettings) -> str | None:
    """Of the descriptor; of detector and shape too where theirs are files, or of the extractor in place of all."""
    if settings.extractor is not None and not settings.patchwise:
        return _fingerprint(Path(settings.extractor))
    described_by = _fingerprint(models().get(settings.model, Path(settings.model)))
    found_by = None if settings.detector in DETECTORS else _fingerprint(Path(settings.detector))
    shaped_by = _fingerprint(shape) if (shape := network_of_shape(settings.shape)) else None
    others = [each for each in (found_by, shaped_by) if each is not None]
    return fingerprints.values([described_by, *others])[:16] if others else described_by


def _fingerprint(path: Path) -> str | None:
    found = fingerprints.weights(path)
    return None if found is None else found[:16]


def find_masks(folder: str | None, photos: Mapping[str, Path]) -> dict[str, Path]:
    """Photo -> its mask, of those that have one."""
    if folder is None:
        return {}
    found = {name: mask for name in photos if (mask := images.home(folder) / f"{name}.png").is_file()}
    if not found:
        raise BadInput(
            f"no mask in {folder} is named after a photo; that of {next(iter(photos))} ends in .png after it."
        )
    return found


def _settled(out: Path, parts: Path) -> str | None:
    """The orientation of an earlier run of these settings: photos that are added must not change it."""
    note = parts / "settings.json"
    written = note.read_text(errors="replace") if note.exists() else None
    if out.exists():
        with open_features(out) as file, reading(out):
            written = file.attrs.get("settings")
    return settled_orientation(written)


def settled_orientation(written: object) -> str | None:
    """What "auto" was found to be, by noted settings; what is damaged is told by whoever checks all of them."""
    orientation = (stored_settings(written) or {}).get("orientation")
    return orientation if orientation in ORIENTATIONS and orientation != "auto" else None


def _earlier(out: Path, settings: FeatureSettings, weights: str | None, overwrite: bool) -> dict[str, str | None]:
    """The photos in the file, and what each was made from; None in files made before that was noted."""
    if not out.exists():
        return {}
    names = h5_names(out)
    with open_features(out) as file, reading(out):
        made_with = file.attrs.get("settings")
        made_from = {name: file[name].attrs.get("fingerprint") for name in names}
    if wrong := settings_problem(made_with, settings, weights, out):
        if overwrite:
            return {}
        raise wrong
    return {name: seen if isinstance(seen, str) else None for name, seen in made_from.items()}


def _begun(parts: Path) -> dict[str, str | None]:
    """The same of a run that was cut off."""
    found = {}
    for name, part in _parts(parts).items():
        try:
            stored = read_npz(part)
            found[name] = str(stored["fingerprint"]) if "fingerprint" in stored else None
        except (OSError, ValueError):
            part.unlink()  # as a power cut leaves it: the photo is extracted again
    return found


def _stale(made: Mapping[str, str | None], photos: Mapping[str, Path], masks: Mapping[str, Path]) -> set[str]:
    """Photos that are no longer what they were. One that has gone says nothing against the features it gave."""
    now = {name: fingerprints.photo(photos[name], masks.get(name)) for name in made if name in photos}
    return {name for name, content in now.items() if content not in (None, made[name])}


def _claim(parts: Path, settings: FeatureSettings, weights: str | None, overwrite: bool) -> None:
    """Parts of an earlier run are taken up only if they were made alike."""
    note = parts / "settings.json"
    wrong = settings_problem(note.read_text(errors="replace"), settings, weights, parts) if note.exists() else None
    if wrong:
        if not overwrite:
            raise wrong
        shutil.rmtree(parts)
    if not note.exists():
        with atomic_write(note) as temporary:
            temporary.write_text(settings.to_json(weights))


def settings_problem(
    made_with: str | None, settings: FeatureSettings, weights: str | None, where: Path
) -> BadInput | None:
    """Why features there cannot be gone on with: just what is different from the settings that were noted."""
    before = stored_settings(made_with)
    if before is None:
        return BadInput(f"{where} was not made by `hynet extract`, or is damaged; choose another name, or --overwrite.")
    now = stored_settings(settings.to_json(weights)) or {}
    changed = fingerprints.difference(
        *({name.replace("_", "-"): value for name, value in each.items()} for each in (before, now))
    )
    if not changed:
        return None
    return BadInput(f"{where} was made with other settings ({changed}); choose another name, or --overwrite.")


def _part(parts: Path, name: str) -> Path:
    return parts / f"{name}{PART}"


def _parts(parts: Path) -> dict[str, Path]:
    return {part.relative_to(parts).as_posix().removesuffix(PART): part for part in sorted(parts.rglob(f"*{PART}"))}


@dataclass(frozen=True)
class Task:
    """One photo, its mask, and where and how its features are stored."""

    photo: Path
    mask: Path | None
    part: Path
    precision: str = "float32"


# Each photo as its part is written: (name, None), or (name, why it could not be read).
Outcomes = Generator[tuple[str, str | None], None, None]


def _in_turn(tasks: Mapping[str, Task], extract: PhotoExtractor) -> Outcomes:
    for name, task in tasks.items():
        yield name, _extract_one(extract, task)


def extract_apart(settings: FeatureSettings, task: Task) -> str | None:
    """Extract one photo in a process of its own, which keeps its extractor for the next."""
    return _extract_one(_opened(settings), task)


@lru_cache(maxsize=1)
def _opened(settings: FeatureSettings) -> PhotoExtractor:
    return settings.open_extractor()


def _extract_one(extract: PhotoExtractor, task: Task) -> str | None:
    seen = fingerprints.photo(task.photo, task.mask)  # before it is read: a change in between is noticed next time
    try:
        features = extract_unmasked(extract, task.photo, task.mask)
    except UnreadableImage as error:
        return str(error)
    except BadInput as error:  # a mask of another size, a photo like a thread
        return f"{task.photo}: {error}"
    with atomic_write(task.part) as temporary:
        np.savez(temporary, fingerprint=np.array(seen or ""), **columns(features, task.precision))  # type: ignore[arg-type]
    return None


def _assemble(out: Path, kept: Set[str], parts: Mapping[str, Path], made_with: str, extract: PhotoExtractor) -> None:
    with atomic_write(out) as temporary, h5py.File(temporary, "w") as file:
        file.attrs["settings"] = made_with
        write_settings(file, extract.ratio, getattr(extract, "thresholds", {}))
        if kept:
            with open_features(out) as earlier:
                for name in sorted(kept):
                    earlier.copy(name, file, name)
        for name, part in parts.items():
            for key, column in read_npz(part).items():
                if key == "fingerprint":
                    file.require_group(name).attrs[key] = str(column)
                else:
                    file.create_dataset(f"{name}/{key}", data=column)
