"""Many photos -> one features file. Survives a kill at any moment, resumes, and uses several processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import cv2
import h5py
import numpy as np

from .. import images
from ..descriptors.loading import models
from ..errors import BadInput, UnreadableImage
from ..system import fingerprints
from ..system.files import whole
from ..system.locks import alone
from ..system.machine import cores
from ..types import Progress, silent
from .hloc_file import columns, h5_names, opened
from .patchwise import LONGEST, Extractor

PART = ".part.npz"  # no temporary file of `whole` ends like this


@dataclass(frozen=True)
class Settings:
    """How a features file was made; kept in it, so that a second run does not mix two kinds."""

    detector: str = "dog"
    descriptor: str = "default"
    max_keypoints: int = 2048
    upright: bool = False
    longest: int = LONGEST
    affine: bool = False
    score_threshold: float | None = None
    spread: bool = False
    mask: str | None = None  # folder of masks, that of a/b.jpg named a/b.jpg.png as in COLMAP
    support: float | None = None  # None: as calibrated, or as the model was trained
    weights: str | None = None  # fingerprint of the model's file; filled in by extract_all

    def extractor(self) -> Extractor:
        return Extractor(
            self.detector,
            self.descriptor,
            self.max_keypoints,
            self.upright,
            longest=self.longest,
            affine=self.affine,
            score_threshold=self.score_threshold,
            spread=self.spread,
            support=self.support,
        )


@dataclass(frozen=True)
class Extracted:
    """What became of the photos: all in the file, those of this run, and why some could not be read."""

    photos: int
    new: int
    unreadable: Mapping[str, str]  # name -> sentence


def extract_all(
    photos: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: Settings | None = None,
    *,
    jobs: int = 1,
    progress: Progress = silent,
) -> Extracted:
    """Features of every photo into `out`, one group a photo; those of photos that have not changed are kept.

    HDF5 files do not survive a crash while they are written. So every photo becomes a small file of its own in
    `out`.parts, and `out` is put together whole at the end: what was done is never lost.
    """
    with alone(out):
        return _extract_all(photos, Path(out), settings or Settings(), jobs, progress)


def _extract_all(
    photos: str | Path | Sequence[str | Path], out: Path, settings: Settings, jobs: int, progress: Progress
) -> Extracted:
    parts = out.with_name(f"{out.name}.parts")
    named, unreadable = _with_names(name_photos(photos))
    masks = find_masks(settings.mask, named)
    extract = settings.extractor()  # a wrong name is told here, before anything is written
    # Who calibrates or trains on between two runs does not mix two kinds.
    settings = replace(settings, support=extract.support, weights=_weights(settings.descriptor))
    earlier = _earlier(out, settings)
    _claim(parts, settings)
    begun = _begun(parts)
    made = earlier | begun  # a part is younger than what the file holds of its photo
    stale = _stale(made, named, masks)
    for name in stale & begun.keys():
        _part(parts, name).unlink()
    kept = earlier.keys() - begun.keys() - stale
    todo = [name for name in named if name in stale or name not in made]

    tasks = {name: Task(named[name], masks.get(name), _part(parts, name)) for name in todo}
    each = _in_turn(tasks, extract) if min(jobs, len(tasks)) < 2 else _at_once(tasks, settings, jobs)
    try:
        with closing(each):
            for count, (name, problem) in enumerate(each, start=len(named) - len(todo) + 1):
                progress(count, len(named), name)
                if problem:
                    unreadable[name] = problem
    except KeyboardInterrupt as stop:
        done = len(kept) + len(_parts(parts))
        stop.add_note(f"the features of {done} of {len(named)} photos are kept, run the same command again to go on")
        raise

    new = {name: part for name, part in _parts(parts).items() if name in named}
    if new or (stale and kept):
        _assemble(out, kept, new, settings, extract.ratio)
    _remove(parts, new)
    if not new and not kept:
        raise BadInput(f"none of the {len(named)} photos could be read: {next(iter(unreadable.values()))}")
    return Extracted(len(kept) + len(new), len(new), dict(sorted(unreadable.items())))


def name_photos(photos: str | Path | Sequence[str | Path]) -> dict[str, Path]:
    """Name -> path: a photo by its file name, those of a folder by their path below it."""
    named: dict[str, Path] = {}
    for given in [photos] if isinstance(photos, str | Path) else photos:
        path = Path(given)
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


def _weights(model: str) -> str | None:
    path = models().get(model, Path(model))
    return fingerprints.content(path)[:16] if path.is_file() else None


def find_masks(folder: str | None, photos: Mapping[str, Path]) -> dict[str, Path]:
    """Photo -> its mask, of those that have one."""
    if folder is None:
        return {}
    found = {name: mask for name in photos if (mask := Path(folder) / f"{name}.png").is_file()}
    if not found:
        raise BadInput(
            f"no mask in {folder} is named after a photo; that of {next(iter(photos))} ends in .png after it."
        )
    return found


def _earlier(out: Path, settings: Settings) -> dict[str, str | None]:
    """The photos in the file, and what each was made from; None in files made before that was noted."""
    if not out.exists():
        return {}
    names = h5_names(out)
    with opened(out) as file:
        _check(file.attrs.get("settings"), settings, out)
        return {name: file[name].attrs.get("fingerprint") for name in names}


def _begun(parts: Path) -> dict[str, str | None]:
    """The same of a run that was cut off."""
    found = {}
    for name, part in _parts(parts).items():
        try:
            with np.load(part) as stored:
                for column in stored:
                    stored[column]
                found[name] = str(stored["fingerprint"]) if "fingerprint" in stored else None
        except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error):
            part.unlink()  # as a power cut leaves it: the photo is extracted again
    return found


def _stale(made: Mapping[str, str | None], photos: Mapping[str, Path], masks: Mapping[str, Path]) -> set[str]:
    """Photos that are no longer what they were. One that has gone says nothing against the features it gave."""
    now = {name: fingerprints.photo(photos[name], masks.get(name)) for name in made if name in photos}
    return {name for name, content in now.items() if content not in (None, made[name])}


def _claim(parts: Path, settings: Settings) -> None:
    """Parts of an earlier run are taken up only if they were made alike."""
    note = parts / "settings.json"
    if note.exists():
        _check(note.read_text(errors="replace"), settings, parts)
    else:
        with whole(note) as temporary:
            temporary.write_text(_written(settings))


def _check(made_with: str | None, settings: Settings, where: Path) -> None:
    if made_with is None:
        raise BadInput(f"{where} was not made by `hynet extract`; choose another name, or delete it.")
    before, now = _noted(made_with), asdict(settings)
    if before is None:
        raise BadInput(f"{where} was not made by `hynet extract`, or is damaged; choose another name, or delete it.")
    if changed := [f"{name} was {before.get(name)}, now {now[name]}" for name in now if before.get(name) != now[name]]:
        raise BadInput(
            f"{where} was made with other settings ({', '.join(changed)}); choose another name or delete it."
        )


def _noted(text: object) -> dict[str, Any] | None:
    try:
        noted = json.loads(text) if isinstance(text, str) else None
        return noted if isinstance(noted, dict) else None
    except (ValueError, RecursionError):
        return None


def _written(settings: Settings) -> str:
    return json.dumps(asdict(settings))


def _part(parts: Path, name: str) -> Path:
    return parts / f"{name}{PART}"


def _parts(parts: Path) -> dict[str, Path]:
    return {part.relative_to(parts).as_posix().removesuffix(PART): part for part in sorted(parts.rglob(f"*{PART}"))}


@dataclass(frozen=True)
class Task:
    """One photo, its mask, and where its features go."""

    photo: Path
    mask: Path | None
    part: Path


# Each photo as its part is written: (name, None), or (name, why it could not be read).
Outcomes = Generator[tuple[str, str | None], None, None]


def _in_turn(tasks: Mapping[str, Task], extract: Extractor) -> Outcomes:
    for name, task in tasks.items():
        yield name, _extract_one(extract, task)


def _at_once(tasks: Mapping[str, Task], settings: Settings, jobs: int) -> Outcomes:
    jobs = min(jobs, len(tasks))
    context = get_context("spawn")  # a fork would inherit half of what the other threads were doing
    shares = context.SimpleQueue()
    for share in _shares(jobs):
        shares.put(share)
    with _few_threads(jobs), ProcessPoolExecutor(jobs, context, _start_worker, (settings, shares)) as pool:
        with _main_left_alone():  # processes start when work is submitted
            names = {pool.submit(_work, task): name for name, task in tasks.items()}
        try:
            for future in as_completed(names):
                yield names[future], future.result()
        except BrokenProcessPool:
            raise BadInput("a process ended early: try fewer jobs if memory is short.") from None
        except BaseException:  # Ctrl-C does not wait for photos that are half done
            for process in list(pool._processes.values()):
                process.kill()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _main_left_alone() -> Iterator[None]:
    """A spawned process would run the caller's script once more, which ours have no need of."""
    main = sys.modules["__main__"]
    hidden = {name: value for name, value in vars(main).items() if name in ("__file__", "__spec__")}
    main.__file__ = main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)


def _extract_one(extract: Extractor, task: Task) -> str | None:
    seen = fingerprints.photo(task.photo, task.mask)  # before it is read: a change in between is noticed next time
    try:
        features = extract(task.photo, task.mask)
    except UnreadableImage as error:
        return str(error)
    except BadInput as error:  # a mask of another size, a photo like a thread
        return f"{task.photo}: {error}"
    with whole(task.part) as temporary:
        np.savez(temporary, fingerprint=np.array(seen or ""), **columns(features))  # type: ignore[arg-type]
    return None


def _assemble(out: Path, kept: Set[str], parts: Mapping[str, Path], settings: Settings, ratio: float | None) -> None:
    with whole(out) as temporary, h5py.File(temporary, "w") as file:
        file.attrs["settings"] = _written(settings)
        if ratio is not None:
            file.attrs["ratio"] = ratio
        if kept:
            with opened(out) as earlier:
                for name in sorted(kept):
                    earlier.copy(name, file, name)
        for name, part in parts.items():
            with np.load(part) as stored:
                for key, column in stored.items():
                    if key == "fingerprint":
                        file.require_group(name).attrs[key] = str(column)
                    else:
                        file.create_dataset(f"{name}/{key}", data=column)


# --- Several processes, each with its share of the cores ---

_extract: Extractor | None = None  # in a worker: loaded once, used for all its photos


def _shares(jobs: int) -> list[list[int]]:
    """The cores dealt out to so many processes; with more processes than cores, some share one."""
    return [cores()[k::jobs] or [cores()[k % len(cores())]] for k in range(jobs)]


@contextmanager
def _few_threads(jobs: int) -> Iterator[None]:
    """NumPy's matrix product reads these when a process starts; in this one it has long done so."""
    wanted = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(max(1, len(cores()) // jobs)))
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})


def _start_worker(settings: Settings, shares: SimpleQueue[list[int]]) -> None:
    global _extract
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    mine = shares.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, mine)  # engines start as many threads as there are cores they may use
    cv2.setNumThreads(len(mine))
    _extract = settings.extractor()


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers, and they would wait for photos for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(task: Task) -> str | None:
    assert _extract is not None
    return _extract_one(_extract, task)
