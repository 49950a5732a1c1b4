"""Many photos -> features, in one file or in a collection of files: one loop, which can be stopped at any moment.

A file is a collection of one shard. The settings are written before anything else, so that every later run knows
whether it may go on; neither the number of processes nor their failures affect the result.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .. import images
from ..errors import BadInput, HynetError, need, plural
from ..runtime.files import as_path, make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.machine import cores
from ..runtime.pool import Batch, Failed, InProcess, Pool, open_pool, run_batches
from ..types import Progress, silent
from .addresses import find_addresses, find_masks, name_photos, with_names
from .collection import INDEX, read_index, write_index
from .extractors import PhotoExtractor
from .extractors.patchwise import Extractor
from .hloc_file import h5_names
from .rotation_check import SAMPLING, are_rotated, sampling_model, some_of
from .settings import FeatureSettings
from .shards import PART, SAMPLE, ExtractionSpec, ListedPhoto, weights_of
from .sinks import SETTINGS, CollectionSink, FileSink, Sink, claim, earlier_orientation
from .todo import Listed, Todo, find_changed, work

_LOG = logging.getLogger(__name__)

TOGETHER = 16  # photos of a collection in a batch at most: what a worker that is killed loses
WATCHDOG = 60.0  # seconds that a photo of a collection may take


@dataclass(frozen=True)
class Extracted:
    """Result of an extraction: what the file or collection holds now."""

    photos: int  # with features
    new: int  # of this run
    unreadable: Mapping[str, str]  # photo -> why, of the photos of the list
    quarantined: Mapping[str, str] = field(default_factory=dict)  # photo -> what became of its worker
    shards: int = 1


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
    """Extract features of every photo into the file `out`, one group per photo; those of unchanged photos are kept.

    photos: photos and folders of them, or name -> photo.
    extract: the extractor of these settings, if it is open already.
    overwrite: replace features that were made with other settings, instead of refusing.
    """
    out = images.home(as_path(out, "the features file"))
    if out.is_dir():
        raise BadInput(f"{out} is a folder; give the name of a file in it, such as {out / 'features.h5'}.")
    settings = settings or FeatureSettings()
    with exclusive_lock(out):
        named, unnamed = with_names(name_photos(photos))
        masks = find_masks(settings.mask, named)
        extract = extract or settings.open_extractor()  # a wrong name fails here, before anything is written
        sink, addresses = FileSink(out), {name: str(photo) for name, photo in named.items()}
        with _pool(jobs, len(named)) as pool:
            spec = _settled(sink, addresses, settings, extract, pool, overwrite=overwrite, progress=progress)
            listed = Listed(sink.shards(addresses), addresses, masks)
            retry = find_changed(InProcess(), listed, silent)
            kept = listed.held_by(out.name) - {name for each in retry.values() for name in each.changed}
            todo = Todo(listed, retry, spec, together=1)
            _LOG.info("%s: %d kept", plural(len(named), "photo"), todo.finished)
            try:
                work(pool, todo, progress)
            except KeyboardInterrupt as stop:
                stop.add_note(f"the features of {todo.finished} of {len(named)} photos are kept")
                raise
        if not any(sink.parts.glob(f"*{PART}")):
            shutil.rmtree(sink.parts)
        failed = dict(sorted((unnamed | todo.failed).items()))
        new = (
            {name for name in h5_names(out) if name in named and name not in kept | failed.keys()}
            if out.exists()
            else set()
        )
        if not kept and not new:
            raise BadInput(f"none of the {len(named)} photos could be read: {next(iter(failed.values()))}")
        return Extracted(len(kept) + len(new), len(new), failed)


def extract_collection(
    photos: Sequence[str | Path],
    out: str | Path,
    settings: FeatureSettings | None = None,
    *,
    cluster: Pool,
    watchdog: float = WATCHDOG,
    recheck: bool = True,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Extracted:
    """Extract features of every photo of a list into the folder `out`; those of unchanged photos are kept.

    photos: folders, patterns, photos, and CSV or Parquet files with a column of paths; also in buckets.
    watchdog: seconds after which a photo hangs, and is quarantined.
    recheck: read the photos that are done, too, and extract those again whose content or mask has changed, and try
        those again that were quarantined; otherwise they stay as they are.
    overwrite: replace features that were made with other settings, instead of refusing.
    """
    need("pyarrow", "cluster", "a collection")
    if not watchdog > 0:
        raise BadInput(f"the watchdog must wait more than 0 seconds, got {watchdog:g}.")
    out = images.home(as_path(out, "the collection"))
    if out.is_file():
        raise BadInput(f"{out} is a file; a collection is a folder, so choose another name.")
    if out.is_dir() and any(out.iterdir()) and not is_begun(out):
        raise BadInput(
            f"{out} is a folder; give the name of a file in it, such as {out / 'features.h5'}, or a new folder."
        )
    settings = settings or FeatureSettings()
    named = find_addresses(photos)
    masks = find_masks(settings.mask, named)
    extract = settings.open_extractor()
    with exclusive_lock(make_folder(out)):
        sink = CollectionSink(out.absolute())
        spec = _settled(sink, named, settings, extract, cluster, watchdog, overwrite=overwrite, progress=progress)
        listed = Listed(sink.shards(named), named, masks, watchdog=watchdog)
        index = {name: shard.names for name, shard in listed.shards.items()}
        write_index(out, index)
        try:
            retry = find_changed(cluster, listed, progress) if recheck else {}
            together = max(1, min(TOGETHER, len(named) // (4 * cluster.slots())))
            todo = Todo(listed, retry, spec, together)
            work(cluster, todo, progress)
        except BaseException as stop:
            with suppress(HynetError, OSError):
                write_index(out, index)
            if isinstance(stop, KeyboardInterrupt):
                stop.add_note(f"the features that are done are kept in {out}")
            raise
        write_index(out, index)
        shutil.rmtree(out / ".parts", ignore_errors=True)
        for stray in (out / "shards").glob(".*"):  # of workers that were killed
            stray.unlink(missing_ok=True)
        return _summary(out, todo.new, named)


def is_begun(folder: Path) -> bool:
    """True for the folder of a collection, even of one whose first run was killed at once."""
    if not folder.is_dir():
        return False
    visible = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    return SETTINGS in visible or (not visible and (folder / ".lock").exists())


def _settled(
    sink: Sink,
    named: Mapping[str, str],
    settings: FeatureSettings,
    extract: PhotoExtractor,
    pool: Pool,
    watchdog: float | None = None,
    *,
    overwrite: bool,
    progress: Progress,
) -> ExtractionSpec:
    """Take the place for these settings, and find the orientation that is still open."""
    patchwise = extract if isinstance(extract, Extractor) else None
    # Who calibrates or trains on between two runs does not mix two kinds.
    settings = settings.for_many_photos().replace(support=patchwise.support if patchwise else None)
    weights = weights_of(settings)
    if patchwise and patchwise.orientation == "auto":
        known = None if overwrite else earlier_orientation(sink)  # photos that are added must not change it
        settings = settings.replace(orientation=known or "auto")
    claim(sink, settings, weights, overwrite)
    if patchwise and settings.orientation == "auto":
        found = _orientation(named, sampling_model(settings.model), pool, watchdog, progress)
        settings = settings.replace(orientation=found)
        claim(sink, settings, weights, overwrite)
    if patchwise:
        extract = patchwise.turned_as(settings.orientation)
    return ExtractionSpec(
        _with_absolute_paths(settings),
        weights,
        settings.to_json(weights),
        extract.ratio,
        getattr(extract, "thresholds", {}),
        sink.in_collection,
        opened=extract if isinstance(pool, InProcess) else None,
    )


def _orientation(named: Mapping[str, str], model: str, pool: Pool, watchdog: float | None, progress: Progress) -> str:
    """Find the orientation that suits the photos by samples of some; of one alone nothing is known."""
    if len(named) < 2:
        return "gradient"
    names = list(named)
    photos = [ListedPhoto(names[k], named[names[k]]) for k in some_of(len(names))]
    batches = iter([Batch(SAMPLE, model, (photo,), watchdog) for photo in photos])
    found = {}
    for count, (batch, result) in enumerate(run_batches(pool, partial(next, batches, None)), start=1):
        if not isinstance(result, Failed) and result[0] is not None:
            found[batch.items[0].name] = result[0]
        progress(count, len(photos), SAMPLING)
    return "gradient" if are_rotated([found[photo.name] for photo in photos if photo.name in found]) else "upright"


def _with_absolute_paths(settings: FeatureSettings) -> FeatureSettings:
    """Return the settings with weights by paths that workers understand, who work in folders of their own."""

    def found(path: str) -> str:
        is_path = ("/" in path or Path(path).suffix) and Path(path).exists()
        return str(Path(path).absolute()) if is_path else path

    extractor = settings.extractor if settings.extractor is None else found(settings.extractor)
    settings = settings.replace(detector=found(settings.detector), model=found(settings.model))
    return settings.replace(shape=found(settings.shape), extractor=extractor)


def _pool(jobs: int, photos: int) -> AbstractContextManager[Pool]:
    """Processes that share the cores, or this process alone."""
    if min(jobs, photos) < 2:
        return nullcontext(InProcess())
    return open_pool("local", jobs, threads=max(1, len(cores()) // jobs))


def _summary(out: Path, new: int, listed: Container[str]) -> Extracted:
    rows = read_index(out / INDEX, ["photo", "status", "error"])
    failed: dict[str, dict[str, str]] = {"unreadable": {}, "quarantined": {}}
    for photo, status, error in zip(*rows.values(), strict=True):
        if status in failed and photo in listed:  # what has left the list is nobody's concern
            failed[status][photo] = error
    count = rows["status"].count("done")
    if not count:
        why = next((why for each in failed.values() for why in each.values()), "run it again.")
        raise BadInput(f"none of the {len(rows['photo'])} photos could be used: {why}")
    return Extracted(count, new, failed["unreadable"], failed["quarantined"], len(list((out / "shards").glob("*.h5"))))
