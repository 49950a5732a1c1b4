"""Folders of photos -> one patch set in PhotoTour's own format, with correspondence from geometry.

SET/patches*.bmp, info.txt, interest.txt, m50_*.txt   what any PhotoTour reader reads, all scenes one after the other
SET/scene.json                                        which rows come from which scene, settings, what was skipped
SET/correspondences.npz                               first, second, hard: every pair of rows that geometry vouches for
SET/.parts/NAME/                                      one finished scene each: what makes a second run short
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import BadInput, CannotWrite, DataNotFound, HynetError, MissingExtra
from ..runtime import fingerprints
from ..runtime.files import make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.long_runs import note_what_is_kept
from ..runtime.machine import cores
from ..runtime.pool import Batch, Failed, Pool, open_pool, run_batches
from ..runtime.processes import one_by_one
from ..sfm import colmap
from ..types import Progress, silent
from . import assembly
from .part import PatchSettings as PatchSettings
from .part import files_of, make_part, noted, photos_of, write_failed
from .sheet import sheet as sheet

DEFAULTS = PatchSettings()
SCENE_SECONDS = 6 * 3600.0  # that a scene may take on a cluster


def make(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    settings: PatchSettings = DEFAULTS,
    hard_share: float = 1 / 3,
    jobs: int | None = None,
    mapper_threads: int = 1,
    cluster: Pool | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Make the set, or extend it by new folders; each folder is one scene. Returns what scene.json says.

    overwrite: make every scene again where the set was made with other settings, instead of refusing.
    mapper_threads: of each scene; more than one is faster, but the same photos then give a slightly different set.
    cluster: makes the scenes, one a task, in place of processes of ours.

    hard_share: at least this share of the corresponding pairs are ones that SIFT matching missed (as far as there are
    any): points that only hold easy pairs are left out until it is so. The test pairs hold exactly this share.
    """
    if mapper_threads < 1:
        raise BadInput(f"a scene is mapped by at least 1 thread, got {mapper_threads}.")
    if not 0 <= hard_share <= 1:
        raise BadInput(f"the share of hard pairs must be from 0 to 1, got {hard_share:g}.")
    if not settings.support > 0:
        raise BadInput(f"the support must be more than 0 sigmas, got {settings.support:g}.")
    if not 0 <= settings.elliptic <= 1:
        raise BadInput(f"the share of elliptic regions must be from 0 to 1, got {settings.elliptic:g}.")
    if settings.max_keypoints < 1:
        raise BadInput(f"a photo needs at least 1 keypoint, got {settings.max_keypoints}.")
    out = Path(out)
    parts = out / ".parts"
    scenes = _named(folders)
    colmap.pycolmap()  # fails before anything is read if the package is missing
    with exclusive_lock(make_folder(out)), note_what_is_kept(out):
        if _made_otherwise(parts, settings, overwrite):
            if others := sorted(assembly.finished(parts).keys() - scenes.keys()):
                raise BadInput(
                    f"{out} also holds {', '.join(others)}, which must be made again: give their folders, too."
                )
            shutil.rmtree(parts)
        todo = {name: photos for name, photos in scenes.items() if not _is_done(parts / name, photos)}
        count = max(1, min(jobs or len(cores()), len(todo)))
        threads = 1 if cluster else max(1, len(cores()) // count)
        with nullcontext(cluster) if cluster else open_pool("local", count, threads=threads) as pool:
            seconds = SCENE_SECONDS if cluster else None
            _make_parts(pool, todo, parts, settings, (threads, mapper_threads), seconds, progress)
        progress(len(todo), len(todo), "writing the set")
        return assembly.assemble(out, noted(settings), hard_share)


def _named(folders: Sequence[str | Path]) -> dict[str, Path]:
    scenes: dict[str, Path] = {}
    for folder in map(Path, folders):
        name = folder.resolve().name
        if not folder.is_dir():
            raise DataNotFound(f"no folder {folder}; give folders of photos, one a scene.")
        if name in scenes:
            raise BadInput(f"two scenes are called {name} ({scenes[name]} and {folder}); rename one folder.")
        scenes[name] = folder
    if not scenes:
        raise BadInput("no folder of photos; give at least one, each is a scene.")
    return scenes


def _made_otherwise(parts: Path, settings: PatchSettings, overwrite: bool) -> bool:
    """True if scenes there were made with other settings, which only `overwrite` allows."""
    # A setting that is younger than a part had its default.
    theirs = [asdict(DEFAULTS) | part["settings"] for part in assembly.finished(parts).values()]
    now = noted(settings)
    changed = next((fingerprints.difference(before, now) for before in theirs if before != now), "")
    if changed and not overwrite:
        raise BadInput(
            f"{parts.parent} was made with other settings ({changed}); choose another folder, or --overwrite to make "
            "every scene again."
        )
    return bool(changed)


def _is_done(part: Path, folder: Path) -> bool:
    if not (part / "part.json").exists():
        return False
    return assembly.read(part / "part.json")["files"] == files_of(folder)


def _make_parts(
    pool: Pool,
    todo: Mapping[str, Path],
    parts: Path,
    settings: PatchSettings,
    threads: tuple[int, int],
    seconds: float | None,
    progress: Progress,
) -> None:
    """Make every scene, the longest first; on a cluster, workers see the folders under the same names."""
    context = parts.absolute(), settings, *threads
    longest_first = sorted(todo.items(), key=lambda item: -len(photos_of(item[1])))
    batches = (
        Batch(f"{__name__}:make_scenes", context, ((name, folder.absolute()),), seconds)
        for name, folder in longest_first
    )
    progress(0, len(todo), "reconstructing")
    for count, (batch, result) in enumerate(run_batches(pool, lambda: next(batches, None)), start=1):
        name, folder = batch.items[0]
        why = result.why if isinstance(result, Failed) else result[0]
        if why is not None:
            write_failed(name, folder, parts, settings, why)
        progress(count, len(todo), name)


def make_scenes(context: tuple[Path, PatchSettings, int, int], scenes: Sequence[tuple[str, Path]]) -> list[str | None]:
    """Make scenes in a worker; say why each failed, if it did. Faults of the worker are raised: another may do it."""
    parts, settings, threads, mapper_threads = context
    reasons: list[str | None] = []
    for name, folder in one_by_one(scenes):
        try:
            make_part(name, folder, parts, settings, threads, mapper_threads)
            reasons.append(None)
        except (CannotWrite, MissingExtra):
            raise
        except HynetError as error:
            reasons.append(str(error))
    return reasons
