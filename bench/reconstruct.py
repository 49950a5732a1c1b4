"""Features, matches and verification of 24 photos: ours against pycolmap's own SIFT, on the CPU.

The photos of the folder in HYNET_PHOTOS, or rendered ones. Mapping is COLMAP's in all of them, on all cores, in rows of
its own. So are the keypoints: COLMAP keeps as many places as it is asked for, some of them with two orientations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import cv2

from bench import Measurement
from hynet import images
from hynet.datasets import synthetic
from hynet.features.settings import FeatureSettings
from hynet.runtime.machine import cores
from hynet.sfm import colmap
from hynet.sfm.colmap.programs import extract_sift, match_sift
from hynet.sfm.reconstruct import reconstruct

PHOTOS = 24
KEYPOINTS = 3000
LONGEST_SIDE = 1120
MODELS = ("light", "default")
UNITS = {
    "features": "s of it",
    "matches": "s of it",
    "mapping": "s more",
    "features, all cores": "core s",  # what a machine that others use says more truly
    "matches, all cores": "core s",
    "keypoints": "a photo",
    "registered": "photos",
    "points": "points",
}


def measure(
    *,
    count: int = PHOTOS,
    max_keypoints: int = KEYPOINTS,
    longest_side: int = LONGEST_SIDE,
    models: Sequence[str] = MODELS,
) -> list[Measurement]:
    with TemporaryDirectory() as scratch:
        work = Path(scratch)
        photos = bench_photos(work / "photos", count, longest_side)
        made = {"pycolmap's SIFT": _by_colmap(photos, work, max_keypoints)}
        made |= {f"hynet, {model}": _by_us(photos, work / model, max_keypoints, model) for model in models}
    return [
        *(Measurement(name, one["features"] + one["matches"], "s") for name, one in made.items()),
        *(
            Measurement(f"{name}: {what}", one[what], unit)
            for what, unit in UNITS.items()
            for name, one in made.items()
        ),
    ]


def _by_colmap(photos: Path, work: Path, max_keypoints: int) -> Mapping[str, float]:
    database = work / "sift.db"
    colmap.pycolmap()  # whose import is nobody's work
    clock = StageClock()
    with colmap.opened(database):
        pass  # made empty
    extract_sift(database, photos, max_keypoints)
    clock.stop("features")
    match_sift(database)
    clock.stop("matches")
    model = colmap.as_arrays(colmap.map_photos(database, asked=colmap.MappingTask(threads=len(cores()))))
    clock.stop("mapping")
    found = {"keypoints": _keypoints(database), "registered": len(model.photos), "points": len(model.xyz)}
    return {**clock.seconds, **found}


def _by_us(photos: Path, out: Path, max_keypoints: int, model: str) -> Mapping[str, float]:
    clock = StageClock()
    settings = FeatureSettings(model=model, max_keypoints=max_keypoints)
    done = reconstruct(photos, out, settings=settings, mapper_threads=len(cores()), progress=clock.watch)
    clock.stop("mapping")
    found = {"keypoints": _keypoints(out / "database.db"), "registered": done.registered, "points": done.points}
    return {**clock.seconds, **found}


def _keypoints(database: Path) -> float:
    """In a photo, on average."""
    return mean(colmap.read_funnel(database).keypoints.values())


class StageClock:
    """Wall time, and the time that this process and those it started and ended spent on all cores."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = self._now()

    def stop(self, what: str) -> None:
        now = self._now()
        self.seconds[what] = now[0] - self._last[0]
        self.seconds[f"{what}, all cores"] = now[1] - self._last[1]
        self._last = now

    def watch(self, done: int, total: int, what: str) -> None:
        """Progress of `reconstruct`: the first pair matched ends the features, the first photo mapped the matches."""
        ended = {"matching": "features", "mapping": "matches"}.get(what)
        if ended is not None and ended not in self.seconds:
            self.stop(ended)

    def _now(self) -> tuple[float, float]:
        spent = os.times()
        return spent.elapsed, spent.user + spent.system + spent.children_user + spent.children_system


def bench_photos(folder: Path, count: int, longest_side: int) -> Path:
    """`count` pictures of `longest_side` pixels."""
    folder.mkdir()
    given = os.environ.get("HYNET_PHOTOS")
    if given:
        views = [images.shrink(images.read(path), longest_side)[0] for path in images.list_photos(given)[:count]]
    else:
        views = list(synthetic.scene(seed=1, photos=count, size=(longest_side, longest_side * 3 // 4)).photos)
    for number, view in enumerate(views):
        cv2.imwrite(str(folder / f"{number:02}.jpg"), view, [cv2.IMWRITE_JPEG_QUALITY, 95])
    return folder
