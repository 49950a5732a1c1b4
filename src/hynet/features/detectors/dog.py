"""Difference of Gaussians: the extrema that SIFT detects, where OpenCV finds them.

OpenCV orients every extremum before the best are chosen, and finds none fainter than a threshold set beforehand. Here
only what is kept is oriented, and the threshold goes as low as the number asked for needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np

from ...types import Array, Keypoints
from . import orientation
from .selection import best_rows, check, inside

LAYERS = 3  # scales in an octave, as Lowe
SIGMA, CAMERA_BLUR = 1.6, 0.5  # pixels: of the first Gaussian of an octave, and of what a camera does
EDGE = 10.0  # an extremum that is this many times as long as wide lies on an edge
BORDER = 5  # pixels of each octave without keypoints
MOVES = 5  # to neighbouring pixels or layers, after which an extremum is given up
FAINTEST = 0.0005  # contrast, white being 1: an eighth of a grey level; what is weaker is rounding
BAND = 64  # rows of a layer that are looked at together: what lies between the passes stays in the cache
CANDIDATES = 4  # extrema refined in an octave for each keypoint asked for; about a third of them lie on edges


@dataclass(frozen=True)
class DoG:
    """Blobs, each with the sigma of the finer of the two Gaussians: a round blob's own sigma is 2^(1/6) times that.

    That is what SIFT, VLFeat and COLMAP call a keypoint's scale. OpenCV's `size` is twice it.
    """

    max_keypoints: int = 2048
    score_threshold: float | None = None  # contrast of the blob, white being 1; None: the number asked for decides
    upright: bool = False  # no orientation: one keypoint a place, angle 0
    spread: bool = True  # over the photo, instead of the strongest anywhere

    def __post_init__(self) -> None:
        check(self.max_keypoints, self.score_threshold)

    def __call__(self, image: Array, mask: Array | None = None) -> Keypoints:
        """(H, W) grey uint8 -> Keypoints, the best first. Only where the mask (H, W) is not zero."""
        least = FAINTEST if self.score_threshold is None else self.score_threshold
        tables = [np.zeros((0, 4))]
        for octave, stack in enumerate(octaves(image)):
            pixel = 2.0 ** (octave - 1)  # of the octave, in pixels of the photo
            places = _extrema(stack, least / 2)  # the contrast may be higher between the pixels
            places = places[inside(places[:, :0:-1] * pixel, mask, image.shape)]
            contrast = np.abs(stack[tuple(places.T)])
            strongest = best_rows(places[:, :0:-1], contrast, CANDIDATES * self.max_keypoints)
            table = _refined(stack, places[strongest])
            table[:, :3] *= pixel
            tables.append(table[table[:, 3] >= least])
        x, y, sigma, contrast = np.concatenate(tables).T
        xy = np.column_stack([x, y])
        rows = np.flatnonzero(inside(xy, mask, image.shape))
        # Larger blobs are found again more often than small ones of the same contrast: docs/matching.md.
        worth = contrast[rows] * np.sqrt(sigma[rows])
        rows = rows[best_rows(xy[rows], worth, self.max_keypoints, image.shape if self.spread else None)]
        keypoints = Keypoints.from_circles(xy[rows], sigma[rows], np.zeros(len(rows)), contrast[rows])
        return keypoints if self.upright else orientation.oriented(image, keypoints)[: self.max_keypoints]


def octaves(image: Array) -> Iterator[Array]:
    """Differences of neighbouring Gaussians (LAYERS + 2, h, w), of the photo doubled, then ever smaller; white is 1.

    Each is gone when the next is asked for: fresh memory for every picture would take as long as the blurring.
    """
    height, width = image.shape
    to_half = np.array([[0.5, 0, 0], [0, 0.5, 0]], np.float32)  # pixel (0, 0) stays where it is
    planes = np.empty((LAYERS + 3, 2 * height, 2 * width), np.float32)
    memory = planes.ravel()
    doubled = cv2.warpAffine(
        np.divide(image, 255, dtype=np.float32),
        to_half,
        (2 * width, 2 * height),
        dst=planes[-1],
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REFLECT,
    )
    first = cv2.GaussianBlur(doubled, (0, 0), np.sqrt(SIGMA**2 - (2 * CAMERA_BLUR) ** 2), dst=planes[0])
    sigmas = SIGMA * 2 ** (np.arange(LAYERS + 3) / LAYERS)
    while min(first.shape) > 2 * BORDER:
        planes = memory[: (LAYERS + 3) * first.size].reshape(-1, *first.shape)
        blurred = first
        for layer, (before, after) in enumerate(pairwise(sigmas)):
            more = cv2.GaussianBlur(blurred, (0, 0), np.sqrt(after**2 - before**2), dst=planes[layer + 1])
            cv2.subtract(more, blurred, dst=planes[layer])  # in place of the Gaussian that is no longer needed
            blurred = more
            if layer == LAYERS - 1:
                smaller = more[::2, ::2].copy()  # of twice the first sigma: it begins the next octave
        yield planes[:-1]
        first = smaller


def _extrema(stack: Array, least: float) -> Array:
    """(N, 3) layer, row and column of the values, beyond `least`, that are the largest or smallest of 27."""
    layers, height, width = stack.shape
    window, found = np.ones((3, 3), np.uint8), [np.zeros(0, np.int64)]
    for layer in range(1, layers - 1):
        for top in range(BORDER, height - BORDER, BAND):
            rows = slice(top - 1, min(top + BAND, height - BORDER) + 1)  # with those around them
            before, here, after = stack[layer - 1 : layer + 2, rows]
            largest = cv2.dilate(cv2.max(cv2.max(before, here), after), window)
            smallest = cv2.erode(cv2.min(cv2.min(before, here), after), window)
            peak = (here > least) & (here == largest) | (here < -least) & (here == smallest)
            peak[0] = peak[-1] = peak[:, :BORDER] = peak[:, -BORDER:] = False
            found.append(np.flatnonzero(peak) + (layer * height + top - 1) * width)  # flat: far faster than columns
    return np.column_stack(np.unravel_index(np.concatenate(found), stack.shape))


def _refined(stack: Array, places: Array) -> Array:
    """(N, 3) extrema -> (M, 4) x, y, sigma in pixels of the octave and contrast; those on edges are left out."""
    limits = np.array(stack.shape) - [2, BORDER + 1, BORDER + 1]
    found, found_at = [np.zeros((0, 4))], [np.zeros(0, np.int64)]
    going = places
    for _ in range(MOVES):
        value, slope, bend = _derivatives(stack, going)
        away = _to_extremum(slope, bend)  # (3, n) layers, rows, columns
        there = (np.abs(away) < 0.5).all(0)
        trace, area = bend[1, 1] + bend[2, 2], bend[1, 1] * bend[2, 2] - bend[1, 2] ** 2
        kept = there & (area > 0) & (EDGE * trace**2 < (EDGE + 1) ** 2 * area)
        layer, y, x = going[kept].T + away[:, kept]
        contrast = np.abs(value[kept] + 0.5 * (slope[:, kept] * away[:, kept]).sum(0))
        found.append(np.column_stack([x, y, SIGMA * 2 ** (layer / LAYERS), contrast]))
        found_at.append(np.ravel_multi_index(going[kept].T, stack.shape))
        near = ~there & (np.abs(away) < max(stack.shape)).all(0)
        going = going[near] + np.rint(away[:, near]).astype(np.int64).T
        going = going[(going >= [1, BORDER, BORDER]).all(1) & (going <= limits).all(1)]
    at = np.concatenate(found_at)
    order = np.argsort(at, kind="stable")
    once = order[np.diff(at[order], prepend=-1) != 0]  # two may have moved to one place; np.unique imports numpy.ma
    return np.concatenate(found)[once]


def _derivatives(stack: Array, places: Array) -> tuple[Array, Array, Array]:
    """Values (N,), first (3, N) and second (3, 3, N) derivatives along layers, rows and columns."""
    every, strides = stack.ravel(), np.array([stack.shape[1] * stack.shape[2], stack.shape[2], 1])
    flat = places @ strides

    def at(*step: int) -> Array:
        return every[flat + step @ strides].astype(np.float64)

    axes = np.eye(3, dtype=int)
    middle = at(0, 0, 0)
    slope, bend = np.empty((3, len(places))), np.empty((3, 3, len(places)))
    for a in range(3):
        before, after = at(*-axes[a]), at(*axes[a])
        slope[a], bend[a, a] = (after - before) / 2, after + before - 2 * middle
        for b in range(a):
            plus, minus = axes[a] + axes[b], axes[a] - axes[b]
            bend[a, b] = bend[b, a] = (at(*plus) + at(*-plus) - at(*minus) - at(*-minus)) / 4
    return middle, slope, bend


def _to_extremum(slope: Array, bend: Array) -> Array:
    """(3, N) from each place to where the slope (3, N) is zero, by the inverse of the bend (3, 3, N), written out:
    a solver called for each place would take ten times as long. Infinite where there is none."""
    (a, b, c), (_, d, e), (_, _, f) = bend  # which is symmetric; ab is the cofactor of b, and so on
    ab, ac, bc = c * e - b * f, b * e - c * d, b * c - a * e
    cofactors = np.stack([d * f - e * e, ab, ac, ab, a * f - c * c, bc, ac, bc, a * d - b * b]).reshape(bend.shape)
    determinant = a * cofactors[0, 0] + b * ab + c * ac
    nowhere = np.full(slope.shape, np.inf)
    return np.divide(-(cofactors * slope).sum(1), determinant, out=nowhere, where=np.abs(determinant) > 1e-20)
