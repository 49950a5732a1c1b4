"""Matching end to end on image sequences whose homographies are known (Oxford's affine set, HPatches).

The protocol most papers of the field follow since D2-Net (2019): mutual nearest neighbours without a ratio test, every
photo against the first. Columns that end in _ratio use the model's own ratio test as well, those that end in
_consensus the matcher that `hynet match` uses by default, the same for every method.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import geometry, images
from .. import matching as matchers
from ..datasets import sequences
from ..datasets.sequences import ImageSequence
from ..features.settings import FeatureSettings
from ..geometry import estimators, metrics, two_views
from ..images import patches
from ..matching import Matcher
from ..matching.consensus import Consensus
from ..matching.nearest import match
from ..matching.refinement import refine_external
from ..matching.settings import THRESHOLDS
from ..runtime import cache, fingerprints
from ..types import Array, Features, Matches, Progress, silent
from . import comparing
from .comparing import Column, Samples
from .contestants import Model
from .methods import REFINED, KeypointOptions, Method, Protocol, key, open_methods
from .results import Curves, Evaluation

PIXELS = range(1, 11)  # thresholds of the mean matching accuracy
CORNERS = (3, 5, 10)  # thresholds of the corner error, in pixels
FEWEST = 4  # matches that fix a homography; a pair with fewer is not matched at all
RIGHT = 3.0  # pixels within which a match is correct, and a keypoint repeated
SEEDS = 3  # fits of each pair, whose scores are averaged: RANSAC is random
ROW = 512  # keypoints whose distances to all others are held at a time

COLUMNS = ("mma1", "mma3", "mma5", "mma10", "auc3", "auc5", "auc10", "correct", "matches")
SELECTED = ("mma3", "auc5", "correct")  # columns that are there by other matchers, too
BY = ("ratio", "consensus")
BY_KIND = ("mma3", "auc5")


@dataclass(frozen=True)
class HomographyOptions(KeypointOptions):
    """Keypoints, and the location of their matches."""

    spread: bool = False  # DoG keypoints spread over the photo, instead of the strongest anywhere; a plane needs none
    refine: bool = True  # locate matches more exactly by aligning patches, as `hynet match` does; other papers do not
    against: str | None = None  # the method to compare the others with; by default rootsift, or the first


def evaluate(
    models: Sequence[Model], data: Path, options: HomographyOptions, progress: Progress = silent
) -> Evaluation:
    """Mean matching accuracy, homography accuracy and correct matches on image sequences with H_1_k."""
    found = sequences.load(data)
    photos = [photo for sequence in found for photo in sequence.photos]
    protocol = options.shared(FeatureSettings(spread=options.spread))
    methods = open_methods(models, protocol, files=options.features, photos=photos)
    rival = comparing.rival([method.name for method in methods], options.against)
    samples: dict[str, list[dict[str, Array]]] = {}  # method -> sequence -> column -> (pairs,)
    for method in methods:
        samples[method.name] = []
        for done, sequence in enumerate(found):
            progress(done, len(found), f"{method.name} on {sequence.name}")
            samples[method.name].append(_measured(method, sequence, options.refine))

    columns = [*COLUMNS, *(f"{column}_{by}" for by in BY for column in SELECTED), "repeatability"]
    # What a bootstrap draws: sequences, whose pairs are much alike; of one sequence its pairs.
    means = {
        name: {column: np.array([per[column].mean() for per in own]) for column in own[0]} if len(own) > 1 else own[0]
        for name, own in samples.items()
    }
    table = {name: Column([Samples({method: own[name] for method, own in means.items()})]) for name in columns}
    for kind, of_kind in _kinds([sequence.name for sequence in found]).items():
        table |= {f"{name}_{kind}": Column([table[name].tasks[0].of(of_kind)]) for name in BY_KIND}
    rows, intervals = comparing.table(table)
    return Evaluation(
        "homography",
        str(data),
        list(table),
        rows,
        intervals,
        title=f"Matching {sum(len(each.homographies) for each in found)} pairs of {len(found)} planar sequences",
        formats=dict.fromkeys(("matches", "correct", *(f"correct_{by}" for by in BY)), ".0f"),
        comparisons=[one for name in SELECTED for one in table[name].differences(name, rival)],
        pictures=_pictures(means),
        details={
            "sequences": {
                name: {
                    sequence.name: {column: values.round(4).tolist() for column, values in per.items()}
                    for sequence, per in zip(found, own, strict=True)
                }
                for name, own in samples.items()
            }
        },
        notes=[*_notes(protocol, "sequences" if len(found) > 1 else "pairs"), *([REFINED] if options.refine else [])],
    )


def _kinds(names: Sequence[str]) -> dict[str, Array]:
    """HPatches names sequences i_ and v_ by what changes; kind -> rows, where both are there."""
    found = {
        kind: np.flatnonzero([name.startswith(kind[0] + "_") for name in names])
        for kind in ("illumination", "viewpoint")
    }
    return found if all(map(len, found.values())) else {}


def _measured(method: Method, sequence: ImageSequence, refined: bool) -> dict[str, Array]:
    """Each column's value for every pair of the sequence, percentages where they are shares; remembered."""
    first = method.features(sequence.photos[0])

    def measure() -> dict[str, Array]:
        pairs = []
        for photo, H in zip(sequence.photos[1:], sequence.homographies, strict=True):
            second = method.features(photo)

            def located(matches: Matches, photo: Path = photo, second: Features = second) -> Matches:
                return refine_external(sequence.photos[0], photo, first, second, matches) if refined else matches

            pairs.append(_pair(first, second, H, method.matcher, located))
        return {column: np.array([pair[column] for pair in pairs]) for column in pairs[0]}

    if method.fingerprint is None:
        return measure()
    depends_on = {
        "what": "homography",
        "features": [key(method, photo) for photo in sequence.photos],
        "homographies": [H.tolist() for H in sequence.homographies],
        "ratio": first.ratio,
        "refined": refined,
        "code": fingerprints.code(sys.modules[__name__], matchers, geometry, metrics, patches, images),
    }
    return cache.arrays(depends_on, measure)


def _pair(
    first: Features, second: Features, H: Array, matcher: Matcher | None, located: Callable[[Matches], Matches]
) -> dict[str, float]:
    """Score nearest neighbours, plain and by the matchers of BY, or the method's own matcher alone."""

    def scores(matches: Matches) -> dict[str, float]:
        return _scores(first, second, H, located(matches))

    plain = scores(matcher(first, second) if matcher else match(first, second, ratio=1.0))
    by = dict.fromkeys(BY, plain)
    if matcher is None and first.ratio is not None:
        by["ratio"] = scores(match(first, second, first.ratio))
    if matcher is None:
        by["consensus"] = scores(Consensus()(first, second))
    others = {f"{column}_{name}": own[column] for name, own in by.items() for column in SELECTED}
    return {**plain, **others, "repeatability": 100 * repeatability(first, second, H)}


def _scores(first: Features, second: Features, H: Array, matches: Matches) -> dict[str, float]:
    a, b = matches.places(first, second)  # (K, 2) each
    errors = np.nan_to_num(two_views.transfer_error(H, a, b), nan=np.inf)
    # A pair that is not matched has an accuracy of 0: a constant descriptor's one match is right by chance alone.
    errors = errors if len(errors) >= FEWEST else np.full(len(errors), np.inf)
    accuracy = {f"mma{pixels}": 100 * float((errors <= pixels).sum() / max(len(errors), 1)) for pixels in PIXELS}
    corners = corner_errors(a, b, H, first.image_size)
    auc = {f"auc{pixels}": 100 * float(metrics.auc_credits(corners, pixels).mean()) for pixels in CORNERS}
    within = {f"corners{pixels}": 100 * float((corners <= pixels).mean()) for pixels in PIXELS}
    return {**accuracy, **auc, **within, "correct": float((errors <= RIGHT).sum()), "matches": float(len(errors))}


def corner_errors(first: Array, second: Array, H: Array, image_size: tuple[int, int]) -> Array:
    """(SEEDS,) of homographies fitted to matches."""
    models = [estimators.homography(first, second, THRESHOLDS["homography"], seed=seed)[0] for seed in range(SEEDS)]
    return np.array([np.inf if model is None else two_views.corner_error(model, H, image_size) for model in models])


def repeatability(first: Features, second: Features, H: Array) -> float:
    """Share of the keypoints in both photos that have one of the other photo within RIGHT pixels."""
    a, b = first.keypoints.xy, second.keypoints.xy
    back = np.linalg.inv(H)
    a, b = (
        a[_inside(two_views.transfer(H, a), second.image_size)],
        b[_inside(two_views.transfer(back, b), first.image_size)],
    )
    if not len(a) or not len(b):
        return 0.0
    near = _has_near(two_views.transfer(H, a), b).sum() + _has_near(two_views.transfer(back, b), a).sum()
    return float(near / (len(a) + len(b)))


def _inside(xy: Array, image_size: tuple[int, int]) -> Array:
    return np.all((xy >= 0) & (xy <= np.array(image_size) - 1), axis=1)


def _has_near(xy: Array, others: Array) -> Array:
    """(N, 2), (M, 2) -> (N,) bool."""
    blocks = [xy[start : start + ROW] for start in range(0, len(xy), ROW)]
    return np.concatenate([((block[:, None] - others[None]) ** 2).sum(2).min(1) <= RIGHT**2 for block in blocks])


def _pictures(means: Mapping[str, Mapping[str, Array]]) -> dict[str, Curves]:
    def curves(title: str, y: str, column: str) -> Curves:
        lines = {
            name: {
                "x": [float(pixels) for pixels in PIXELS],
                "y": [float(own[f"{column}{pixels}"].mean()) for pixels in PIXELS],
            }
            for name, own in means.items()
        }
        return Curves(title, "pixels", y, lines)

    return {
        "mma": curves("Mean matching accuracy", "matches within so many pixels, %", "mma"),
        "corners": curves("Homography accuracy", "fits whose corners are within so many pixels, %", "corners"),
    }


def _notes(protocol: Protocol, drawn: str) -> list[str]:
    return [
        protocol.summary(),
        "mmaT: of the mutual nearest neighbours (no ratio test), the share within T pixels of the truth, a mean over "
        f"sequences; correct: how many are within {RIGHT:g} pixels, a pair.",
        "aucT: area under the accuracy of the fitted homography up to a mean error of T pixels at the photo's corners; "
        f"PoseLib at {THRESHOLDS['homography']:g} px, then fitted to all inliers; mean of {SEEDS} seeds.",
        "Errors are in pixels of the photo as it is. Of its longer side, DoG and Key.Net see at most 1,600 pixels, "
        "R2D2, ALIKED and XFeat 1,024.",
        "_ratio: the same with the ratio test of a model, where it has one. _consensus: by the default matcher, which "
        "asks neighbours too; of keypoints without size, the ratio test. repeatability: keypoints found again within "
        f"{RIGHT:g} pixels, of those that both photos show, %.",
        f"Intervals: 95%, {drawn} resampled {metrics.ROUNDS:,} times.",
    ]
