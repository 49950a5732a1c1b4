"""Whether the photos of a collection stand alike, or some were turned: features of one photo do not know the others.

A few keypoints of some photos are described with their gradient's orientation, which any turn leaves alike. Where two
photos show the same thing, their matches agree on one change of angle, which is the turn between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from .. import images
from ..errors import BadInput
from ..system.machine import cores
from ..types import Array, Progress, silent
from .patchwise import Extractor

LOOKING = "looking how the photos stand"  # the step, as progress names it
PHOTOS = 24  # of a collection, evenly through it
LONGEST, KEYPOINTS = 480, 384  # pixels and keypoints of each: enough to tell a turn, at a tenth of the time of all
WINDOW = np.radians(20)  # around the commonest change of angle
AGREE, CHANCE = 10, 3.0  # matches of one change of angle, and times as many as chance would give
# Upright keypoints bear some 20 degrees. Of the pairs that show a turn or none, so many may be turned by more than so
# much. One photo of 24 turned is in a twelfth of them; where many lean a little, pairs that turned more were not even
# recognised. docs/matching.md has the scenes these were chosen by.
TOO_MANY = {np.radians(25): 0.05, np.radians(10): 0.3}


def looking_model(descriptor: str) -> str:
    """The model that photos are looked at with: whoever describes with `light` does not wait for `default`."""
    return "light" if descriptor == "light" else "default"


def orientation_of(photos: Sequence[Any], model: str = "default", progress: Progress = silent) -> str:
    """What "auto" is for a collection; of a photo alone nothing is known, so that it may be matched with any."""
    return "gradient" if len(photos) < 2 or are_turned(photos, model, progress) else "upright"


def are_turned(photos: Sequence[Any], model: str = "default", progress: Progress = silent) -> bool:
    """Whether some photos were turned against others by more than upright keypoints bear; no evidence is no."""
    return too_many(turns(photos, model, progress))


def too_many(found: Array) -> bool:
    """Whether these turns (K,) in radians are more than upright keypoints bear."""
    return len(found) > 0 and any(np.mean(np.abs(found) > angle) > share for angle, share in TOO_MANY.items())


def turns(photos: Sequence[Any], model: str = "default", progress: Progress = silent) -> Array:
    """Radians between the photos of each pair that shows how it was turned; of many photos, some are looked at."""

    def seen(k: int) -> tuple[Array, Array] | None:
        try:
            return look(photos[k], model)
        except BadInput:  # who extracts will say so
            return None

    _looking(model)  # opened once, for all threads
    some, looked = some_of(len(photos)), []
    with ThreadPoolExecutor(len(cores())) as pool:
        for done, each in enumerate(pool.map(seen, some), start=1):
            progress(done, len(some), LOOKING)
            if each is not None:
                looked.append(each)
    return turns_between(looked)


def some_of(count: int) -> Array:
    """The places of the photos that are looked at, of `count`."""
    return np.unique(np.linspace(0, count - 1, min(PHOTOS, count)).astype(int))


def look(photo: Any, model: str = "default") -> tuple[Array, Array]:
    """Descriptors (N, D) and angles (N,) of a few keypoints of a photo, whatever `images.read` takes."""
    extract = _looking(model)
    image = images.shrink(images.read(photo), LONGEST)[0]
    found = extract.describe(image, extract.detect(image))
    return found.descriptors, found.keypoints.angle


def turns_between(seen: Sequence[tuple[Array, Array]]) -> Array:
    """The same as `turns`, of photos that were looked at."""
    found = []
    for k, (descriptors, angle) in enumerate(seen[:-1]):
        others, angles = zip(*seen[k + 1 :], strict=True)
        # One product with all that follow: of many small ones, the threads mostly wait for each other.
        likeness = descriptors @ np.concatenate(others).T
        parts = np.split(likeness, np.cumsum([len(other) for other in others])[:-1], axis=1)
        found += [_turn(part, angle, other) for part, other in zip(parts, angles, strict=True)]
    return np.array([turn for turn in found if turn is not None])


@lru_cache(maxsize=1)
def _looking(model: str) -> Extractor:
    return Extractor("dog", model, KEYPOINTS, orientation="gradient", longest=LONGEST)


def _turn(likeness: Array, first_angle: Array, second_angle: Array) -> float | None:
    """The change of angle, from -pi to pi, that mutual nearest neighbours agree on; None where they do not."""
    if not likeness.size:
        return None
    best = likeness.argmax(1)
    rows = np.flatnonzero(likeness.argmax(0)[best] == np.arange(len(likeness)))
    change = (second_angle[best[rows]] - first_angle[rows]) % (2 * np.pi)
    apart = np.pi - np.abs(np.abs(change[:, None] - change[None]) - np.pi)  # the shorter way around
    agree = (apart < WINDOW).sum(1)
    if not len(rows) or agree.max() < max(AGREE, CHANCE * len(rows) * WINDOW / np.pi):
        return None
    most = change[apart[agree.argmax()] < WINDOW]
    return float(np.angle(np.exp(1j * most).mean()))
