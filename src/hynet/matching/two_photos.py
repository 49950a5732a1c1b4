"""Matching two photos: all that `hynet match` does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from .. import images
from ..features.extractors import PhotoExtractor
from ..features.extractors.patchwise import Extractor, extract_with_mask
from ..features.settings import FeatureSettings, with_options
from ..geometry.estimators import DEGENSAC, Fit
from ..images.patches import SUPPORT_SIGMAS
from ..types import Array, Features, Keypoints, Matches
from . import Matcher
from .confidence import has_scales, same_place
from .matched_photos import MatchedPhotos
from .refinement import refine, refine_external
from .settings import MatchOptions, MatchSettings
from .turning import same_orientation
from .verification import verify

Photo = Any  # whatever `images.read` takes: paths, bytes, open files, URLs, PIL images, arrays, tensors
SHOWN = 32, SUPPORT_SIGMAS  # pixels and sigmas a side, of patches shown of features not described patch by patch
_LOG = logging.getLogger(__name__)


@with_options(MatchSettings, FeatureSettings)
def match_photos(
    first: Photo, second: Photo, settings: MatchSettings | None = None, **options: Unpack[MatchOptions]
) -> MatchedPhotos:
    """Match two photos: extract, match, refine and verify, with oriented keypoints too where upright ones may not do.

    The extractor may be an object, in place of detector and model; so may the matcher. Masks may be arrays.
    """
    pair = PhotoPair.read(first, second, (settings or MatchSettings()).replace(**options))
    found = None
    for step in pair.steps():
        found = better(found, step(pair, found))
        if found.convincing:
            break
    assert found is not None
    return pair.result(found)


@dataclass(frozen=True)
class Found:
    """Features of two photos, their matches, and the geometry that these agree on."""

    features: tuple[Features, Features]
    matches: Matches
    fit: Fit

    @property
    def convincing(self) -> bool:
        """True if upright keypoints gave enough inliers, and these show no rotation between the photos."""
        return same_orientation(*self.features, self.fit.inliers)


def better(before: Found | None, after: Found) -> Found:
    """Return the one with more inliers, the earlier of equals."""
    return after if before is None or len(after.fit) > len(before.fit) else before


# --- Steps: a pair of photos and what was found so far -> what is found now ---

Step = Callable[["PhotoPair", Found | None], Found]


def upright(pair: PhotoPair, found: Found | None) -> Found:
    """Match upright keypoints."""
    return pair.compare(pair.describe(pair.detect()))


def oriented(pair: PhotoPair, found: Found | None) -> Found:
    """Match the same keypoints rotated to their gradients."""
    keypoints = pair.detect() if found is None else [each.keypoints for each in found.features]
    turned = pair.orient(keypoints)
    if found is not None and all(each is before for each, before in zip(turned, keypoints, strict=True)):
        return found  # a detector of one's own has its own angles
    return pair.compare(pair.describe(turned))


def extracted(pair: PhotoPair, found: Found | None) -> Found:
    """Match the features of an extractor that detects and describes in one pass."""
    return pair.compare(pair.extract_features())


STEPS: dict[str, tuple[Step, ...]] = {"upright": (upright,), "gradient": (oriented,), "auto": (upright, oriented)}


@dataclass(frozen=True)
class PhotoPair:
    """Two photos that were read, and what extracts and matches their features."""

    sources: tuple[Photo, Photo]
    photos: tuple[Array, Array]  # (H, W) grey each
    masks: tuple[Array | None, Array | None]
    focals: tuple[float | None, float | None]
    pictures: tuple[Path | Array, Path | Array]  # what drawings show
    settings: MatchSettings
    extract: PhotoExtractor
    matcher: Matcher
    clock: Clock

    @classmethod
    def read(cls, first: Photo, second: Photo, settings: MatchSettings) -> PhotoPair:
        """Read both photos while networks are opened."""
        settings, clock = settings.for_two_photos(), Clock()
        with ThreadPoolExecutor(3) as beside:
            with clock("read"):
                held = images.at_hand(first), images.at_hand(second)
                reading = [beside.submit(images.read, each) for each in held]
                opening = beside.submit(settings.features.open_extractor)
                if settings.geometry in ("auto", "fundamental"):
                    DEGENSAC.start()  # its process is ready by the time there are matches
                photos = reading[0].result(), reading[1].result()
                focals = settings.focal_of_each() or (images.focal(held[0]), images.focal(held[1]))
                pictures = images.remembered(held[0]), images.remembered(held[1])
                masks = settings.features.mask or (None, None)
                black = [None if mask is None else images.read(mask) for mask in masks]
            with clock("load"):
                extract, matcher = opening.result(), settings.open_matcher()
        return cls(held, photos, (black[0], black[1]), focals, pictures, settings, extract, matcher, clock)

    def steps(self) -> tuple[Step, ...]:
        """Return the ways to match the photos, the cheapest first."""
        return STEPS[self.extract.orientation] if isinstance(self.extract, Extractor) else (extracted,)

    def detect(self) -> list[Keypoints]:
        """Detect upright keypoints in both photos."""
        with self.clock("detect"), ThreadPoolExecutor(2) as both:
            return list(both.map(self._patchwise.detect_upright, self.photos, self.masks))

    def orient(self, keypoints: Sequence[Keypoints]) -> list[Keypoints]:
        """Rotate the keypoints of both photos to their gradients."""
        with self.clock("detect"):
            return [self._patchwise.orient(*each) for each in zip(self.photos, keypoints, strict=True)]

    def describe(self, keypoints: Sequence[Keypoints]) -> list[Features]:
        """Describe the keypoints of both photos."""
        with self.clock("describe"), ThreadPoolExecutor(2) as both:
            return list(both.map(self._patchwise.describe, self.photos, keypoints))

    def extract_features(self) -> list[Features]:
        """Extract the features of both photos in one pass."""
        with self.clock("extract"):
            return [extract_with_mask(self.extract, *each) for each in zip(self.sources, self.masks, strict=True)]

    @property
    def _patchwise(self) -> Extractor:
        assert isinstance(self.extract, Extractor)
        return self.extract

    def compare(self, features: Sequence[Features]) -> Found:
        """Match features of the two photos, refine the matches, and verify them."""
        a, b = (
            replace(each, focal=each.focal if known is None else known, photo=shown)
            for each, known, shown in zip(features, self.focals, self.pictures, strict=True)
        )
        with self.clock("match"):
            matches = self.matcher(a, b)
        if self.settings.refine and has_scales(a, b):
            with self.clock("refine"):
                if isinstance(self.extract, Extractor):
                    matches = refine(*self.photos, a, b, matches)
                else:
                    matches = refine_external(*self.sources, a, b, matches)
        with self.clock("verify"):
            geometry = "fundamental" if self.settings.geometry == "none" else self.settings.geometry
            return Found((a, b), matches, verify(a, b, matches, geometry, threshold=self.settings.threshold))

    def result(self, found: Found) -> MatchedPhotos:
        """Return what a user sees of the matches."""
        matches, fit = found.matches, found.fit
        overlap = None if matches.confidence is None else same_place(matches.confidence, len(fit))
        seconds = self.clock.seconds
        _LOG.info("%d matches, %d inliers of geometry %s", len(matches), len(fit), fit.name)
        _LOG.info("seconds: %s", ", ".join(f"{stage} {spent:.2f}" for stage, spent in seconds.items()))
        if self.settings.geometry == "none":
            fit = Fit(matches, None, np.ones(len(matches), bool))
        extract = self.extract
        patches = (extract.descriptor.patch_size, extract.support) if isinstance(extract, Extractor) else SHOWN
        return MatchedPhotos(self.photos, found.features, matches, fit, overlap, seconds, *patches)


@dataclass
class Clock:
    """A stopwatch for stages: `with clock("read"): ...` adds to clock.seconds["read"]."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
