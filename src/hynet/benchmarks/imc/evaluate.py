"""Poses of photos whose cameras are known: the stereo and the multi-view task of the Image Matching Challenge 2020.

`stereo.py` and `multiview.py` have the protocols. mAA(10) is the share of pairs of photos whose pose is wrong by less
than 1, 2 ... 10 degrees, averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ... import colmap, metrics
from ...datasets import scenes
from ...datasets.scenes import Scene
from ...errors import BadInput
from ...types import Array, Progress, Table, silent
from ..harness import comparing
from ..harness.contestants import Model
from ..harness.evaluation import Curves, Evaluation
from ..harness.methods import Method, Setting, enter
from . import multiview, stereo

# For who brings no ratio of their own: the challenge's authors found 0.85 to 0.95 best for most descriptors.
USUAL_RATIO = 0.9
DEGREES = [0.5 * k for k in range(41)]  # at which the accuracy is drawn

# The paper's appendix: the challenge's three validation scenes, Key.Net's keypoints
PAPER = {"stereo": (63.40, 63.41, 64.07), "multiview": (74.41, 74.51, 74.84)}
PAPER_ROWS = ("Key.Net + HardNet", "Key.Net + SOSNet", "Key.Net + HyNet")


@dataclass(frozen=True)
class _Samples:
    """What the mAA is a mean of, in percent: N pairs, or N bags."""

    credits: Mapping[str, Array]  # method -> (N,)
    scene: Array  # (N,) its scene
    group: Array  # (N,) or (levels, N) as `metrics.bootstrap` takes them: averaged first, and drawn apart


@dataclass(frozen=True)
class ImcOptions:
    """Which task, whose keypoints, and how they are matched."""

    task: Literal["stereo", "multiview"] = "stereo"  # pairs of photos, or models from bags of 5, 10 and 25
    detector: tuple[str, ...] = ("dog",)  # finds the keypoints of patch descriptors; each further one adds rows
    max_keypoints: int = 2048  # per photo, the strongest; 2,048 and 8,000 are the challenge's
    upright: bool = False  # patch descriptors use no orientation; the challenge's photos stand upright
    ratio: float | None = None  # one ratio test for all; by default each model's own, and 0.9 where it has none
    seeds: int = 1  # stereo: how often each pair is fitted; scores are averaged
    bags: int | None = None  # multiview: the most bags of each size; by default 100, 50 and 25
    features: tuple[Path, ...] = ()  # features files in hloc's layout, each a row
    against: str | None = None  # the method that the others are compared with; by default rootsift, or the first


def evaluate(models: Sequence[Model], data: Path, options: ImcOptions, progress: Progress = silent) -> Evaluation:
    """mAA(10) of relative poses, on scenes in the challenge's layout or in Strecha's."""
    task = options.task
    ratio = options.ratio
    if ratio is not None and not 0 < ratio <= 1:
        raise BadInput(f"the ratio must be above 0 and at most 1, got {ratio:g}; 0.9 is usual, 1 keeps all.")
    if options.seeds < 1 or (options.bags is not None and options.bags < 1):
        raise BadInput("--seeds and --bags must be at least 1.")
    if task == "multiview":
        colmap.pycolmap()  # a missing package is told before anything is described
    found = scenes.load(data)
    photos = [view.photo for scene in found for view in scene.views.values()]
    setting = Setting(options.detector, options.max_keypoints, options.upright)
    methods = enter(models, setting, files=options.features, photos=photos)
    rival = comparing.rival([method.name for method in methods], options.against)
    ratios = {method.name: ratio or method.features(photos[0]).ratio or USUAL_RATIO for method in methods}
    shared = [setting.told(), "Ratio test: " + ", ".join(f"{name} {value:g}" for name, value in ratios.items()) + "."]
    if task == "stereo":
        errors = {
            method.name: [
                stereo.scene_errors(method, scene, ratios[method.name], options.seeds, progress) for scene in found
            ]
            for method in methods
        }
        samples, pictures = _of_pairs(found, errors), {"accuracy": _curves(errors)}
        details, notes = _pair_details(found, errors), [*shared, *_stereo_notes(found, options.seeds)]
    else:
        chosen = [multiview.chosen_bags(scene, options.bags) for scene in found]
        samples, pictures = _of_bags(found, chosen, methods, ratios, progress), {}
        details, notes = {}, [*shared, *_multiview_notes(found, chosen)]
    rows, intervals = _rows(found, samples)
    return Evaluation(
        "imc" if task == "stereo" else f"imc-{task}",
        str(data),
        list(next(iter(rows.values()))),
        rows,
        intervals,
        title=f"{task.capitalize()} poses, mAA at 10 degrees in %",
        paper=Table("Appendix", ["maa10"], {n: {"maa10": v} for n, v in zip(PAPER_ROWS, PAPER[task], strict=True)}),
        comparisons=comparing.differences("maa10", samples.credits, rival, samples.group),
        pictures=pictures,
        details=details,
        notes=[*notes, "The paper's rows: three scenes of 100 photos each, of which these are at most a part."],
    )


def _rows(
    found: Sequence[Scene], samples: _Samples
) -> tuple[dict[str, dict[str, float | None]], dict[str, dict[str, metrics.Interval]]]:
    """maa10 over all groups alike, and of each scene where there are several."""
    which = {"maa10": np.ones(len(samples.scene), bool)}
    if len(found) > 1:
        which |= {scene.name: samples.scene == scene.name for scene in found}
    rows: dict[str, dict[str, float | None]] = {}
    intervals = {}
    for name, own in samples.credits.items():
        parts = {column: (own[some], samples.group[..., some]) for column, some in which.items()}
        rows[name] = {column: comparing.mean(*part) for column, part in parts.items()}
        intervals[name] = {column: metrics.bootstrap(*part) for column, part in parts.items()}
    return rows, intervals


# --- Pairs ---

Errors = Mapping[str, Sequence[Array]]  # method -> scene -> (pairs, seeds) degrees


def _of_pairs(found: Sequence[Scene], errors: Errors) -> _Samples:
    scene = np.repeat([scene.name for scene in found], [len(scene.pairs) for scene in found])
    credits = {name: np.concatenate([_credits(each) for each in own]) for name, own in errors.items()}
    return _Samples(credits, scene, scene)


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


def _stereo_notes(found: Sequence[Scene], seeds: int) -> list[str]:
    listed = "all, without a list of co-visible ones" if any(scene.all_pairs for scene in found) else "as listed"
    counts = ", ".join(f"{scene.name} {len(scene.pairs)}" for scene in found)
    return [
        f"Pairs: {counts} ({listed}). Scenes count alike.",
        f"The ratio test holds in both directions. DEGENSAC: {stereo.THRESHOLD} px, confidence {stereo.CONFIDENCE}, "
        f"{stereo.ITERATIONS:,} iterations; seeds: {seeds}.",
        f"Intervals: 95%, the pairs of each scene drawn again {metrics.ROUNDS:,} times; they share photos, so that the "
        "intervals are somewhat too narrow.",
    ]


# --- Bags ---

Bags = Mapping[int, Sequence[multiview.Bag]]


def _of_bags(
    found: Sequence[Scene],
    chosen: Sequence[Bags],
    methods: Sequence[Method],
    ratios: Mapping[str, float],
    progress: Progress,
) -> _Samples:
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
            own.append(multiview.bag_credits(method, scene, bag, ratios[method.name]))
        credits[method.name] = np.array(own)
    names = np.array([scene.name for scene, _, _ in every])
    return _Samples(credits, names, np.array([[scene.name, str(size)] for scene, size, _ in every]).T)


def _multiview_notes(found: Sequence[Scene], chosen: Sequence[Bags]) -> list[str]:
    counts = ", ".join(
        f"{scene.name} {' + '.join(f'{len(some)} of {size}' for size, some in bags.items())}"
        for scene, bags in zip(found, chosen, strict=True)
    )
    listed = "as listed" if all(scene.bags for scene in found) else "by lot, without a list"
    return [
        f"Bags of photos: {counts} ({listed}). Sizes count alike in a scene, and scenes alike.",
        "Mutual nearest neighbours and the ratio test one way, verified and mapped by COLMAP without known cameras. A "
        "photo outside the largest model fails all its pairs, and so does a bag without a model.",
        f"Intervals: 95%, the bags of each size and scene drawn again {metrics.ROUNDS:,} times; bags share photos, so "
        "that the intervals are somewhat too narrow.",
    ]
