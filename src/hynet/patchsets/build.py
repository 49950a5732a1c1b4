"""Folders of photos -> one patch set in PhotoTour's own format, with correspondence from geometry.

SET/patches*.bmp, info.txt, interest.txt, m50_*.txt   what any PhotoTour reader reads, all scenes one after the other
SET/scene.json                                        which rows come from which scene, settings, what was skipped
SET/correspondences.npz                               first, second, hard: every pair of rows that geometry vouches for
SET/.parts/NAME/                                      one finished scene each: what makes a second run short
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from .. import colmap, images
from ..datasets import ubc
from ..errors import BadInput, CannotWrite, DataNotFound, HynetError, MissingExtra
from ..patches import SUPPORT_SIGMAS, cut
from ..sfm import sift_for_patches as sfm
from ..system import fingerprints
from ..system.batches import Batch, Failed, done
from ..system.cluster import Cluster
from ..system.files import make_folder, whole
from ..system.locks import alone
from ..system.machine import cores
from ..system.processes import end_with, one_by_one
from ..types import Array, Progress, silent
from . import assembly, correspondence
from .sheet import sheet as sheet


@dataclass(frozen=True)
class PatchSettings:
    """What a scene is made with; scenes made with different settings do not mix in one set."""

    support: float = SUPPORT_SIGMAS  # width of a patch in detector sigmas
    max_keypoints: int = 6000  # a photo


DEFAULTS = PatchSettings()
SCENE_SECONDS = 6 * 3600.0  # that a scene may take on a cluster
Files = list[list[str | None]]  # name and fingerprint of each photo


def build(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    settings: PatchSettings = DEFAULTS,
    hard_share: float = 1 / 3,
    workers: int | None = None,
    mapping_threads: int = 1,
    cluster: Cluster | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Make the set, or extend it by new folders; each folder is one scene. Returns what scene.json says.

    overwrite: make every scene again where the set was made with other settings, instead of refusing.
    mapping_threads: of each scene; more than one is faster, but the same photos then give a slightly different set.
    cluster: who makes the scenes, one a task, in place of processes of ours.

    hard_share: at least this share of the corresponding pairs are ones that SIFT matching missed (as far as there are
    any): points that only hold easy pairs are left out until it is so. The test pairs hold exactly this share.
    """
    if mapping_threads < 1:
        raise BadInput(f"a scene is mapped by at least 1 thread, got {mapping_threads}.")
    if not 0 <= hard_share <= 1:
        raise BadInput(f"the share of hard pairs must be from 0 to 1, got {hard_share:g}.")
    out = Path(out)
    parts = out / ".parts"
    scenes = _named(folders)
    colmap.pycolmap()  # a missing package is told before anything is read
    with alone(make_folder(out)):
        if _made_otherwise(parts, settings, overwrite):
            shutil.rmtree(parts)
        todo = {name: photos for name, photos in scenes.items() if not _is_done(parts / name, photos)}
        if cluster is None:
            _make_parts(todo, parts, settings, workers, mapping_threads, progress)
        else:
            _make_parts_on(cluster, todo, parts, settings, mapping_threads, progress)
        progress(len(todo), len(todo), "writing the set")
        return assembly.assemble(out, asdict(settings), hard_share)


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
    """Whether scenes there were made with other settings, which only `overwrite` allows."""
    theirs = [part["settings"] for part in assembly.finished(parts).values()]
    now = asdict(settings)
    changed = next((fingerprints.difference(before, now) for before in theirs if before != now), "")
    if changed and not overwrite:
        raise BadInput(
            f"{parts.parent} was made with other settings ({changed}); choose another folder, or --overwrite to make "
            "every scene again."
        )
    return bool(changed)


def _is_done(part: Path, folder: Path) -> bool:
    return (part / "part.json").exists() and assembly.read(part / "part.json")["files"] == _files(folder)


def _photos(folder: Path) -> list[Path]:
    try:
        return images.list_photos(folder)
    except DataNotFound:
        return []


def _files(folder: Path) -> Files:
    """Names and contents of the photos: when they change, the scene is made again."""
    return [[str(path.relative_to(folder)), fingerprints.photo(path)] for path in _photos(folder)]


def _make_parts(
    todo: Mapping[str, Path],
    parts: Path,
    settings: PatchSettings,
    workers: int | None,
    mapping_threads: int,
    progress: Progress,
) -> None:
    """Every scene in a process of its own: they run side by side, and one that crashes takes no other with it."""
    workers = max(1, min(workers or len(cores()), len(todo)))
    threads = max(1, len(cores()) // workers), mapping_threads
    progress(0, len(todo), "reconstructing")
    running: set[subprocess.Popen[str]] = set()
    with ThreadPoolExecutor(workers) as pool:
        try:
            jobs = {
                pool.submit(_make_part_apart, name, folder, parts, settings, threads, running): name
                for name, folder in sorted(todo.items(), key=lambda item: -len(_photos(item[1])))  # the longest first
            }
            for count, job in enumerate(as_completed(jobs), start=1):
                job.result()
                progress(count, len(todo), jobs[job])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()
            raise


def _make_parts_on(
    cluster: Cluster,
    todo: Mapping[str, Path],
    parts: Path,
    settings: PatchSettings,
    mapping_threads: int,
    progress: Progress,
) -> None:
    """The same by a cluster, whose workers see the folders under the same names."""
    context = parts.absolute(), settings, mapping_threads
    longest_first = sorted(todo.items(), key=lambda item: -len(_photos(item[1])))
    scenes = iter([(name, folder.absolute()) for name, folder in longest_first])

    def source() -> Batch | None:
        scene = next(scenes, None)
        return None if scene is None else Batch(f"{__name__}:make_scenes", context, (scene,), SCENE_SECONDS)

    progress(0, len(todo), "reconstructing")
    for count, (batch, result) in enumerate(done(cluster, source), start=1):
        name, folder = batch.items[0]
        why = result.why if isinstance(result, Failed) else result[0]
        if why is not None:
            _write_failed(name, folder, parts, settings, why)
        progress(count, len(todo), name)


def make_scenes(context: tuple[Path, PatchSettings, int], scenes: Sequence[tuple[str, Path]]) -> list[str | None]:
    """In a worker: why each scene failed, if it did. What is the worker's own fault is raised: another may do it."""
    parts, settings, mapping_threads = context
    reasons: list[str | None] = []
    for name, folder in one_by_one(scenes):
        try:
            make_part(name, folder, parts, settings, 1, mapping_threads)
            reasons.append(None)
        except (CannotWrite, MissingExtra):
            raise
        except HynetError as error:
            reasons.append(str(error))
    return reasons


def _write_failed(name: str, folder: Path, parts: Path, settings: PatchSettings, why: str) -> None:
    """Without its files it does not count as done: the next run tries again."""
    _write_part(parts, {**_skipped(name, _files(folder), settings, f"failed: {why}"), "files": None})


def _make_part_apart(
    name: str,
    folder: Path,
    parts: Path,
    settings: PatchSettings,
    threads: tuple[int, int],
    running: set[subprocess.Popen[str]],
) -> None:
    # Its parent by number: if that is killed while this starts, it would take another for its parent, and go on.
    task = json.dumps([os.getpid(), name, str(folder), str(parts), asdict(settings), *threads])
    program = "import sys; from hynet.patchsets.build import _make_part_here; _make_part_here(sys.argv[1])"
    command = [sys.executable, "-c", program, task]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        running.add(process)
        _, errors = process.communicate()
        running.discard(process)
    if process.returncode not in (0, -signal.SIGINT, -signal.SIGTERM):
        why = (errors.strip().splitlines() or [f"its process ended with code {process.returncode}"])[-1]
        _write_failed(name, folder, parts, settings, why)


def _make_part_here(task: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends COLMAP at once
    parent, name, folder, parts, settings, threads, mapping_threads = json.loads(task)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    cv2.setNumThreads(threads)
    make_part(name, Path(folder), Path(parts), PatchSettings(**settings), threads, mapping_threads)


def make_part(
    name: str, folder: Path, parts: Path, settings: PatchSettings, threads: int, mapping_threads: int = 1
) -> None:
    """One scene, from its photos to SET/.parts/NAME, which appears whole. A scene that cannot be made says why."""
    files = _files(folder)  # before they are read: a change in between is noticed next time
    work = _work_folder(name, files, parts, settings)
    try:
        scene = sfm.reconstruct_sift(
            images.list_photos(folder),
            work,
            max_keypoints=settings.max_keypoints,
            threads=threads,
            mapping_threads=mapping_threads,
        )
        tracks = correspondence.tracks(scene)
        if len(tracks.photo) == 0:
            raise sfm.NotReconstructed("no keypoint was seen twice.")
    except (sfm.NotReconstructed, DataNotFound) as error:
        _write_part(parts, _skipped(name, files, settings, str(error)))
    else:
        told = {
            **_skipped(name, files, settings, None),
            "registered": len(scene.photos),
            "points": int(tracks.point[-1]) + 1,
            "patches": len(tracks.point),
            "correspondences": len(tracks.hard),
            "hard": int(tracks.hard.sum()),
            "unreadable": scene.unreadable,
        }
        _write_part(parts, told, _columns(scene, tracks), _patches(scene, tracks, settings.support))
    shutil.rmtree(work, ignore_errors=True)


def _work_folder(name: str, files: Files, parts: Path, settings: PatchSettings) -> Path:
    """Where a run that was cut off goes on, unless photos or settings are not those it began with."""
    work = parts / f".work-{name}"
    key = json.dumps([files, asdict(settings)])
    if not (work / "key.json").exists() or (work / "key.json").read_text() != key:
        shutil.rmtree(work, ignore_errors=True)
        with whole(work / "key.json") as temporary:
            temporary.write_text(key)
    return work


def _skipped(name: str, files: Files, settings: PatchSettings, reason: str | None) -> dict[str, Any]:
    return {"name": name, "settings": asdict(settings), "photos": len(files), "skipped": reason, "files": files}


def _columns(scene: sfm.SiftScene, tracks: correspondence.Tracks) -> dict[str, Array]:
    """What interest.txt wants of each row: the point as its reference photo sees it."""
    reference = np.searchsorted(tracks.point, tracks.point)  # the first row of the same point
    photo, keypoint = tracks.photo[reference], tracks.keypoint[reference]
    frames = np.stack([scene.photos[p].keypoints.frames[k] for p, k in zip(photo, keypoint, strict=True)])
    seen = sfm.Keypoints(frames, np.ones(len(frames)))
    return {
        "point": tracks.point,
        "image": photo,
        "xy": seen.xy,
        "angle": seen.angle,
        "log2_scale": np.log2(seen.sigma),
        "first": tracks.first,
        "second": tracks.second,
        "hard": tracks.hard,
    }


def _patches(scene: sfm.SiftScene, tracks: correspondence.Tracks, support: float) -> Array:
    patches = np.empty((len(tracks.point), ubc.TILE, ubc.TILE), np.uint8)
    for number, photo in enumerate(scene.photos):
        rows = np.flatnonzero(tracks.photo == number)
        patches[rows] = cut(images.read(photo.path), photo.keypoints[tracks.keypoint[rows]], ubc.TILE, support)
    return patches


def _write_part(
    parts: Path, told: Mapping[str, Any], columns: Mapping[str, Array] | None = None, patches: Array | None = None
) -> None:
    part, temporary = parts / told["name"], parts / f".new-{told['name']}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    if columns is not None and patches is not None:
        np.save(temporary / "patches.npy", patches)
        np.savez(temporary / "columns.npz", **columns)  # type: ignore[arg-type]
    (temporary / "part.json").write_text(json.dumps(told))
    shutil.rmtree(part, ignore_errors=True)
    temporary.rename(part)
