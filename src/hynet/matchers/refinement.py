"""Matches -> the same matches, located more exactly: the patches of both photos are aligned.

A detector finds the two keypoints of a match apart from each other, and each is off by a good part of a pixel. Here the
region of the second photo is moved and stretched until it looks like that of the first: Lucas and Kanade's alignment,
in the inverse compositional form of Baker and Matthews (2004), whatever the gain and offset of the light.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .. import images
from ..errors import BadInput
from ..patches import Pyramid
from ..types import Array, Features, Matches, need_features

# Width of the patches and radius of the Gaussian window in them, in detector sigmas: docs/matching.md has the choice.
SUPPORT, WINDOW = 10.0, 2.5
SIZE = 20  # pixels a side
STEPS = 6
FARTHEST = 1.5  # sigmas: a keypoint that would move farther stays where it was found
FAINT = 2.0  # grey levels: contrast below this is noise
# What a square sigma away from the detected place costs, in squared differences of normalised patches: along an edge,
# where all places look alike, the detector is believed
PULL = 0.02
STIFFNESS = np.diag([PULL, PULL, 0.02, 0.02, 0.02, 0.02])  # of a step: x, y and the four numbers of the stretch
SMALLEST_AREA = 0.3  # of what a step makes of an area: below, it has gone astray
AT_ONCE = 1024  # matches: memory is bounded whatever their number

ALONG = (np.arange(SIZE, dtype=np.float32) - (SIZE - 1) / 2) * (SUPPORT / SIZE)  # sigmas from the centre
X, Y = (each.ravel() for each in np.meshgrid(ALONG, ALONG))
WEIGHTS = np.exp(-(X**2 + Y**2) / (2 * WINDOW**2))
WEIGHTS /= WEIGHTS.sum()


def refine(first: Any, second: Any, a: Features, b: Features, matches: Matches) -> Matches:
    """The matches with the exact places of their second keypoints, in `Matches.refined`.

    first, second: the photos of the features, as paths, arrays, or whatever else an `Extractor` takes.
    """
    need_features(a, b)
    if any((each.keypoints.sigma <= 0).any() for each in (a, b)):
        raise BadInput("keypoints without a size cannot be refined; use the matches as they are.")
    rows, columns = matches.indices.T
    fixed, moving = (each.keypoints.frames[chosen].astype(np.float64) for each, chosen in ((a, rows), (b, columns)))
    places = located(_pyramid(first, a), fixed, _pyramid(second, b), moving)
    return replace(matches, refined=places.astype(np.float32))


def _pyramid(photo: Any, features: Features) -> Pyramid:
    image = images.read(photo)
    height, width = image.shape
    if (width, height) != features.image_size:
        size = " x ".join(map(str, features.image_size))
        raise BadInput(
            f"the photo has {width} x {height} pixels, its features are of {size}; give the photo they are of."
        )
    return Pyramid(image)


def located(first: Pyramid, fixed: Array, second: Pyramid, moving: Array) -> Array:
    """Where the moving frames (K, 2, 3) of the second photo show what the fixed ones of the first do. (K, 2)."""
    pieces = [slice(start, start + AT_ONCE) for start in range(0, len(fixed), AT_ONCE)]
    return np.concatenate([np.zeros((0, 2)), *(_aligned(first, fixed[each], second, moving[each]) for each in pieces)])


def _aligned(first: Pyramid, fixed: Array, second: Pyramid, moving: Array) -> Array:
    """The same for as many as are held at once."""
    template, slopes = _template(first.cut(fixed, SIZE, SUPPORT))
    weighted = (slopes * WEIGHTS[:, None]).transpose(0, 2, 1)  # (K, 6, P)
    to_step = np.linalg.inv(weighted @ slopes + STIFFNESS)  # (K, 6, 6)
    levels = second.levels(moving, SIZE, SUPPORT)  # kept: on another level the photo is blurred differently
    warps = np.tile(np.eye(3), (len(moving), 1, 1))  # of the moving frames, in their sigmas
    best, highest = moving, np.full(len(moving), -np.inf)
    for _ in range(STEPS + 1):
        frames = moving @ warps
        seen = _normalised(second.cut(frames, SIZE, SUPPORT, levels))[0]
        away = warps[:, :2, 2]
        likeness = (template * seen) @ WEIGHTS - PULL / 2 * (away**2).sum(1)  # correlation, less what the way costs
        best = np.where((likeness > highest)[:, None, None], frames, best)
        highest = np.maximum(likeness, highest)
        uphill = (weighted @ (seen - template)[:, :, None])[:, :, 0]  # (K, 6)
        uphill[:, :2] += PULL * away
        warps = warps @ np.linalg.inv(_as_warps((to_step @ uphill[:, :, None])[:, :, 0]))
    way = np.linalg.solve(moving[:, :, :2], best[:, :, 2:] - moving[:, :, 2:])[:, :, 0]  # in sigmas
    near = np.linalg.norm(way, axis=1) < FARTHEST
    return np.where(near[:, None], best[:, :, 2], moving[:, :, 2])


def _normalised(patches: Array) -> tuple[Array, Array]:
    """(K, S, S) -> (K, P) of mean 0 and standard deviation 1 in the window, and the contrast (K, 1) they had."""
    values = patches.reshape(len(patches), -1).astype(np.float32)
    values -= (values @ WEIGHTS)[:, None]
    contrast = np.sqrt((values**2) @ WEIGHTS + FAINT**2)[:, None]
    return values / contrast, contrast


def _template(patches: Array) -> tuple[Array, Array]:
    """Patches of the first photo, normalised, and how they change with x, y and the stretch: (K, P), (K, P, 6)."""
    values, contrast = _normalised(patches)
    down, across = np.gradient(patches.astype(np.float32), SUPPORT / SIZE, axis=(1, 2))  # per sigma
    down, across = down.reshape(values.shape) / contrast, across.reshape(values.shape) / contrast
    slopes = np.stack([across, down, across * X, down * X, across * Y, down * Y], -1)
    slopes -= (WEIGHTS @ slopes)[:, None]  # offset and gain of the light are free: nothing is learnt from them
    slopes -= values[:, :, None] * ((values * WEIGHTS)[:, None] @ slopes)
    return values, slopes


def _as_warps(steps: Array) -> Array:
    """x, y and stretch (K, 6) -> (K, 3, 3); where a step would all but squash the region, none."""
    warps = np.tile(np.eye(3), (len(steps), 1, 1))
    warps[:, :2] += steps.reshape(-1, 3, 2)[:, [1, 2, 0]].transpose(0, 2, 1)
    astray = np.abs(np.linalg.det(warps)) < SMALLEST_AREA
    warps[astray] = np.eye(3)
    return warps
