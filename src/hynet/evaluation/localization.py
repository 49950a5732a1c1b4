"""New photos in a reconstruction of others: some photos of each scene are left out, and looked up in the rest.

Photos of the other scenes are looked up, too: they are to be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np

from ..datasets import scenes
from ..datasets.scenes import View
from ..errors import BadInput
from ..features.hloc_file import write_group
from ..geometry import metrics
from ..sfm import colmap
from ..sfm.camera_errors import Similarity, best_similarity, camera_errors, centres
from ..sfm.colmap.reading import read_model
from ..sfm.localisation import Map
from ..sfm.reconstruct import reconstruct
from ..types import Array, Features, Progress, silent
from . import comparing
from .contestants import SANITY, Model
from .methods import DetectorOptions, Method, open_methods
from .results import Evaluation

NEGATIVES = 10  # maximum number of photos of other scenes to look up in each map
RATIO = 0.8  # of the matches that maps are made of, as in eth
COLUMNS = ("located", "within", "rotation_error", "position_error", "inliers", "refused")
FORMATS = {"located": ".1f", "within": ".1f", "refused": ".1f", "inliers": ".0f"}
FORMATS |= dict.fromkeys(("rotation_error", "position_error"), ".3f")


@dataclass(frozen=True)
class LocalizationOptions(DetectorOptions):
    """Share of photos left out, and the keypoints."""

    every: int = 3  # one in this many photos is left out of the map
    max_keypoints: int = 4096  # maximum per photo


@dataclass(frozen=True)
class LookedUp:
    """Results of the photos that were looked up in one map."""

    located: Array  # (Q,) bool, of photos of this place
    degrees: Array  # (Q,) infinite where not located
    apart: Array  # (Q,) % of the largest distance between two cameras of the scene
    inliers: Array  # (Q,)
    refused: Array  # (S,) bool, of photos of other places; none where there was no map to look them up in


def evaluate(
    models: Sequence[Model], data: Path, options: LocalizationOptions, progress: Progress = silent
) -> Evaluation:
    """Poses of photos that were left out, against the truth, and of photos of other places, which have none."""
    colmap.pycolmap()
    if options.every < 2:
        raise BadInput(f"one of {options.every} photos would leave no map; leave out one of 2 or more.")
    found = {scene.name: list(scene.views.values()) for scene in scenes.load(data)}
    for name, views in found.items():
        left_out = len(_left_out(views, options.every))
        if not left_out or len(views) - left_out < 3:
            raise BadInput(
                f"{name} has {len(views)} photos with cameras: a map needs 3, and one of {options.every} is looked up; "
                "give more photos, or another --every."
            )
    photos = [view.photo for views in found.values() for view in views]
    protocol = options.shared()
    methods = [
        each for each in open_methods(models, protocol, photos=photos) if comparing.descriptor(each.name) not in SANITY
    ]
    outcomes: dict[str, list[LookedUp]] = {}
    for method in methods:
        for name, views in found.items():
            others = [view.photo for other, them in found.items() if other != name for view in them]
            progress(len(outcomes), len(methods), f"{method.name}: {name}")
            outcomes.setdefault(method.name, []).append(_looked_up(method, views, others, options))
    looked_up = next(iter(outcomes.values()), [])
    return Evaluation(
        "localization",
        str(data),
        COLUMNS,
        {name: _row(own) for name, own in outcomes.items()},
        {name: _intervals(own) for name, own in outcomes.items()},
        title=f"Localisation in {', '.join(found)}",
        formats=FORMATS,
        lower_is_better=("rotation_error", "position_error"),
        notes=[
            protocol.summary(),
            f"One photo of {options.every} is left out of the map and looked up in it, with its true focal length "
            f"({sum(len(each.located) for each in looked_up)} photos). "
            "located: % of them; within: % of them within 1 degree and 1% of the scene, which is the largest distance "
            "between two of its cameras; rotation_error (degrees), position_error (% of the scene), inliers: medians "
            "over those that were located. The map is made with true focal lengths, and laid over the true cameras by "
            "its own.",
            f"refused: % of photos of other scenes ({sum(len(each.refused) for each in looked_up)} photos) that are "
            "said to be of another place. Intervals by bootstrap over photos.",
        ],
    )


class _Extractor:
    """A method as what a map extracts queries with."""

    ratio: float | None = RATIO

    def __init__(self, features: Callable[[Path], Features]) -> None:
        self._features = features

    def __call__(self, photo: str | Path | Array) -> Features:
        assert isinstance(photo, str | Path)
        return self._features(Path(photo))


def _looked_up(method: Method, views: Sequence[View], others: Sequence[Path], options: LocalizationOptions) -> LookedUp:
    left_out = _left_out(views, options.every)
    known = [view for view in views if view not in left_out]
    nobody = np.zeros(len(left_out))
    negatives = [others[k] for k in np.linspace(0, len(others) - 1, min(len(others), NEGATIVES)).astype(int)]
    with TemporaryDirectory() as place:
        folder = Path(place) / "photos"
        folder.mkdir()
        file = Path(place) / "features.h5"
        with h5py.File(file, "w") as stored:
            for view in known:
                (folder / view.photo.name).symlink_to(view.photo.resolve())
                write_group(stored, view.photo.name, method.features(view.photo))
        camera = {view.photo.name: colmap.pinhole_text(view.K) for view in known}
        try:
            reconstruct(folder, Path(place) / "model", features=file, pairs="exhaustive", ratio=RATIO, camera=camera)
        except colmap.NotReconstructed:
            return LookedUp(nobody > 0, nobody + np.inf, nobody + np.inf, nobody, np.zeros(0, bool))
        here = Map(Path(place) / "model", features=file, extractor=_Extractor(method.features))
        over = _similarity(read_model(Path(place) / "model"), {view.photo.name: view for view in known})
        found = [here.locate(view.photo, camera=colmap.pinhole_text(view.K)) for view in left_out]
        refused = np.array([not here.locate(photo).located for photo in negatives], bool)
    degrees, apart = nobody + np.inf, nobody + np.inf
    for k, (view, each) in enumerate(zip(left_out, found, strict=True)):
        if each.cam_from_world is not None:
            (degrees[k],), (apart[k],) = camera_errors(each.cam_from_world[None], _pose(view)[None], over)
    places = centres(np.stack([_pose(view) for view in views]))
    extent = np.linalg.norm(places[:, None] - places[None], axis=-1).max()
    located, inliers = zip(*[(each.located, each.inliers) for each in found], strict=True)
    return LookedUp(np.array(located), degrees, 100 * apart / extent, np.array(inliers), refused)


def _left_out(views: Sequence[View], every: int) -> Sequence[View]:
    return views[every // 2 :: every]


def _similarity(model: colmap.Model, known: Mapping[str, View]) -> Similarity:
    truth = np.stack([_pose(known[photo.name]) for photo in model.photos])
    return best_similarity(np.stack([photo.cam_from_world for photo in model.photos]), truth)


def _pose(view: View) -> Array:
    """(3, 4)."""
    return np.column_stack([view.cam_from_world.rotation, view.cam_from_world.translation])


def _columns(outcomes: Sequence[LookedUp]) -> dict[str, Array]:
    """0 or 100 of each photo."""
    within = [(each.degrees <= 1) & (each.apart <= 1) for each in outcomes]
    return {
        "located": 100.0 * np.concatenate([each.located for each in outcomes]),
        "within": 100.0 * np.concatenate(within),
        "refused": 100.0 * np.concatenate([each.refused for each in outcomes]),
    }


def _row(outcomes: Sequence[LookedUp]) -> dict[str, float | None]:
    row: dict[str, float | None] = {
        key: float(samples.mean()) if len(samples) else None for key, samples in _columns(outcomes).items()
    }
    located = np.concatenate([each.located for each in outcomes])
    for key, name in (("rotation_error", "degrees"), ("position_error", "apart"), ("inliers", "inliers")):
        values = np.concatenate([getattr(each, name) for each in outcomes])[located]
        row[key] = float(np.median(values)) if len(values) else None
    return row


def _intervals(outcomes: Sequence[LookedUp]) -> dict[str, metrics.Interval]:
    return {key: metrics.bootstrap(samples) for key, samples in _columns(outcomes).items() if len(samples)}
