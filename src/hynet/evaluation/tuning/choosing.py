"""Which detector, descriptor and number of keypoints are worth their time, on one's own photos and machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from shlex import quote
from statistics import mean, median

import cv2
import numpy as np

from ... import images
from ...errors import BadInput, DataNotFound, MissingExtra
from ...features.extractors import PhotoExtractor
from ...features.settings import FeatureSettings
from ...matching.consensus import Consensus
from ...types import Array, Progress, silent
from .pairs import Homography, Pair, find_pairs
from .tuning import RIGHT

ROUNDS, TIMED_PHOTOS = 3, 3
# What a copy of a photo is seen with where no two photos are known to show one place
TURN, SMALLER, TILT, DARKER = 0.25, 0.8, 1e-4, 0.7  # radians, factor, of a pixel a pixel, contrast


@dataclass(frozen=True)
class Candidate:
    """What could be chosen: a detector with a model, or an extractor that does without."""

    extractor: str
    model: str | None
    keypoints: int

    @property
    def options(self) -> str:
        """For `hynet match`, `extract` and `reconstruct`."""
        parts = (
            f"--extractor {quote(self.extractor)}"
            if self.model is None
            else f"--detector {quote(self.extractor)} --model {quote(self.model)}"
        )
        return f"{parts} --max-keypoints {self.keypoints}"

    def opened(self) -> PhotoExtractor:
        if self.model is None:
            return FeatureSettings(extractor=self.extractor, max_keypoints=self.keypoints).open_extractor()
        return FeatureSettings(detector=self.extractor, model=self.model, max_keypoints=self.keypoints).open_extractor()


@dataclass(frozen=True)
class Measured:
    """What a candidate costs and brings."""

    candidate: Candidate
    ms: float  # a photo, read, detected and described on all cores: the median
    right: float  # matches of a pair: the mean


def candidates(
    detectors: Sequence[str], models: Sequence[str], extractors: Sequence[str], keypoints: Sequence[int]
) -> list[Candidate]:
    """Every detector with every model, then the extractors, each with every number of keypoints."""
    together = [(detector, model) for detector, model in product(detectors, models)]
    alone = [(extractor, None) for extractor in extractors]
    return [Candidate(*parts, count) for parts in [*together, *alone] for count in keypoints]


def known_pairs(folder: Path, most: int, scratch: Path, progress: Progress = silent) -> tuple[list[Pair], str]:
    """Pairs of the folder whose geometry is known, and in words, what a right match of them is."""
    try:
        pairs = find_pairs(folder, most, progress=progress)
    except (DataNotFound, MissingExtra):
        photos = images.list_photos(folder)
        chosen = [photos[round(k)] for k in np.linspace(0, len(photos) - 1, min(most, len(photos)))]
        pairs = [_with_copy(photo, scratch / f"{number}.png") for number, photo in enumerate(chosen)]
        return (
            pairs,
            f"within {RIGHT:g} pixels of where a known homography puts it, in a warped, darker copy of the photo",
        )
    truth = "a known homography" if pairs[0].truth.geometry == "homography" else "the epipolar line of a reconstruction"
    return pairs, f"within {RIGHT:g} pixels of {truth}, between photos of the folder"


def measure(
    pairs: Sequence[Pair], asked: Sequence[Candidate], *, rounds: int = ROUNDS, progress: Progress = silent
) -> list[Measured]:
    """All candidates on the same photos, in turns photo by photo, so that a slow moment of the machine hits all."""
    if not pairs or not asked:
        raise BadInput("there is nothing to compare; give photos that overlap, a detector and a model.")
    opened = [candidate.opened() for candidate in asked]
    total = len(asked) + rounds
    right = []
    for done, (candidate, extract) in enumerate(zip(asked, opened, strict=True)):
        progress(done, total, f"{candidate.extractor} {candidate.model or ''} {candidate.keypoints}")
        right.append(_right(pairs, extract))  # and warms it up
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
    """Those that nothing beats in both: for every other, it is slower or brings fewer right matches. Fastest first."""
    kept: list[Measured] = []
    for each in sorted(measured, key=lambda one: (one.ms, -one.right)):
        if not kept or each.right > kept[-1].right:
            kept.append(each)
    return kept


def within(budget: float, measured: Sequence[Measured]) -> Measured | None:
    """The most right matches that so many milliseconds a photo buy."""
    return next((each for each in reversed(front(measured)) if each.ms <= budget), None)


def _right(pairs: Sequence[Pair], extract: PhotoExtractor) -> float:
    """Right matches per pair; every photo is described once."""
    seen = {photo: extract(photo) for photo in {photo for pair in pairs for photo in (pair.first, pair.second)}}
    counts = []
    for pair in pairs:
        a, b = seen[pair.first], seen[pair.second]
        rows, columns = Consensus()(a, b).indices.T
        away = pair.truth.distances(a.keypoints.xy[rows], b.keypoints.xy[columns])
        counts.append(int((away < RIGHT * max(1.0, max(b.image_size) / FeatureSettings.longest)).sum()))
    return mean(counts)


def _with_copy(photo: Path, copy: Path) -> Pair:
    """The photo, and how it would look from elsewhere in weaker light."""
    grey = images.read(photo)
    H = _view(grey.shape)
    warped = cv2.warpPerspective(grey, H, grey.shape[::-1], borderMode=cv2.BORDER_REPLICATE)
    cv2.imwrite(str(copy), np.rint(DARKER * warped).astype(np.uint8))
    return Pair(photo, copy, Homography(H))


def _view(shape: tuple[int, ...]) -> Array:
    """(3, 3) about the middle of a photo (H, W): turned, smaller, tilted."""
    middle = np.array([[1, 0, shape[1] / 2], [0, 1, shape[0] / 2], [0, 0, 1.0]])
    cos, sin = SMALLER * np.cos(TURN), SMALLER * np.sin(TURN)
    tilt = TILT * 1000 / max(shape)
    return middle @ np.array([[cos, -sin, 0], [sin, cos, 0], [tilt, 0, 1.0]]) @ np.linalg.inv(middle)
