"""Poses of photos whose cameras are known: the stereo and the multi-view task of the Image Matching Challenge 2020.

`stereo.py` and `multiview.py` have the protocols. mAA(10) is the share of pairs of photos whose pose is wrong by less
than 1, 2 ... 10 degrees, averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...datasets import scenes
from ...datasets.scenes import Scene
from ...errors import BadInput
from ...features.settings import FeatureSettings
from ...geometry import metrics
from ...matching.confidence import has_scales
from ...matching.consensus import Consensus
from ...types import Array, Progress, silent
from .. import comparing, papers
from ..comparing import Column, Samples
from ..contestants import Model
from ..methods import REFINED, KeypointOptions, Method, open_methods
from ..results import Curves, Evaluation
from . import multiview, stereo

# For who brings no ratio of their own: the challenge's authors found 0.85 to 0.95 best for most descriptors.
USUAL_RATIO = 0.9
DEGREES = [0.5 * k for k in range(41)]  # at which the accuracy is drawn

Task = Literal["stereo", "multiview", "both"]


@dataclass(frozen=True)
class _Measured:
    """One task, and what there is to tell of it."""

    samples: Samples  # mAA in percent of pairs or bags
    scene: Array  # (N,) of each sample
    notes: Sequence[str]
    pictures: Mapping[str, Curves]
    details: Mapping[str, Any]


@dataclass(frozen=True)
class ImcOptions(KeypointOptions):
    """Task, keypoints, matching and fitting."""

    task: Task = "stereo"  # pairs of photos; models from bags of 5, 10 and 25; or both tasks and their average
    max_keypoints: int = 2048  # maximum per photo; 2,048 and 8,000 are the challenge's
    # for patch descriptors: none, baumberg, affine-network, or the path of a network; auto: for stereo with DoG
    # keypoints affine-network, the same for every model, and none otherwise
    shape: str = "auto"
    spread: bool = True  # DoG keypoints spread over the photo, instead of the strongest anywhere
    # for methods without a matcher of their own: nearest is the challenge's, a ratio test in both directions
    matcher: Literal["consensus", "nearest"] = "consensus"
    ratio: float | None = None  # for nearest, for all models; by default each model's own, or 0.9 if it has none
    # stereo: locate matches more exactly by aligning patches and fit F to all matches near it, as `hynet match` does;
    # the challenge does neither
    refine: bool = True
    known_cameras: bool = False  # stereo: fit the essential matrix with the true cameras, unlike the challenge
    seeds: int = 1  # stereo: number of times each pair is fitted; scores are averaged
    bags: int | None = None  # multiview: maximum number of bags of each size; by default 100, 50 and 25
    against: str | None = None  # the method to compare the others with; by default rootsift, or the first


def evaluate(models: Sequence[Model], data: Path, options: ImcOptions, progress: Progress = silent) -> Evaluation:
    """mAA(10) of relative poses, on scenes in the challenge's layout or in Strecha's."""
    task = options.task
    ratio = options.ratio
    if ratio is not None and not 0 < ratio <= 1:
        raise BadInput(f"the ratio must be above 0 and at most 1, got {ratio:g}; 0.9 is usual, 1 keeps all.")
    if options.seeds < 1 or (options.bags is not None and options.bags < 1):
        raise BadInput("--seeds and --bags must be at least 1.")
    if task != "stereo":
        multiview.need_colmap()  # a missing package is reported before anything is described
    found = scenes.load(data)
    photos = [view.photo for scene in found for view in scene.views.values()]
    shape = "none" if options.shape == "auto" and task != "stereo" else options.shape
    protocol = replace(options, shape=shape).shared(FeatureSettings(spread=options.spread))
    methods = open_methods(models, protocol, files=options.features, photos=photos)
    if options.matcher == "consensus":
        if ratio is not None:
            raise BadInput("a ratio belongs to --matcher nearest; name that, or leave the ratio out.")
        methods = [_with_consensus(method, photos[0]) for method in methods]
    rival = comparing.rival([method.name for method in methods], options.against)
    ratios = {
        method.name: ratio or method.features(photos[0]).ratio or USUAL_RATIO
        for method in methods
        if method.matcher is None
    }
    parts: dict[str, _Measured] = {}
    if task != "multiview":
        parts["stereo"] = _stereo(found, methods, ratios, options, progress)
    if task != "stereo":
        parts["multiview"] = _multiview(found, methods, ratios, options.bags, progress)
    columns = _columns([scene.name for scene in found], parts)
    rows, intervals = comparing.table(columns)
    compared = [column for column in ("maa10", *parts) if column in columns]
    tested = "Ratio test: " + ", ".join(f"{name} {value:g}" for name, value in ratios.items()) + "."
    if options.matcher == "consensus":
        tested = f"Matches: mutual nearest neighbours that are probably right (consensus). {tested if ratios else ''}"
    notes = [protocol.summary(), tested, *(note for part in parts.values() for note in part.notes)]
    table, same_data = papers.imc(task), papers.is_imc({scene.name: len(scene.views) for scene in found})
    return Evaluation(
        "imc" if task == "stereo" else f"imc-{task}",
        str(data),
        list(columns),
        rows,
        intervals,
        title=f"{TITLES[task]}, mAA at 10 degrees in %",
        paper=table if same_data else None,
        comparisons=[one for column in compared for one in columns[column].differences(column, rival)],
        pictures={name: picture for part in parts.values() for name, picture in part.pictures.items()},
        details={name: value for part in parts.values() for name, value in part.details.items()},
        notes=[*notes, *([] if same_data else [papers.imc_note(table)])],
    )


def _columns(scenes: Sequence[str], parts: Mapping[str, _Measured]) -> dict[str, Column]:
    """maa10 over all groups alike; with both tasks, it is their average and each has a column; then each scene's."""
    columns = {"maa10": Column([part.samples for part in parts.values()])}
    if len(parts) > 1:
        columns |= {name: Column([part.samples]) for name, part in parts.items()}
    if len(scenes) > 1:
        columns |= {name: Column([part.samples.of(part.scene == name) for part in parts.values()]) for name in scenes}
    return columns


def _with_consensus(method: Method, photo: Path) -> Method:
    """Unless it has a matcher of its own, or keypoints without size, which show no consensus."""
    if method.matcher is not None or not has_scales(method.features(photo)):
        return method
    mark = None if method.fingerprint is None else f"{method.fingerprint}, consensus"
    return replace(method, matcher=Consensus(), fingerprint=mark)


TITLES = {"stereo": "Stereo poses", "multiview": "Multiview poses", "both": "Stereo and multi-view poses"}


# --- Pairs ---

Errors = Mapping[str, Sequence[Array]]  # method -> scene -> (pairs, seeds) degrees


def _stereo(
    found: Sequence[Scene],
    methods: Sequence[Method],
    ratios: Mapping[str, float],
    options: ImcOptions,
    progress: Progress,
) -> _Measured:
    errors = {
        method.name: [
            stereo.scene_errors(
                method,
                scene,
                ratios.get(method.name, 1.0),
                options.seeds,
                progress,
                known_cameras=options.known_cameras,
                refined=options.refine,
            )
            for scene in found
        ]
        for method in methods
    }
    pictures, details = {"accuracy": _curves(errors)}, _pair_details(found, errors)
    scene = np.repeat([scene.name for scene in found], [len(scene.pairs) for scene in found])
    credits = {name: np.concatenate([_credits(each) for each in own]) for name, own in errors.items()}
    return _Measured(Samples(credits, scene), scene, _stereo_notes(found, options), pictures, details)


def _credits(errors: Array) -> Array:
    """(pairs, seeds) degrees -> (pairs,) percent."""
    return 100 * metrics.maa_credits(errors.ravel()).reshape(errors.shape).mean(1)


def _curves(errors: Errors) -> Curves:
    lines = {
        name: {"x": DEGREES, "y": [float(100 * np.mean([(each < limit).mean() for each in own])) for limit in DEGREES]}
        for name, own in errors.items()
    }
    return Curves("Accuracy of relative poses", "degrees", "pairs with a smaller error, %", lines)


def _pair_details(found: Sequence[Scene], errors: Errors) -> dict[str, Any]:
    names = [scene.name for scene in found]
    return {
        "errors": {
            method: {name: each.round(3).tolist() for name, each in zip(names, own, strict=True)}
            for method, own in errors.items()
        },
        "pairs": {scene.name: ["-".join(pair) for pair in scene.pairs] for scene in found},
    }


def _stereo_notes(found: Sequence[Scene], options: ImcOptions) -> list[str]:
    listed = "all, without a list of co-visible ones" if any(scene.all_pairs for scene in found) else "as listed"
    counts = ", ".join(f"{scene.name} {len(scene.pairs)}" for scene in found)
    by = f"DEGENSAC: {stereo.THRESHOLD} px, confidence {stereo.CONFIDENCE}, {stereo.ITERATIONS:,} iterations"
    if options.refine:
        by += ", then fitted by PoseLib to all matches near it, for every method; the challenge does not: --no-refine"
    if options.known_cameras:
        by = f"Not the challenge's way: true cameras, essential matrices by PoseLib, {stereo.CALIBRATED_THRESHOLD} px"
    return [
        f"Pairs: {counts} ({listed}). Scenes count alike.",
        f"The ratio test holds in both directions. {by}; seeds: {options.seeds}.",
        *([REFINED] if options.refine else []),
        f"Intervals of stereo: 95%, the pairs of each scene resampled {metrics.ROUNDS:,} times; they share "
        "photos, so that the intervals are somewhat too narrow.",
    ]


# --- Bags ---

Bags = Mapping[int, Sequence[multiview.Bag]]


def _multiview(
    found: Sequence[Scene],
    methods: Sequence[Method],
    ratios: Mapping[str, float],
    most: int | None,
    progress: Progress,
) -> _Measured:
    chosen = [multiview.chosen_bags(scene, most) for scene in found]
    every = [
        (scene, size, bag)
        for scene, bags in zip(found, chosen, strict=True)
        for size, some in bags.items()
        for bag in some
    ]
    credits: dict[str, Array] = {}
    for method in methods:
        own = []
        for done, (scene, _, bag) in enumerate(every):
            progress(done, len(every), f"{method.name} on {scene.name}")
            own.append(multiview.bag_credits(method, scene, bag, ratios.get(method.name, 1.0)))
        credits[method.name] = np.array(own)
    names = np.array([scene.name for scene, _, _ in every])
    samples = Samples(credits, np.array([[scene.name, str(size)] for scene, size, _ in every]).T)
    return _Measured(samples, names, _multiview_notes(found, chosen), {}, {})


def _multiview_notes(found: Sequence[Scene], chosen: Sequence[Bags]) -> list[str]:
    counts = ", ".join(
        f"{scene.name} {' + '.join(f'{len(some)} of {size}' for size, some in bags.items())}"
        for scene, bags in zip(found, chosen, strict=True)
    )
    listed = "as listed" if all(scene.bags for scene in found) else "by lot, without a list"
    everything = any(scene.all_pairs for scene in found)
    matched = (
        "all pairs are matched, without a list of visible ones" if everything else "the co-visible pairs are matched"
    )
    return [
        f"Bags of photos: {counts} ({listed}). Sizes count alike in a scene, and scenes alike.",
        f"In a bag, {matched}. The ratio test holds in both directions; COLMAP verifies and maps without known cameras "
        f"and without further adjustment, models of at least {multiview.SMALLEST} photos. A photo outside the "
        "largest model fails all its pairs, and so does a bag without a model.",
        f"Intervals of multi-view: 95%, the bags of each size and scene resampled {metrics.ROUNDS:,} times; "
        "bags share photos, so that the intervals are somewhat too narrow.",
    ]
