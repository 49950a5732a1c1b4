"""Reconstruction from descriptors alone: the ETH benchmark (Schönberger et al. 2017), the paper's Table 2.

Every patch descriptor has the same keypoints and patches; all pairs of photos are matched; the largest model counts.
Two readings of the protocol are in use, and both are here: mutual nearest neighbours with a ratio test of 0.8, which is
the benchmark's own, and mutual nearest neighbours only, which many end-to-end papers used.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import h5py
import numpy as np

from ... import images, sfm
from ... import matching as matchers
from ...datasets import scenes
from ...errors import BadInput, DataNotFound
from ...features.addresses import name_photos
from ...features.hloc_file import write_group
from ...geometry import metrics
from ...runtime import cache, fingerprints
from ...runtime.files import atomic_write
from ...sfm import camera_errors as alignment
from ...sfm import colmap
from ...sfm.colmap.programs import dense_points
from ...sfm.colmap.reading import read_model
from ...sfm.reconstruct import Reconstructed, reconstruct
from ...types import Array, Progress, silent
from .. import comparing, papers
from ..contestants import SANITY, Model
from ..methods import KeypointOptions, Method, Protocol, open_methods
from ..results import Evaluation
from . import published
from .published import Given

READINGS = {"": 0.8, ", mutual only": 1.0}  # what a row's name ends in -> ratio
COUNTS = ("registered", "points", "observations", "inlier_pairs", "inlier_matches")
COLUMNS = (
    "registered",
    "points",
    "track_length",
    "reprojection_error",
    "observations",
    "observations_per_photo",
    "inlier_pairs",
    "inlier_matches",
)
FORMATS = {
    **dict.fromkeys((*COUNTS, "observations_per_photo", "dense_points"), ".0f"),
    "rotation_error": ".3f",
    "position_error": ".3f",
}


@dataclass(frozen=True)
class EthScene:
    """Photos, and the cameras of those whose truth is known."""

    name: str
    folder: Path
    truth: Mapping[str, Array]  # name of a photo in the folder -> (3, 4) cam_from_world
    camera: str = "shared"  # as `reconstruct` takes it: the true one, where all photos have the same


@dataclass(frozen=True)
class Outcome:
    """A method's model of one scene: its numbers, and the errors of registered cameras whose truth is known."""

    numbers: Reconstructed | None  # None: no model
    degrees: Array  # (V,)
    apart: Array  # (V,) in % of the largest distance between two true cameras
    dense: int | None = None  # fused points, where COLMAP can make them


@dataclass(frozen=True)
class EthOptions(KeypointOptions):
    """Keypoints and the protocol."""

    # `published` is the benchmark's own pipeline (its keypoints, pairs and cameras where given, COLMAP unchanged);
    # `ours` uses the true camera where it is known, and runs one more, robust bundle adjustment on every model.
    protocol: Literal["published", "ours"] = "published"
    max_keypoints: int = 8192  # maximum per photo


def evaluate(models: Sequence[Model], data: Path, options: EthOptions, progress: Progress = silent) -> Evaluation:
    """Models from matches, on one scene or on each that lies in the folder; with camera errors where they are known."""
    colmap.pycolmap()
    found = find_scenes(data)
    photos = [photo for scene in found for photo in name_photos(scene.folder).values()]
    given = {scene.name: published.given(scene.folder) for scene in found if options.protocol == "published"}
    brought = {photo: file for scene in given.values() for photo, file in scene.keypoints.items()}
    shared = options.shared(given=brought, read_given=published.read_keypoints if brought else None)
    methods = open_methods(models, shared, files=options.features, photos=photos)
    if matched := next((method.name for method in methods if method.matcher is not None), None):
        raise BadInput(f"eth matches all features by nearest neighbours; leave out {matched}, or its matcher.")
    outcomes: dict[str, dict[str, Outcome]] = {}  # row -> scene -> outcome
    for method in methods:
        for scene in found:
            folder = _place(scene, given.get(scene.name), method)
            file = _write_features(method, scene, folder, progress)
            for reading, ratio in READINGS.items():
                if reading and comparing.descriptor(method.name) in SANITY:
                    continue  # minutes of RANSAC over thousands of chance matches, to find nothing again
                outcome = _outcome(scene, given.get(scene.name), file, folder, ratio, progress)
                outcomes.setdefault(f"{method.name}{reading}", {})[scene.name] = outcome
    return _evaluation(data, found, outcomes, given, shared)


# --- Scenes ---


def find_scenes(data: Path) -> list[EthScene]:
    """With cameras as in `datasets.scenes`; else the folder's own photos, or those of each folder in it."""
    try:
        return [_with_truth(scene) for scene in scenes.load(data)]
    except DataNotFound:
        homes = [data] if _photos_in(data) else sorted(data.iterdir()) if data.is_dir() else []
    found = [EthScene(home.resolve().name, folder, {}) for home in homes if (folder := _photos_in(home)) is not None]
    if not found:
        raise DataNotFound(f"no photos in {data}; give a folder of photos, or of scenes with their photos in images/.")
    return found


def _photos_in(folder: Path) -> Path | None:
    """The folder itself or its `images`, whichever holds photos."""
    for place in (folder / "images", folder):
        if place.is_dir() and any(path.suffix.lower() in images.SUFFIXES for path in place.iterdir()):
            return place
    return None


def _with_truth(scene: scenes.Scene) -> EthScene:
    folders = {view.photo.parent for view in scene.views.values()}
    if len(folders) > 1:
        raise BadInput(f"the photos of {scene.name} lie in several folders; put them into one.")
    truth = {
        view.photo.name: np.column_stack([view.cam_from_world.rotation, view.cam_from_world.translation])
        for view in scene.views.values()
    }
    first, *others = (view.K for view in scene.views.values())
    same = all(np.allclose(first, K) for K in others)
    return EthScene(scene.name, folders.pop(), truth, colmap.pinhole_text(first) if same else "shared")


# --- One method on one scene ---


def _place(scene: EthScene, given: Given | None, method: Method) -> Path:
    """A folder that is another one when the photos, the method or our code change."""
    mark = fingerprints.values(
        {
            "method": method.fingerprint or method.name,
            "photos": {name: fingerprints.content(photo) for name, photo in name_photos(scene.folder).items()},
            "camera": scene.camera if given is None else [fingerprints.content(file) for file in given.files()],
            "code": fingerprints.code(colmap, matchers, sfm, *([] if given is None else [published])),
        }
    )
    protocol = "ours" if given is None else "published"
    name = f"{scene.name}-{Path(method.name).name}-{protocol}".replace("/", "-")
    place = cache.folder().parent / "eth" / f"{name}-{mark[:8]}"
    if method.fingerprint is None:  # what an earlier run left under its name may be another method's
        shutil.rmtree(place, ignore_errors=True)
    return place


def _write_features(method: Method, scene: EthScene, folder: Path, progress: Progress) -> Path:
    file = folder / "features.h5"
    if not file.exists():
        named = name_photos(scene.folder)
        with atomic_write(file) as temporary, h5py.File(temporary, "w") as stored:
            for done, (name, photo) in enumerate(named.items()):
                progress(done, len(named), f"{method.name}: {scene.name}")
                write_group(stored, name, method.features(photo))
    return file


def _outcome(
    scene: EthScene, given: Given | None, file: Path, folder: Path, ratio: float, progress: Progress
) -> Outcome:
    out = folder / f"ratio-{ratio:g}"
    try:
        if given is not None:
            done = published.reconstruct(scene.folder, out, file, given, ratio, progress)
        else:
            done = reconstruct(
                scene.folder,
                out,
                features=file,
                pairs="exhaustive",
                ratio=ratio,
                camera=scene.camera,
                progress=progress,
            )
    except colmap.NotReconstructed:
        return Outcome(None, np.zeros(0), np.zeros(0))
    dense = dense_points(out, scene.folder, out / "dense")
    model = [photo for photo in read_model(out).photos if photo.name in scene.truth]
    if len(model) < 3:  # two cameras can always be laid over two others
        return Outcome(done, np.zeros(0), np.zeros(0), dense)
    truth = np.stack([scene.truth[photo.name] for photo in model])
    degrees, apart = alignment.camera_errors(np.stack([photo.cam_from_world for photo in model]), truth)
    places = alignment.centres(np.stack(list(scene.truth.values())))
    extent = np.linalg.norm(places[:, None] - places[None], axis=-1).max()
    return Outcome(done, degrees, 100 * apart / extent, dense)


# --- The table ---


def _evaluation(
    data: Path,
    found: Sequence[EthScene],
    outcomes: Mapping[str, Mapping[str, Outcome]],
    given: Mapping[str, Given],
    shared: Protocol,
) -> Evaluation:
    rows = {name: _row(list(own.values())) for name, own in outcomes.items()}
    intervals = {name: _intervals(list(own.values())) for name, own in outcomes.items()}
    if len(found) > 1:  # the rows of all scenes together first, then each scene's
        for scene in found:
            for name, own in outcomes.items():
                rows[f"{scene.name}: {name}"] = _row([own[scene.name]])
                intervals[f"{scene.name}: {name}"] = _intervals([own[scene.name]])
    known = any(scene.truth for scene in found)
    dense = any(row["dense_points"] is not None for row in rows.values())
    protocol = "published" if given else "ours"
    beside = papers.eth([scene.name for scene in found])
    same_data = bool(given) and papers.is_eth({scene.name: _sizes(scene) for scene in found})
    aside = [] if same_data or beside is None else [papers.eth_note(beside)]
    return Evaluation(
        "eth",
        str(data),
        [*COLUMNS, *(("rotation_error", "position_error") if known else ()), *(("dense_points",) if dense else ())],
        rows,
        intervals,
        title=f"Reconstruction of {', '.join(scene.name for scene in found)}, protocol {protocol}",
        paper=beside if same_data else None,
        formats=FORMATS,
        lower_is_better=("reprojection_error", "rotation_error", "position_error"),
        notes=[*_notes(shared, given, known, dense, len(found)), *aside],
    )


def _sizes(scene: EthScene) -> tuple[int, int]:
    """Photos, and the longer side of the first."""
    photos = list(name_photos(scene.folder).values())
    return len(photos), max(images.read(photos[0]).shape)


def _row(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Counts are added over scenes, means are taken over points or photos."""
    made = [outcome.numbers for outcome in outcomes if outcome.numbers is not None]
    row: dict[str, float | None] = {key: float(sum(getattr(each, key) for each in made)) for key in COUNTS}
    points, registered = (sum(getattr(each, key) for each in made) for key in ("points", "registered"))
    observations = sum(each.observations for each in made)
    row["track_length"] = observations / points if points else None
    row["observations_per_photo"] = observations / registered if registered else None
    row["reprojection_error"] = sum(each.reprojection_error * each.points for each in made) / points if points else None
    fused = [outcome.dense for outcome in outcomes if outcome.dense is not None]
    row["dense_points"] = float(sum(fused)) if fused else None
    for key, errors in _errors(outcomes).items():
        row[key] = float(errors.mean()) if len(errors) else None
    return row


def _intervals(outcomes: Sequence[Outcome]) -> dict[str, metrics.Interval]:
    return {key: metrics.bootstrap(errors) for key, errors in _errors(outcomes).items() if len(errors)}


def _errors(outcomes: Sequence[Outcome]) -> dict[str, Array]:
    return {
        "rotation_error": np.concatenate([outcome.degrees for outcome in outcomes]),
        "position_error": np.concatenate([outcome.apart for outcome in outcomes]),
    }


PUBLISHED = (
    "Protocol published, the benchmark's own: {given}. Mutual nearest neighbours and a ratio test of 0.8; rows 'mutual "
    "only' without the ratio test, as many end-to-end papers did. Pairs of fewer than 15 matches drop out: COLMAP "
    "wants as many inliers. COLMAP verifies, maps and refines cameras as it does by default; nothing is adjusted after."
)
OURS = (
    "Protocol ours: all pairs, mutual nearest neighbours and a ratio test of 0.8; rows 'mutual only' without the ratio "
    "test. The true camera where it is given and all photos have it; else one for all photos of a size, its focal "
    "length from EXIF or found. COLMAP's mapper, then one robust adjustment of all."
)


def _notes(shared: Protocol, given: Mapping[str, Given], known: bool, dense: bool, scenes_found: int) -> list[str]:
    brought = "; ".join(dict.fromkeys(scene.summary() for scene in given.values()))
    notes = [
        shared.summary(),
        PUBLISHED.format(given=brought) if given else OURS,
        "More points that are seen less often, or are off by more, are not better: look at all columns.",
    ]
    if not dense:
        notes.append("No dense points: they need a pycolmap built with CUDA.")
    if known:
        notes.append(
            "rotation_error (degrees) and position_error (% of the largest distance between two true cameras): mean "
            "over registered photos after the best similarity, intervals by bootstrap over photos."
        )
    if scenes_found > 1:
        notes.append("The first rows are of all scenes together.")
    return notes
