"""Settings that suit one's own photos and machine: `hynet tune`.

Detector, model and number of keypoints are chosen by time and correct matches; then the support width, inlier threshold
and ratio of that model, measured on pairs whose geometry is known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from shlex import quote
from statistics import mean, median
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from ... import images
from ...errors import BadInput, DataNotFound, MissingExtra
from ...features import calibrated
from ...features.calibrated import Calibration
from ...features.extractors import PhotoExtractor, open_extractor
from ...features.extractors.patchwise import Extractor
from ...features.settings import FeatureSettings
from ...geometry import metrics
from ...images.patches import SUPPORT_SIGMAS
from ...matching.consensus import Consensus
from ...matching.nearest import match
from ...matching.settings import THRESHOLDS as USUAL_THRESHOLDS
from ...matching.verification import verify
from ...runtime.locks import exclusive_lock
from ...types import Array, Features, Matches, Progress, silent
from .pairs import Homography, Pair, find_pairs, spread

RIGHT = 3.0  # pixels from the truth within which a match is correct
COMPARED, ROUNDS, TIMED_PHOTOS = 6, 3, 3  # pairs that candidates are compared on, repetitions, photos
# The view and the contrast of a photo's warped copy
TURN, SMALLER, TILT, DARKER = 0.25, 0.8, 1e-4, 0.7  # radians, factor, of a pixel a pixel, contrast

SUPPORTS = (12.0, 15.0, 18.0, 21.0, 24.0, 28.0, 32.0)  # sigmas
THRESHOLDS = (0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # pixels of the photo that keypoints are detected in
RATIOS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
USUAL_RATIO = 0.9  # of a model that has none
ACCURATE = 5.0  # pixels
# The support is chosen on fewer pairs and keypoints: each width means describing everything once more.
SUPPORT_PAIRS, SUPPORT_KEYPOINTS = 24, 512


@dataclass(frozen=True)
class Found:
    """Measurements of all candidates, the best of them, and its calibration where pairs allow one."""

    measured: Sequence[Measured]
    best: Measured | None  # None: nothing is as fast as the budget wants
    pairs: int  # that candidates were compared on
    meaning: str  # a correct match, in words
    overlapping: bool  # photos were matched with each other, not with copies of themselves
    tuned: Tuned | None = None
    saved: Path | None = None


def tune(
    photos: Path,
    candidates: Sequence[Candidate],
    *,
    budget: float | None = None,
    out: Path | None = None,
    max_pairs: int = 60,
    device: str | None = None,
    progress: Progress = silent,
) -> Found:
    """Choose the candidate with the most correct matches within a budget (ms a photo), calibrate it and save that.

    out: where the calibration is saved; by default where the model's is looked for.
    """
    with ExitStack() as held, TemporaryDirectory() as scratch:

        def claim(place: Path) -> Path:
            held.enter_context(exclusive_lock(place))
            calibrated.claim(place)
            return place

        if out is not None:
            claim(out)  # reports what is wrong with it before minutes of work
        pairs, meaning, overlapping = known_pairs(photos, max_pairs, Path(scratch), progress)
        compared = spread(pairs, COMPARED)
        measured = measure(compared, candidates, device=device, progress=progress)
        best = front(measured)[-1] if budget is None else within(budget, measured)
        found = Found(measured, best, len(compared), meaning, overlapping)
        if best is None or best.candidate.model is None or not overlapping:
            return found
        one, model = best.candidate, best.candidate.model
        place = out or claim(calibrated.places(model)[0])
        tuned = calibrate(pairs, one.extractor, model, max_keypoints=one.keypoints, device=device, progress=progress)
        calibrated.save(tuned.calibration, place, one.extractor)
        return replace(found, tuned=tuned, saved=place)


# --- Detector, model and number of keypoints ---


@dataclass(frozen=True)
class Candidate:
    """A detector with a model, or an extractor without one, and a number of keypoints."""

    extractor: str
    model: str | None
    keypoints: int

    @property
    def options(self) -> str:
        """Options of `hynet match`, `extract` and `reconstruct` that select it."""
        parts = (
            f"--extractor {quote(self.extractor)}"
            if self.model is None
            else f"--detector {quote(self.extractor)} --model {quote(self.model)}"
        )
        return f"{parts} --max-keypoints {self.keypoints}"

    def opened(self, device: str | None = None) -> PhotoExtractor:
        if self.model is None:
            return open_extractor(self.extractor, self.keypoints)
        return Extractor(detector=self.extractor, model=self.model, max_keypoints=self.keypoints, device=device)


@dataclass(frozen=True)
class Measured:
    """The time and the correct matches of a candidate."""

    candidate: Candidate
    ms: float  # a photo, read, detected and described on all cores: the median
    right: float  # correct matches of a pair: the mean


def candidates(
    detectors: Sequence[str], models: Sequence[str], extractors: Sequence[str], keypoints: Sequence[int]
) -> list[Candidate]:
    """Every detector with every model, then the extractors, each with every number of keypoints."""
    alone = [(extractor, None) for extractor in extractors]
    return [Candidate(*parts, count) for parts in [*product(detectors, models), *alone] for count in keypoints]


def known_pairs(folder: Path, most: int, scratch: Path, progress: Progress = silent) -> tuple[list[Pair], str, bool]:
    """Return pairs with known geometry, what a correct match of them is, and whether both photos are of the folder.

    Where no two photos show one place, each is paired with a warped copy of itself, written to `scratch`.
    """
    try:
        pairs = find_pairs(folder, most, progress=progress)
    except (DataNotFound, MissingExtra):
        photos = spread(images.list_photos(folder), min(most, COMPARED))
        pairs = [_with_copy(photo, scratch / f"{number}.png") for number, photo in enumerate(photos)]
        meaning = f"within {RIGHT:g} pixels of where a known homography puts it, in a warped, darker copy of the photo"
        return pairs, meaning, False
    truth = "a known homography" if pairs[0].truth.geometry == "homography" else "the epipolar line of a reconstruction"
    return pairs, f"within {RIGHT:g} pixels of {truth}, between photos of the folder", True


def measure(
    pairs: Sequence[Pair],
    asked: Sequence[Candidate],
    *,
    rounds: int = ROUNDS,
    device: str | None = None,
    progress: Progress = silent,
) -> list[Measured]:
    """Measure all candidates on the same photos, in turns photo by photo, so that a slow moment affects all."""
    if not pairs or not asked:
        raise BadInput("there is nothing to compare; give photos that overlap, a detector and a model.")
    opened = [candidate.opened(device) for candidate in asked]
    total = len(asked) + rounds
    right = []
    for done, (candidate, extract) in enumerate(zip(asked, opened, strict=True)):
        progress(done, total, f"{candidate.extractor} {candidate.model or ''} {candidate.keypoints}")
        seen = {photo: extract(photo) for photo in _photos(pairs)}  # and warms it up
        found = [(pair, seen[pair.first], seen[pair.second]) for pair in pairs]
        right.append(mean(_right(pair, a, b, Consensus()(a, b)) for pair, a, b in found))
    photos = sorted({pair.first for pair in pairs})[:TIMED_PHOTOS]
    times: list[list[float]] = [[] for _ in asked]
    for done in range(rounds):
        progress(len(asked) + done, total, f"timing, round {done + 1}")
        for photo in photos:
            for spent, extract in zip(times, opened, strict=True):
                start = time.perf_counter()
                extract(photo)
                spent.append(1e3 * (time.perf_counter() - start))
    return [Measured(*each) for each in zip(asked, map(median, times), right, strict=True)]


def front(measured: Sequence[Measured]) -> list[Measured]:
    """Candidates that no other beats in both time and correct matches, fastest first."""
    kept: list[Measured] = []
    for each in sorted(measured, key=lambda one: (one.ms, -one.right)):
        if not kept or each.right > kept[-1].right:
            kept.append(each)
    return kept


def within(budget: float, measured: Sequence[Measured]) -> Measured | None:
    """Return the candidate with the most correct matches that takes at most so many milliseconds a photo."""
    return next((each for each in reversed(front(measured)) if each.ms <= budget), None)


def _with_copy(photo: Path, copy: Path) -> Pair:
    """Pair a photo with a warped, darker copy of it."""
    grey = images.read(photo)
    H = _view(grey.shape)
    warped = cv2.warpPerspective(grey, H, grey.shape[::-1], borderMode=cv2.BORDER_REPLICATE)
    cv2.imwrite(str(copy), np.rint(DARKER * warped).astype(np.uint8))
    return Pair(photo, copy, Homography(H))


def _view(shape: tuple[int, ...]) -> Array:
    """(3, 3) homography about the centre of a photo (H, W): turned, smaller, tilted."""
    middle = np.array([[1, 0, shape[1] / 2], [0, 1, shape[0] / 2], [0, 0, 1.0]])
    cos, sin = SMALLER * np.cos(TURN), SMALLER * np.sin(TURN)
    tilt = TILT * 1000 / max(shape)
    return middle @ np.array([[cos, -sin, 0], [sin, cos, 0], [tilt, 0, 1.0]]) @ np.linalg.inv(middle)


# --- Support width, inlier threshold and ratio ---


@dataclass(frozen=True)
class Tuned:
    """A calibration, and the curves that it was read from."""

    calibration: Calibration
    geometry: str
    pairs: int
    own_ratio: float  # at which thresholds were compared
    supports: Mapping[float, float]  # width -> correct matches a pair, mutual nearest neighbours
    thresholds: Mapping[float, float]  # pixels -> accuracy
    ratios: Mapping[float, float]  # ratio -> accuracy


def calibrate(
    pairs: Sequence[Pair],
    detector: str = "dog",
    model: str | Path = "default",
    *,
    max_keypoints: int = 2048,
    device: str | None = None,
    progress: Progress = silent,
) -> Tuned:
    """Choose the support by correct matches; then the threshold at the model's ratio, then the ratio, by accuracy.

    Accuracy is the area under the curve of how many pairs have a geometry less wrong than so many pixels, up to
    ACCURATE (more for larger photos). The Image Matching Challenge tunes in the same order. Defaults stay unless
    something else is better by more than a standard error: curves of some dozens of pairs are flat and noisy.
    """
    if not pairs:
        raise BadInput("calibration needs at least one pair of photos.")
    usual = Extractor(detector=detector, model=model, max_keypoints=max_keypoints, device=device)
    trained = usual.descriptor.support or SUPPORT_SIGMAS
    own_ratio = usual.descriptor.ratio or USUAL_RATIO
    few = Extractor(detector=detector, model=usual.descriptor, max_keypoints=SUPPORT_KEYPOINTS)
    some = spread(pairs, SUPPORT_PAIRS)
    supports = {}
    for width, seen in _described(some, few, sorted({*SUPPORTS, trained}), progress).items():
        found = [(pair, seen[pair.first], seen[pair.second]) for pair in some]
        supports[width] = np.array([_right(pair, a, b, match(a, b, ratio=1.0)) for pair, a, b in found])
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
    means = [{step: float(each.mean()) for step, each in curve.items()} for curve in (supports, thresholds, ratios)]
    return Tuned(calibration, geometry, len(pairs), own_ratio, *means)


def chosen(credits: Mapping[float, Array], usual: float) -> float:
    """Return the step nearest to the usual one, of those less than a standard error worse than the best.

    credits: step -> (pairs,) how good each pair is with it.
    """
    best = max(credits.values(), key=np.mean)
    worse = {step: best - each for step, each in credits.items()}  # (pairs,) each
    good = [step for step, by in worse.items() if by.mean() <= by.std() / np.sqrt(len(by))]
    return min(good, key=lambda step: abs(np.log(step / usual)))


Seen = Mapping[Path, Features]  # of every photo


def _described(
    pairs: Sequence[Pair], extract: Extractor, supports: Sequence[float], progress: Progress
) -> Mapping[float, Seen]:
    """Support -> the features of every photo, all of the same keypoints. One photo is in memory at a time."""
    extractors = {
        support: Extractor(detector=extract.detector, model=extract.descriptor, support=support) for support in supports
    }
    paths = _photos(pairs)
    found: dict[float, dict[Path, Features]] = {support: {} for support in supports}
    for done, path in enumerate(paths):
        progress(done, len(paths), f"describing {path.name}")
        image = images.read(path)
        keypoints = extract.detect(image)
        for support, wide in extractors.items():
            found[support][path] = wide.describe(image, keypoints)
    return found


def _photos(pairs: Sequence[Pair]) -> list[Path]:
    return sorted({path for pair in pairs for path in (pair.first, pair.second)})


def _right(pair: Pair, a: Features, b: Features, matches: Matches) -> int:
    """Count the matches that lie within RIGHT pixels of the truth."""
    rows, columns = matches.indices.T
    return int((pair.truth.distances(a.keypoints.xy[rows], b.keypoints.xy[columns]) < RIGHT * _unit(b)).sum())


def _error(pair: Pair, seen: Seen, ratio: float, threshold: float) -> float:
    a, b = seen[pair.first], seen[pair.second]
    fit = verify(a, b, match(a, b, ratio), pair.truth.geometry, threshold=threshold)
    return pair.truth.error(fit.model, a) / _unit(b)


def _unit(features: Features) -> float:
    """Pixels of the original photo in one of the photo that keypoints are detected in."""
    return max(1.0, max(features.image_size) / FeatureSettings.longest)
