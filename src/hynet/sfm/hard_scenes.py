"""Photos that SIFT matching does not join: the same keypoints, described and matched by our own model."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .. import images
from ..features.descriptors.loading import load
from ..features.extractors.patchwise import Extractor
from ..features.hloc_file import read_h5, write_group
from ..matching.consensus import Consensus
from ..runtime.files import atomic_write
from ..runtime.processes import EndedEarly
from ..types import Keypoints, Progress, silent
from . import colmap
from .colmap import NotReconstructed
from .matches import match_all
from .pairs import choose_pairs
from .sift_for_patches import SiftMatches, SiftScene, map_scene, match_by_sift

MODEL = "default"
ENOUGH = 0.5  # of the photos; where SIFT's matches join fewer, ours are mapped as well


def reconstruct(
    photos: Sequence[Path],
    work: Path,
    *,
    max_keypoints: int,
    threads: int = 1,
    mapping_threads: int = 1,
    progress: Progress = silent,
) -> SiftScene:
    """By SIFT's matches; where they join fewer than half of the photos, by ours, if these join more."""
    matched = match_by_sift(photos, work, max_keypoints=max_keypoints, threads=threads, progress=progress)
    progress(0, 1, "mapping")
    try:
        by_sift = map_scene(matched, threads=mapping_threads)
    except NotReconstructed:
        return _map_ours(matched, threads, mapping_threads, progress)
    if len(by_sift.photos) >= ENOUGH * (len(photos) - len(matched.unreadable)):
        return by_sift
    try:
        ours = _map_ours(matched, threads, mapping_threads, progress)
    except (NotReconstructed, EndedEarly):
        return by_sift
    return max(by_sift, ours, key=lambda scene: len(scene.photos))  # SIFT's if they are equal


def _map_ours(matched: SiftMatches, threads: int, mapping_threads: int, progress: Progress) -> SiftScene:
    database = _match_again(matched, threads, progress)
    progress(0, 1, "mapping")
    return map_scene(matched, threads=mapping_threads, by=MODEL, database=database)


def _match_again(matched: SiftMatches, threads: int, progress: Progress) -> Path:
    """A database with the same photos and keypoints, and our matches; the pairs that it has already are kept."""
    features, again = matched.database.with_name("features.h5"), matched.database.with_name("again.db")
    if not features.exists():
        _describe(matched, features, progress)
    if not again.exists():
        with atomic_write(again) as temporary:
            shutil.copyfile(matched.database, temporary)
            with colmap.opened(temporary) as store:
                store.forget_pairs()
    with colmap.opened(again) as store:
        pairs = choose_pairs("auto", store.names, lambda name: read_h5(features, name).descriptors, progress)
        match_all(store, features, pairs, matcher=Consensus(), threads=threads, progress=progress)
    return again


def _describe(matched: SiftMatches, features: Path, progress: Progress) -> None:
    import h5py  # here, since most scenes do not need it

    extract = Extractor(model=load(MODEL))  # not by name: what a user calibrated for it must not change a set
    with (
        colmap.opened(matched.database) as store,
        atomic_write(features) as temporary,
        h5py.File(temporary, "w") as file,
    ):
        for done, name in enumerate(store.names):
            progress(done, len(store.names), "describing")
            frames = store.frames(name)
            keypoints = Keypoints(frames, np.ones(len(frames)))
            write_group(file, name, extract.describe(images.read(matched.folder / name), keypoints))
