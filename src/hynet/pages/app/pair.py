"""Two photos of a visit -> what `hynet.match_photos` says of them; what was described is not described again."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from ...errors import BadInput
from ...features.detectors import open_detector
from ...features.extractors.patchwise import Extractor
from ...features.settings import usual_shape, usual_spread
from ...images.patches import cut
from ...matching.matched_photos import MatchedPhotos
from ...matching.settings import THRESHOLDS
from ...matching.two_photos import match_photos
from ...types import Array, Detector, Features, Keypoints
from .choice import MOST_KEYPOINTS, Choice, command, snippet
from .photo import PagePhoto

PIECE = 512  # patches: between two of these it is seen that the page was closed, and others have their turn
MOST_REMEMBERED = 60_000  # descriptors of a photo by one model; some 40 MB


class PageClosed(Exception):
    """Nobody waits for this any more."""


@lru_cache(maxsize=16)
def opened(detector: str, model: str) -> tuple[Extractor, threading.Lock]:
    """An extractor for all visits, and the lock of who describes: each of them takes all cores anyway."""
    return Extractor(
        detector=detector, model=model, max_keypoints=MOST_KEYPOINTS, shape=usual_shape(detector, model)
    ), threading.Lock()


@lru_cache(maxsize=16)
def opened_detector(detector: str, max_keypoints: int, spread: bool) -> Detector:
    return open_detector(detector, max_keypoints=max_keypoints, upright=True, **({} if spread else {"spread": False}))


class _Described:
    """The descriptors of keypoints by one model, each made once."""

    def __init__(self) -> None:
        self._row: dict[bytes, Array] = {}  # frame -> (D,)

    def of(self, keypoints: Keypoints, describe: Callable[[Keypoints], Array]) -> tuple[Array, bool]:
        """(N, D), and whether some of it had to be described."""
        keys = [frame.tobytes() for frame in keypoints.frames]
        new = [k for k, key in enumerate(keys) if key not in self._row]
        if new and len(self._row) + len(new) > MOST_REMEMBERED:
            self._row.clear()
            new = list(range(len(keys)))
        if new or not keys:
            made = describe(keypoints[new])
            if not keys:
                return made, False
            self._row.update({keys[k]: row for k, row in zip(new, made, strict=True)})
        return np.stack([self._row[key] for key in keys]), bool(new)


class Memory:
    """A cache of the keypoints and descriptors of two photos, kept for as long as they are shown."""

    def __init__(self, photos: tuple[PagePhoto, PagePhoto], closed: threading.Event, *, example: bool) -> None:
        self.photos = photos
        self.closed = closed
        self.names = None if example else (photos[0].name, photos[1].name)
        self.read_shown = False
        # detector, shape, how many, spread, side
        self.detected: dict[tuple[str, str, int, bool, int], Keypoints] = {}
        self.described: dict[tuple[str, str, int], _Described] = {}  # detector, model, side

    def side(self, image: Array) -> int:
        return next(side for side, photo in enumerate(self.photos) if np.may_share_memory(image, photo.grey))

    def check(self) -> None:
        if self.closed.is_set():
            raise PageClosed


class RememberingExtractor(Extractor):
    """An extractor of two photos that looks up what it did before; `match_photos` takes it like any other."""

    def __init__(self, memory: Memory, choice: Choice) -> None:
        extract, self._lock = opened(choice.detector, choice.model)
        vars(self).update(vars(extract))  # all that was loaded is shared
        # Fewer keypoints are not the first of more, since they are spread: each number is looked for once.
        self._spread = usual_spread(choice.detector, choice.geometry)
        self.detector = opened_detector(choice.detector, choice.keypoints, self._spread)
        self.orientation = choice.orientation
        self.max_keypoints = choice.keypoints
        self.worked: set[str] = set()  # stages that were more than looking up
        self._memory = memory
        self._choice = choice

    def detect_upright(self, image: Array, mask: Array | None = None) -> Keypoints:
        self._memory.check()
        shape = usual_shape(self._choice.detector, self._choice.model)
        key = self._choice.detector, shape, self.max_keypoints, self._spread, self._memory.side(image)
        if key not in self._memory.detected:
            self.worked.add("detect")
            self._memory.detected[key] = super().detect_upright(image)
        return self._memory.detected[key]

    def describe(self, image: Array, keypoints: Keypoints) -> Features:
        self._memory.check()
        side = self._memory.side(image)
        key = self._choice.detector, self._choice.model, side
        remembered = self._memory.described.setdefault(key, _Described())

        def describe(new: Keypoints) -> Array:
            made = []
            for start in range(0, max(1, len(new)), PIECE):
                self._memory.check()
                with self._lock:
                    made.append(self.descriptor.describe(self.patches(image, new[start : start + PIECE])))
            return np.concatenate(made)

        descriptors, worked = remembered.of(keypoints, describe)
        if worked:
            self.worked.add("describe")
        height, width = image.shape
        focal = self._memory.photos[side].focal
        return Features(keypoints, descriptors, (width, height), self.ratio, self.thresholds, focal)


def find(memory: Memory, choice: Choice) -> tuple[MatchedPhotos, dict[str, Any]]:
    """Match two photos with `hynet.match_photos` and these settings; return the result, also as JSON for the page."""
    memory.check()
    start = time.perf_counter()
    misses = opened.cache_info().misses
    extract = RememberingExtractor(memory, choice)
    loaded = time.perf_counter() - start
    found = match_photos(
        memory.photos[0].grey,
        memory.photos[1].grey,
        extractor=extract,
        ratio=choice.ratio,
        geometry=choice.geometry,
        threshold=choice.threshold,
    )
    seconds = dict(found.seconds) | {"load": loaded, "read": sum(photo.seconds for photo in memory.photos)}
    worked = extract.worked | {"match", "verify"} | ({"refine"} & found.seconds.keys())
    worked |= {"load"} if opened.cache_info().misses > misses else set()
    worked |= set() if memory.read_shown else {"read"}
    memory.read_shown = True
    return found, _told(found, memory, choice, seconds, worked)


def patches_png(found: MatchedPhotos, number: int) -> bytes:
    """Draw the two patches that were described for a match, side by side, as a grey PNG."""
    if not 0 <= number < len(found.matches):
        raise BadInput(f"there is no match {number}; there are {len(found.matches)}.")
    sides = [
        cut(
            photo, features.keypoints[found.matches.indices[number : number + 1, side]], found.patch_size, found.support
        )
        for side, (photo, features) in enumerate(zip(found.photos, found.features, strict=True))
    ]
    content = io.BytesIO()
    Image.fromarray(np.hstack([sides[0][0], sides[1][0]])).save(content, "png")
    return content.getvalue()


def _told(
    found: MatchedPhotos, memory: Memory, choice: Choice, seconds: Mapping[str, float], worked: set[str]
) -> dict[str, Any]:
    first, second = found.features
    confidence = found.matches.confidence
    rows, columns = found.matches.indices.T
    shapes = [each.keypoints.frames[which, :, :2].reshape(-1, 4) for each, which in ((first, rows), (second, columns))]
    usual = first.thresholds.get(found.geometry.name, THRESHOLDS.get(found.geometry.name))
    return {
        "keypoints": [len(first), len(second)],
        "matches": len(found.matches),
        "inliers": len(found.inliers),
        "geometry": found.geometry.name,
        "why": found.geometry.why,
        "model": None if found.geometry.model is None else found.geometry.model.tolist(),
        "ratio": choice.ratio,
        "threshold": usual if choice.threshold is None else choice.threshold,
        "seconds": {stage: round(seconds[stage], 5) for stage in STAGES if stage in seconds},
        "worked": sorted(worked),
        "sizes": [list(first.image_size), list(second.image_size)],
        "points": found.points(found.matches).round(3).tolist(),  # x1, y1, x2, y2
        "shapes": np.hstack(shapes).round(3).tolist(),  # of both regions, row after row
        "support": found.support,
        "distances": found.matches.distances.astype(float).round(4).tolist(),
        "confidence": None if confidence is None else confidence.astype(float).round(4).tolist(),
        "overlap": None if found.overlap is None else round(found.overlap, 4),
        "place": found.place,
        "is_inlier": found.is_inlier.tolist(),
        "python": snippet(choice, memory.names),
        "command": command(choice, memory.names),
    }


STAGES = ("read", "load", "detect", "describe", "match", "refine", "verify")
