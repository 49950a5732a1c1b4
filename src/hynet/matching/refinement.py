"""Matches -> the same matches, located more exactly: the patches of both photos are aligned.

A detector finds the two keypoints of a match apart from each other, and each is off by a good part of a pixel. Here the
region of the second photo is moved and stretched until it looks like that of the first: Lucas and Kanade's alignment,
in the inverse compositional form of Baker and Matthews (2004), whatever the gain and offset of the light. It finds what
is near; so the photo is looked through on a coarse grid around the keypoint first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import images
from ..errors import BadInput
from ..images.patches import Pyramid
from ..types import Array, Features, Matches, need_features
from .confidence import has_scales

# Width of the patches and radius of the Gaussian window in them, in detector sigmas: docs/matching.md
SUPPORT, WINDOW = 10.0, 2.5
SIZE = 20  # pixels a side
STEPS = 6
FARTHEST = 1.5  # sigmas: an alignment that moves farther is not believed, and neither is ...
ALIKE = 0.6  # ... one whose patches are correlated less than this in the end: they show different things
ALIKE_AFAR = 0.7  # the same away from the detected place: the best of many places is alike by chance more easily
FAINT = 2.0  # grey levels: contrast below this is noise
# What a square sigma away from where it began costs, in squared differences of normalised patches: along an edge, where
# all places look alike, that place is believed
PULL = 0.02
STIFFNESS = np.diag([PULL, PULL, 0.02, 0.02, 0.02, 0.02])  # of a step: x, y and the four numbers of the stretch
SMALLEST_AREA = 0.3  # of what a step makes of an area: below, it has gone astray
COARSE, REACH = 2, 4  # the grid: steps of as many pixels, so of a sigma, and as many steps to every side
AT_ONCE = 1024  # matches: memory is bounded whatever their number

ALONG = (np.arange(SIZE, dtype=np.float32) - (SIZE - 1) / 2) * (SUPPORT / SIZE)  # sigmas from the centre
X, Y = (each.ravel() for each in np.meshgrid(ALONG, ALONG))
WEIGHTS = np.exp(-(X**2 + Y**2) / (2 * WINDOW**2))
WEIGHTS /= WEIGHTS.sum()
COARSE_SIDE = SIZE // COARSE
COARSE_WEIGHTS = WEIGHTS.reshape(COARSE_SIDE, COARSE, COARSE_SIDE, COARSE).sum((1, 3)).ravel()
STEPS_ALONG = np.arange(-REACH, REACH + 1) * (SUPPORT / COARSE_SIDE)
SHIFTS = np.stack(np.meshgrid(STEPS_ALONG, STEPS_ALONG), -1).reshape(-1, 2)  # x and y in sigmas, row by row


def refine(first: Any, second: Any, a: Features, b: Features, matches: Matches) -> Matches:
    """Locate the second keypoints of matches more exactly, in `Matches.refined`.

    Keypoints without a size (ALIKED's, XFeat's) say nothing of the region around them: such matches stay as they are.

    first, second: the photos of the features, as paths, arrays, or whatever else an `Extractor` takes.
    """
    need_features(a, b)
    if not has_scales(a, b):
        return matches
    matches.places(a, b)  # says so where they are of other features
    rows, columns = matches.indices.T
    templates = Templates.of(_pyramid(first, a), a.keypoints.frames[rows].astype(np.float64))
    places = located(templates, _pyramid(second, b), b.keypoints.frames[columns].astype(np.float64), search=True)
    return replace(matches, refined=places.astype(np.float32))


def refine_external(first: Any, second: Any, a: Features, b: Features, matches: Matches) -> Matches:
    """Refine matches of features of any program; unchanged where these may not be of the pixels that we read.

    Others may detect keypoints in a photo as it lies, not turned by its EXIF, or in a smaller copy of it.
    """
    if any(isinstance(photo, str | Path) and images.is_turned(photo) for photo in (first, second)):
        return matches
    try:
        return refine(first, second, a, b, matches)
    except BadInput:
        return matches


def _pyramid(photo: Any, features: Features) -> Pyramid:
    image = images.read(photo)
    height, width = image.shape
    if (width, height) != features.image_size:
        size = " x ".join(map(str, features.image_size))
        raise BadInput(
            f"the photo has {width} x {height} pixels, its features are of {size}; give the photo they are of."
        )
    return Pyramid(image)


@dataclass(frozen=True)
class Templates:
    """Patches of keypoints that others are aligned with."""

    patches: Array  # (K, SIZE, SIZE) uint8
    blur: Array  # (K,) log2 of the pixels they were sampled from, in sigmas of the keypoint

    @classmethod
    def of(cls, photo: Pyramid, frames: Array) -> Templates:
        """Cut the templates of frames (K, 2, 3) float64."""
        levels = photo.levels(frames, SIZE, SUPPORT)
        return cls(photo.cut(frames, SIZE, SUPPORT, levels), levels - _log_sigma(frames))

    def __len__(self) -> int:
        return len(self.patches)

    def __getitem__(self, rows: Any) -> Templates:
        return Templates(self.patches[rows], self.blur[rows])


def located(templates: Templates, photo: Pyramid, frames: Array, *, search: bool = False) -> Array:
    """Find the places (K, 2) near frames (K, 2, 3) float64 of a photo that look like the templates.

    search: look several sigmas around, too. A descriptor forgives shifts: a keypoint may be matched with a neighbour of
    its partner, or, where the detector missed the partner, with whatever lies near.
    """
    places = [np.zeros((0, 2))]
    for start in range(0, len(templates), AT_ONCE):
        some, detected = templates[start : start + AT_ONCE], frames[start : start + AT_ONCE]
        found, likeness = _aligned(some, photo, detected)
        if search:
            way = _way_to_best(some, photo, detected)
            far = np.flatnonzero(way.any(1))
            moved = detected[far]
            moved[:, :, 2:] += moved[:, :, :2] @ way[far, :, None]
            found_there, likeness_there = _aligned(some[far], photo, moved)
            better = (likeness_there > likeness[far]) & (likeness_there >= ALIKE_AFAR)
            found[far[better]] = found_there[better]
        places.append(found)
    return np.concatenate(places)


def _way_to_best(templates: Templates, photo: Pyramid, frames: Array) -> Array:
    """Offsets (K, 2) from frames (K, 2, 3), in their sigmas, to where on a coarse grid the templates fit best."""
    count, wide = len(frames), COARSE_SIDE + 2 * REACH
    coarse = templates.patches.reshape(count, COARSE_SIDE, COARSE, COARSE_SIDE, COARSE).mean((2, 4), dtype=np.float32)
    template = _normalised(coarse.reshape(count, COARSE_SIDE**2), COARSE_WEIGHTS)[0]
    levels = photo.nearest_level(templates.blur + _log_sigma(frames) + np.log2(COARSE))
    around = photo.cut(frames, wide, wide * SUPPORT / COARSE_SIDE, levels).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(around, (COARSE_SIDE, COARSE_SIDE), (1, 2))
    seen = windows.reshape(count, len(SHIFTS), COARSE_SIDE**2)
    variance = (seen**2) @ COARSE_WEIGHTS - (seen @ COARSE_WEIGHTS) ** 2
    correlation = (seen @ (template * COARSE_WEIGHTS)[:, :, None])[:, :, 0] / np.sqrt(variance + FAINT**2)
    return SHIFTS[np.argmax(correlation - PULL / 2 * (SHIFTS**2).sum(1), axis=1)]


def _aligned(templates: Templates, photo: Pyramid, begun: Array) -> tuple[Array, Array]:
    """Align templates with a photo near frames (K, 2, 3): places (K, 2) and final correlations (K,).

    An alignment that is not to be believed gives the place of the frame, and 0.
    """
    template, slopes = _template(templates.patches)
    weighted = (slopes * WEIGHTS[:, None]).transpose(0, 2, 1)  # (K, 6, P)
    to_step = np.linalg.inv(weighted @ slopes + STIFFNESS)  # (K, 6, 6)
    levels = photo.nearest_level(templates.blur + _log_sigma(begun))  # blurred as the templates are
    warps = np.tile(np.eye(3), (len(begun), 1, 1))  # of the frames, in their sigmas
    best = begun
    likeness = np.zeros(len(begun))
    highest = np.full(len(begun), -np.inf)
    for _ in range(STEPS + 1):
        frames = begun @ warps
        seen = _normalised(_rows(photo.cut(frames, SIZE, SUPPORT, levels)), WEIGHTS)[0]
        away = warps[:, :2, 2]
        correlation = (template * seen) @ WEIGHTS
        worth = correlation - PULL / 2 * (away**2).sum(1)
        better = worth > highest
        best = np.where(better[:, None, None], frames, best)
        likeness = np.where(better, correlation, likeness)
        highest = np.maximum(worth, highest)
        uphill = (weighted @ (seen - template)[:, :, None])[:, :, 0]  # (K, 6)
        uphill[:, :2] += PULL * away
        warps = warps @ np.linalg.inv(_as_warps((to_step @ uphill[:, :, None])[:, :, 0]))
    way = np.linalg.solve(begun[:, :, :2], best[:, :, 2:] - begun[:, :, 2:])[:, :, 0]  # in sigmas
    believed = (np.linalg.norm(way, axis=1) < FARTHEST) & (likeness >= ALIKE) & photo.shows(best[:, :, 2])
    return np.where(believed[:, None], best[:, :, 2], begun[:, :, 2]), np.where(believed, likeness, 0)


def _log_sigma(frames: Array) -> Array:
    """Logarithms (K,) of the sigmas of frames (K, 2, 3), to base 2."""
    return np.log2(np.abs(np.linalg.det(frames[:, :, :2]))) / 2


def _rows(patches: Array) -> Array:
    """Flatten patches (K, SIZE, SIZE) uint8 to (K, P) float32."""
    return patches.reshape(len(patches), SIZE**2).astype(np.float32)


def _normalised(values: Array, weights: Array) -> tuple[Array, Array]:
    """Normalise (K, P) to mean 0 and standard deviation 1 in the window; also the contrast (K, 1) they had."""
    values = values - (values @ weights)[:, None]
    contrast = np.sqrt((values**2) @ weights + FAINT**2)[:, None]
    return values / contrast, contrast


def _template(patches: Array) -> tuple[Array, Array]:
    """Patches of the first photo, normalised, and how they change with x, y and the stretch: (K, P), (K, P, 6)."""
    values, contrast = _normalised(_rows(patches), WEIGHTS)
    down, across = np.gradient(patches.astype(np.float32), SUPPORT / SIZE, axis=(1, 2))  # per sigma
    down, across = down.reshape(values.shape) / contrast, across.reshape(values.shape) / contrast
    slopes = np.stack([across, down, across * X, down * X, across * Y, down * Y], -1)
    slopes -= (WEIGHTS @ slopes)[:, None]  # offset and gain of the light are free: nothing is learnt from them
    slopes -= values[:, :, None] * ((values * WEIGHTS)[:, None] @ slopes)
    return values, slopes


def _as_warps(steps: Array) -> Array:
    """Convert x, y and stretch (K, 6) to (K, 3, 3); a step that would squash or mirror the region becomes none."""
    warps = np.tile(np.eye(3), (len(steps), 1, 1))
    warps[:, :2] += steps.reshape(-1, 3, 2)[:, [1, 2, 0]].transpose(0, 2, 1)
    warps[np.linalg.det(warps) < SMALLEST_AREA] = np.eye(3)
    return warps
