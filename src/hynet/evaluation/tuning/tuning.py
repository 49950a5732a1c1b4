"""Which support width, inlier threshold and ratio suit a model and a detector, measured on pairs with known truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from ... import images
from ...errors import BadInput
from ...features.calibrated import Calibration
from ...features.extractors.patchwise import Extractor
from ...features.settings import FeatureSettings
from ...geometry import metrics
from ...images.patches import SUPPORT_SIGMAS
from ...matching.nearest import match
from ...matching.verification import THRESHOLDS as USUAL_THRESHOLDS
from ...matching.verification import verify
from ...types import Array, Features, Progress, silent
from .pairs import Pair, spread

SUPPORTS = (12.0, 15.0, 18.0, 21.0, 24.0, 28.0, 32.0)  # sigmas
THRESHOLDS = (0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # pixels of the photo that keypoints are looked for in
RATIOS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
USUAL_RATIO = 0.9  # of a model that says none
ACCURATE = 5.0  # pixels
RIGHT = 3.0  # pixels from the truth within which a match counts as right

# The support is looked for on fewer pairs and keypoints: each width means describing everything once more.
SUPPORT_PAIRS, SUPPORT_KEYPOINTS = 24, 512


@dataclass(frozen=True)
class Tuned:
    """What was found, and the curves it was read from."""

    calibration: Calibration
    geometry: str
    pairs: int
    own_ratio: float  # at which thresholds were compared
    supports: Mapping[float, float]  # width -> right matches a pair, mutual nearest neighbours
    thresholds: Mapping[float, float]  # pixels -> accuracy
    ratios: Mapping[float, float]  # ratio -> accuracy


def tune(
    pairs: Sequence[Pair],
    detector: str = "dog",
    model: str | Path = "default",
    *,
    max_keypoints: int = 2048,
    upright: bool = False,
    device: str | None = None,
    progress: Progress = silent,
) -> Tuned:
    """Support by right matches; then the threshold at the model's ratio, then the ratio at that threshold, by accuracy.

    Accuracy is the area under the curve of how many pairs have a geometry less wrong than so many pixels, up to
    ACCURATE (more for larger photos). The Image Matching Challenge tunes in the same order. What is usual stays unless
    something else is better by more than a standard error: curves of some dozens of pairs are flat and noisy.
    """
    if not pairs:
        raise BadInput("calibration needs at least one pair of photos.")
    asked = FeatureSettings(detector=detector, max_keypoints=max_keypoints, device=device)
    asked = asked.replace(model=model, orientation="upright" if upright else "auto")
    usual = Extractor(asked)
    trained = usual.descriptor.support or SUPPORT_SIGMAS
    own_ratio = usual.descriptor.ratio or USUAL_RATIO
    few = Extractor(asked, model=usual.descriptor, max_keypoints=SUPPORT_KEYPOINTS)
    some = spread(pairs, SUPPORT_PAIRS)
    widths = _described(some, few, sorted({*SUPPORTS, trained}), progress)
    supports = {width: np.array([_right(pair, seen) for pair in some]) for width, seen in widths.items()}
    support = chosen(supports, trained)

    seen = _described(pairs, usual, [support], progress)[support]
    unit = median(_unit(features) for features in seen.values())
    geometry = pairs[0].truth.geometry
    steps = [round(unit * step, 3) for step in THRESHOLDS]
    total = len(steps) + len(RATIOS)

    def credits(ratio: float, threshold: float, done: int) -> Array:
        """(pairs,) whose mean is the accuracy."""
        progress(done, total, f"ratio {ratio:g}, threshold {threshold:g}")
        return metrics.auc_credits(np.array([_error(pair, seen, ratio, threshold) for pair in pairs]), ACCURATE)

    thresholds = {step: credits(own_ratio, step, done) for done, step in enumerate(steps)}
    threshold = chosen(thresholds, unit * USUAL_THRESHOLDS[geometry])
    ratios = {ratio: credits(ratio, threshold, len(steps) + done) for done, ratio in enumerate(RATIOS)}
    calibration = Calibration(support, chosen(ratios, own_ratio), {geometry: threshold})
    return Tuned(calibration, geometry, len(pairs), own_ratio, _means(supports), _means(thresholds), _means(ratios))


def chosen(credits: Mapping[float, Array], usual: float) -> float:
    """Of the steps less than a standard error worse than the best, the nearest to the usual one.

    credits: step -> (pairs,) how good each pair is with it.
    """
    best = max(credits.values(), key=np.mean)
    worse = {step: best - each for step, each in credits.items()}  # (pairs,) each
    good = [step for step, by in worse.items() if by.mean() <= by.std() / np.sqrt(len(by))]
    return min(good, key=lambda step: abs(np.log(step / usual)))


def _means(credits: Mapping[float, Array]) -> dict[float, float]:
    return {step: float(each.mean()) for step, each in credits.items()}


Seen = Mapping[Path, Features]  # of every photo


def _described(
    pairs: Sequence[Pair], extract: Extractor, supports: Sequence[float], progress: Progress
) -> Mapping[float, Seen]:
    """Support -> the features of every photo, all of the same keypoints. One photo is in memory at a time."""
    extractors = {
        support: Extractor(detector=extract.detector, model=extract.descriptor, support=support) for support in supports
    }
    paths = sorted({path for pair in pairs for path in (pair.first, pair.second)})
    found: dict[float, dict[Path, Features]] = {support: {} for support in supports}
    for done, path in enumerate(paths):
        progress(done, len(paths), f"describing {path.name}")
        image = images.read(path)
        keypoints = extract.detect(image)
        for support, wide in extractors.items():
            found[support][path] = wide.describe(image, keypoints)
    return found


def _right(pair: Pair, seen: Seen) -> int:
    """How many mutual nearest neighbours are where the truth has them."""
    a, b = seen[pair.first], seen[pair.second]
    rows, columns = match(a, b, ratio=1.0).indices.T
    return int((pair.truth.distances(a.keypoints.xy[rows], b.keypoints.xy[columns]) < RIGHT * _unit(b)).sum())


def _error(pair: Pair, seen: Seen, ratio: float, threshold: float) -> float:
    a, b = seen[pair.first], seen[pair.second]
    fit = verify(a, b, match(a, b, ratio), pair.truth.geometry, threshold=threshold)
    return pair.truth.error(fit.model, a) / _unit(b)


def _unit(features: Features) -> float:
    """Pixels of the original photo in one of the photo that keypoints were looked for in."""
    return max(1.0, max(features.image_size) / FeatureSettings.longest)
