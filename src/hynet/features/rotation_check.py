"""Check whether some photos of a collection are rotated relative to others, which no photo alone can tell.

A few keypoints of some photos are described with their gradient's orientation, which no rotation changes. Where two
photos show the same thing, their matches agree on one change of angle, which is the turn between them. Pairs that show
too little for that still tell whether oriented or upright keypoints match better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .. import images
from ..errors import BadInput
from ..runtime.machine import cores
from ..types import Array, Progress, silent
from .extractors.patchwise import Extractor

SAMPLING = "checking for rotated photos"  # the step, as progress names it
PHOTOS = 24  # of a collection, evenly through it
LONGEST, KEYPOINTS = 480, 384  # pixels and keypoints of each: enough to tell a turn, at a tenth of the time of all
WINDOW = np.radians(20)  # around the commonest change of angle
AGREE, CHANCE = 10, 3.0  # matches of one change of angle, and times as many as chance would give
# Upright keypoints bear some 20 degrees. Of the pairs that show a turn or none, so many may be turned by more than so
# much. One photo of 24 turned is in a twelfth of them; where many lean a little, pairs that turned more were not even
# recognised. docs/matching.md has the scenes these were chosen by.
TOO_MANY = {np.radians(25): 0.05, np.radians(10): 0.3}
RATIO, FEW = 0.85, 10  # of a match that counts where orientations are compared, and matches of a pair that does


@dataclass(frozen=True)
class PhotoSample:
    """A few keypoints of a photo, described twice."""

    oriented: Array  # (N, D) descriptors of keypoints rotated to their gradient, and ...
    angle: Array  # ... (N,) radians, how far
    upright: Array  # (M, D) descriptors of as many keypoints, not rotated: a place with two orientations takes two of N


def sampling_model(model: str) -> str:
    """The model for samples: whoever describes with `light` does not wait for `default`."""
    return "light" if model == "light" else "default"


def orientation_of(photos: Sequence[Any], model: str = "default", progress: Progress = silent) -> str:
    """Resolve "auto" for a collection; nothing is known of a photo alone, so it may be matched with any."""
    return "gradient" if len(photos) < 2 or are_rotated(sample_all(photos, model, progress)) else "upright"


def are_rotated(samples: Sequence[PhotoSample]) -> bool:
    """True if oriented keypoints suit the photos better: some are rotated too much, or they match better so."""
    oriented, upright = matches_by_orientation(samples)
    by_chance = 2 * np.sqrt(oriented + upright)  # two standard deviations of the difference, were both alike
    return bool(oriented > upright + by_chance) or too_many(turns_between(samples))


def too_many(found: Array) -> bool:
    """Whether these turns (K,) in radians are more than upright keypoints bear."""
    return len(found) > 0 and any(np.mean(np.abs(found) > angle) > share for angle, share in TOO_MANY.items())


def sample_all(photos: Sequence[Any], model: str = "default", progress: Progress = silent) -> list[PhotoSample]:
    """Sample each photo that can be read; of many photos, some."""

    def sample(k: int) -> PhotoSample | None:
        try:
            return sample_photo(photos[k], model)
        except BadInput:  # who extracts will say so
            return None

    _sampling_extractor(model)  # opened once, for all threads
    some, samples = some_of(len(photos)), []
    with ThreadPoolExecutor(len(cores())) as pool:
        for done, each in enumerate(pool.map(sample, some), start=1):
            progress(done, len(some), SAMPLING)
            if each is not None:
                samples.append(each)
    return samples


def some_of(count: int) -> Array:
    """Indices of the photos that are sampled, of `count`."""
    return np.unique(np.linspace(0, count - 1, min(PHOTOS, count)).astype(int))


def sample_photo(photo: Any, model: str = "default") -> PhotoSample:
    """Describe a few keypoints of a photo, whatever `images.read` takes."""
    extract = _sampling_extractor(model)
    image = images.shrink(images.read(photo), LONGEST)[0]
    found = extract.detect_upright(image)
    oriented, upright = (extract.describe(image, each) for each in (extract.orient(image, found), found))
    return PhotoSample(oriented.descriptors, oriented.keypoints.angle, upright.descriptors)


def turns_between(seen: Sequence[PhotoSample]) -> Array:
    """Radians between the photos of each pair that shows how it was turned."""
    angles = [each.angle for each in seen]
    likenesses = _likenesses([each.oriented for each in seen])
    found = [_turn(likeness, angles[first], angles[second]) for first, second, likeness in likenesses]
    return np.array([turn for turn in found if turn is not None])


def matches_by_orientation(seen: Sequence[PhotoSample]) -> tuple[int, int]:
    """Count the matches of oriented and of upright keypoints in all pairs that show the same thing."""
    oriented, upright = (
        np.array([_distinctive(likeness) for _, _, likeness in _likenesses(descriptors)])
        for descriptors in ([each.oriented for each in seen], [each.upright for each in seen])
    )
    telling = np.maximum(oriented, upright) >= FEW
    return int(oriented[telling].sum()), int(upright[telling].sum())


def _likenesses(descriptors: Sequence[Array]) -> Iterator[tuple[int, int, Array]]:
    """Every pair of photos, and the products of their descriptors (N, M)."""
    for first, own in enumerate(descriptors[:-1]):
        others = descriptors[first + 1 :]
        # One product with all that follow: of many small ones, the threads mostly wait for each other.
        likeness = own @ np.concatenate(others).T
        parts = np.split(likeness, np.cumsum([len(other) for other in others])[:-1], axis=1)
        yield from ((first, second, part) for second, part in enumerate(parts, start=first + 1))


def _distinctive(likeness: Array) -> int:
    """Count mutual nearest neighbours that are clearly nearer than the runner-up."""
    if min(likeness.shape) < 2:
        return 0
    rows, _ = _mutual(likeness)
    runner_up, nearest = np.partition(likeness[rows], -2, axis=1)[:, -2:].T
    return int((1 - nearest < RATIO**2 * (1 - runner_up)).sum())  # of unit vectors, d^2 = 2 (1 - s)


def _mutual(likeness: Array) -> tuple[Array, Array]:
    """Rows (K,) and columns (K,) that are each other's nearest."""
    best = likeness.argmax(1)
    rows = np.flatnonzero(likeness.argmax(0)[best] == np.arange(len(likeness)))
    return rows, best[rows]


@lru_cache(maxsize=2)
def _sampling_extractor(model: str) -> Extractor:
    return Extractor(model=model, max_keypoints=KEYPOINTS, orientation="gradient", longest=LONGEST)


def _turn(likeness: Array, first_angle: Array, second_angle: Array) -> float | None:
    """The change of angle, from -pi to pi, that mutual nearest neighbours agree on; None where they do not."""
    if not likeness.size:
        return None
    rows, columns = _mutual(likeness)
    change = (second_angle[columns] - first_angle[rows]) % (2 * np.pi)
    apart = np.pi - np.abs(np.abs(change[:, None] - change[None]) - np.pi)  # the shorter way around
    agree = (apart < WINDOW).sum(1)
    if not len(rows) or agree.max() < max(AGREE, CHANCE * len(rows) * WINDOW / np.pi):
        return None
    most = change[apart[agree.argmax()] < WINDOW]
    return float(np.angle(np.exp(1j * most).mean()))
