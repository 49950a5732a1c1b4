"""Photos by the million -> a collection of features, on one machine or many.

The list says which photo is in which shard, the shard says which photos are done; so a run can be stopped at any moment
and go on elsewhere, and neither the number of workers nor what befell them shows in the result.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from .. import images
from ..errors import BadInput, HynetError, need
from ..runtime.files import as_path, atomic_write, make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.pool import Batch, Failed, Pool, run_batches
from ..types import Progress, silent
from .collection import INDEX, SHARD, read_index, write_index
from .extractors.patchwise import Extractor
from .folder import find_masks, settings_problem, settled_orientation, weights_of
from .manifest import find_addresses
from .settings import FeatureSettings
from .shards import LOOK, ListedPhoto, Made
from .standing import LOOKING, better_oriented, looking_model, some_of
from .todo import Listed, Todo, find_changed, work

TOGETHER = 16  # photos in a batch at most: what a worker that is killed loses
WATCHDOG = 60.0  # seconds that a photo may take


@dataclass(frozen=True)
class Collected:
    """What is in a collection now."""

    photos: int  # with features
    new: int  # of this run
    shards: int
    unreadable: Mapping[str, str]  # name -> why, of the photos of the list
    quarantined: Mapping[str, str]  # name -> what became of its worker


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
) -> Collected:
    """Features of every photo of a list into the folder `out`; those of photos that have not changed are kept.

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
    if out.is_dir() and any(out.iterdir()) and not (out / "settings.json").exists():
        raise BadInput(
            f"{out} is a folder; give the name of a file in it, such as {out / 'features.h5'}, or a new folder."
        )
    named = find_addresses(photos)
    settings = settings or FeatureSettings()
    masks = find_masks(settings.mask, {name: Path(name) for name in named})
    extract = settings.open_extractor()  # a wrong name is told here, before anything is written
    with exclusive_lock(make_folder(out)):
        note = out / "settings.json"
        before = note.read_text(errors="replace") if note.exists() else None
        if isinstance(extract, Extractor) and extract.orientation == "auto":
            settled = None if overwrite else settled_orientation(before)
            model = looking_model(settings.model)
            found = settled or _orientation(named, model, cluster, watchdog, progress)
            settings = settings.replace(orientation=found)
        support = extract.support if isinstance(extract, Extractor) else None
        settings = settings.for_many_photos().replace(support=support)
        weights = weights_of(settings)
        _claim(out, before, settings, weights, overwrite)
        shards = _shards(out, named)
        write_index(out, shards.items())
        made = Made(
            _absolute(settings), weights, settings.to_json(weights), extract.ratio, getattr(extract, "thresholds", {})
        )
        listed = Listed(out, shards, named, masks, watchdog)
        try:
            again = find_changed(cluster, listed, progress) if recheck else {}
            together = max(1, min(TOGETHER, len(named) // (4 * cluster.slots())))
            new = work(cluster, Todo(listed, again, made, together), progress)
        except BaseException as stop:
            with suppress(HynetError, OSError):
                write_index(out, shards.items())
            if isinstance(stop, KeyboardInterrupt):
                stop.add_note(f"the features that are done are kept in {out}")
            raise
        write_index(out, shards.items())
        shutil.rmtree(out / ".parts", ignore_errors=True)
        for stray in (out / "shards").glob(".*"):  # of workers that were killed
            stray.unlink(missing_ok=True)
        return _collected(out, new, named)


def _orientation(named: Mapping[str, str], model: str, cluster: Pool, watchdog: float, progress: Progress) -> str:
    """As `orientation_of` finds it; a photo that cannot even be looked at is left out."""
    if len(named) < 2:
        return "gradient"
    names = list(named)
    photos = [ListedPhoto(names[k], named[names[k]], k) for k in some_of(len(names))]
    batches = iter([Batch(LOOK, model, (photo,), watchdog) for photo in photos])
    seen = {}
    for batch, result in run_batches(cluster, partial(next, batches, None)):
        if not isinstance(result, Failed) and result[0] is not None:
            seen[batch.items[0].place] = result[0]
        progress(len(seen), len(photos), LOOKING)
    return "gradient" if better_oriented([seen[place] for place in sorted(seen)]) else "upright"


def _claim(out: Path, before: str | None, settings: FeatureSettings, weights: str | None, overwrite: bool) -> None:
    """What is there is taken up only if it was made alike."""
    wrong = settings_problem(before, settings, weights, out) if before is not None else None
    if wrong:
        if not overwrite:
            raise wrong
        for folder in ("shards", ".parts", "vectors"):
            shutil.rmtree(out / folder, ignore_errors=True)
        (out / INDEX).unlink(missing_ok=True)
    with atomic_write(out / "settings.json") as temporary:
        temporary.write_text(settings.to_json(weights))


def _shards(out: Path, named: Mapping[str, str]) -> dict[str, list[str]]:
    """Shard -> its photos. Those of an earlier run stay where they are, new ones come after them."""
    shards: dict[str, list[str]] = {}
    if (out / INDEX).exists():
        known = read_index(out / INDEX, ["photo", "shard"])
        for photo, shard in zip(known["photo"], known["shard"], strict=True):
            shards.setdefault(shard, []).append(photo)
    else:  # it was deleted, but finished shards have their rows beside them
        for file in sorted((out / "shards").glob("[0-9]*.h5")):
            shards[f"shards/{file.name}"] = read_index(file.with_suffix(".parquet"), ["photo"])["photo"]
    placed = {name for names in shards.values() for name in names}
    new = [name for name in named if name not in placed]
    first = 1 + max((int(Path(shard).stem) for shard in shards), default=-1)
    for number, start in enumerate(range(0, len(new), SHARD), first):
        shards[f"shards/{number:05}.h5"] = new[start : start + SHARD]
    return shards


def _absolute(settings: FeatureSettings) -> FeatureSettings:
    """Weights by paths that workers understand, who work in folders of their own."""

    def found(path: str | None) -> str | None:
        is_path = path is not None and ("/" in path or Path(path).suffix) and Path(path).exists()
        return str(Path(path).absolute()) if path is not None and is_path else path

    return replace(
        settings,
        detector=found(settings.detector) or settings.detector,
        model=found(settings.model) or settings.model,
        shape=found(settings.shape) or settings.shape,
        extractor=found(settings.extractor),
    )


def _collected(out: Path, new: int, listed: Container[str]) -> Collected:
    told = read_index(out / INDEX, ["photo", "status", "error"])
    wrong: dict[str, dict[str, str]] = {"unreadable": {}, "quarantined": {}}
    for photo, status, error in zip(*told.values(), strict=True):
        if status in wrong and photo in listed:  # what has left the list is nobody's concern
            wrong[status][photo] = error
    count = told["status"].count("done")
    if not count:
        why = next((why for each in wrong.values() for why in each.values()), "run it again.")
        raise BadInput(f"none of the {len(told['photo'])} photos could be used: {why}")
    shards = len(list((out / "shards").glob("*.h5")))
    return Collected(count, new, shards, wrong["unreadable"], wrong["quarantined"])
