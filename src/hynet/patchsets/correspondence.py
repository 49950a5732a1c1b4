"""Correspondence of keypoints in a reconstructed scene: by geometry, never by how they look.

A keypoint gets a depth and a surface slope from the triangulated keypoints around it, is carried into the other photos,
and is the same as a keypoint found there when place, scale and turn agree, in both directions (limits of PhotoTour).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from ..errors import need
from ..types import DIFFERENT_PIXELS, Array, Progress, silent
from .scenes import EXHAUSTIVE, Photo, Scene

# Winder and Brown (2007): the same within SAME, different beyond DIFFERENT, unknown between.
SAME_PIXELS = 5.0
SAME_OCTAVES = 0.25
SAME_ANGLE = np.pi / 8
DIFFERENT_OCTAVES, DIFFERENT_ANGLE = 0.5, np.pi / 4
SAME_SIGMAS = 2.5  # of the region, too: 5 pixels from a tiny region there is another one

NEIGHBOURS = 8  # triangulated keypoints that a depth is fitted to
REACH = 40.0  # pixels to the farthest of them
MAX_LEVERAGE = 0.5  # of the keypoint in the fit: above, it lies outside of its neighbours
MAX_BEND = 0.02  # RMS misfit of the plane, as a share of the inverse depth: above, there is an edge or two surfaces
MAX_PREDICTION = 2.0  # pixels that the misfit may move the prediction in the other photo
SAME_DEPTH = 0.02  # share by which two photos may disagree on the depth of one place: above, one hides the other
CACHED_SURFACES = 256  # photos; half a megabyte each
MIN_COSINE = np.cos(np.deg2rad(70))  # between surface normal and line of sight


@dataclass(frozen=True)
class Surface:
    """Surface at each keypoint of a photo: inverse depth = value + slope . (ray - own ray)."""

    rays: Array  # (N, 2) keypoints at depth one
    tips: Array  # (N, 2) one sigma along each keypoint's direction, at depth one
    value: Array  # (N,) inverse depth, NaN where it is not known
    slope: Array  # (N, 2)
    error: Array  # (N,) of the inverse depth


@dataclass(frozen=True)
class Links:
    """Keypoints of two photos that are the same place; `hard` is what SIFT matching missed."""

    first: Array  # (K,) keypoint of the first photo
    second: Array  # (K,)
    cost: Array  # (K,) 0 is perfect agreement, 1 the limit
    hard: Array  # (K,) bool


def surface(photo: Photo, points: Array) -> Surface:
    """Fit a plane (inverse depth affine in the ray) to the nearest triangulated keypoints of every keypoint."""
    keypoints, camera = photo.keypoints, photo.camera
    xy = keypoints.xy.astype(np.float64)
    tip = xy + keypoints.frames[:, :, 0]
    rays, tips = camera.rays(xy), camera.rays(tip)
    value = np.full(len(xy), np.nan)
    slope = np.zeros((len(xy), 2))
    error = np.zeros(len(xy))
    known = np.flatnonzero(photo.points >= 0)
    depth = (points[photo.points[known]] @ photo.cam_from_world[2, :3]) + photo.cam_from_world[2, 3]
    known, depth = known[depth > 0], depth[depth > 0]
    if len(known) > NEIGHBOURS:
        value, slope, error = _planes(xy, rays, known, 1 / depth)
    # A triangulated keypoint knows its own depth better than its neighbours do; the slope stays theirs.
    tracked = np.isfinite(value[known])
    value[known[tracked]], error[known[tracked]] = (1 / depth)[tracked], 0
    return Surface(rays, tips, value, slope, error)


def _planes(xy: Array, rays: Array, known: Array, inverse_depth: Array) -> tuple[Array, Array, Array]:
    """Least squares over each keypoint's neighbours; NaN where they are far, to one side, or not on one plane."""
    nearest, reach = _nearest(xy, known)  # (N, 8), (N,)
    offsets = rays[known[nearest]] - rays[:, None]  # (N, 8, 2)
    # Unit offsets make the normal equations well scaled.
    unit = np.abs(offsets).max((1, 2))[:, None, None] + 1e-12
    X = np.concatenate([np.ones((*nearest.shape, 1)), offsets / unit], 2)  # (N, 8, 3)
    y = inverse_depth[nearest]  # (N, 8)
    Xt = X.transpose(0, 2, 1)
    inverse = np.linalg.inv(Xt @ X + 1e-9 * np.eye(3))  # neighbours in one place get a huge leverage, no exception
    fit = (inverse @ (Xt @ y[:, :, None]))[:, :, 0]
    misfit = np.sqrt(np.sum(((X @ fit[:, :, None])[:, :, 0] - y) ** 2, 1) / (NEIGHBOURS - 3))
    value, leverage = fit[:, 0], inverse[:, 0, 0]
    good = (value > 0) & (reach < REACH) & (leverage < MAX_LEVERAGE) & (misfit < MAX_BEND * value)
    return np.where(good, value, np.nan), fit[:, 1:] / unit[:, 0], misfit


def _nearest(xy: Array, known: Array) -> tuple[Array, Array]:
    """The nearest triangulated keypoints of each keypoint but itself, and the distance to the farthest of them."""
    apart, nearest = _tree(xy[known]).query(xy, NEIGHBOURS + 1)  # (N, 9)
    # Its own depth is what the fit must do without; who has none leaves out the farthest.
    dropped = known[nearest] == np.arange(len(xy))[:, None]
    dropped[~dropped.any(1), -1] = True
    return nearest[~dropped].reshape(len(xy), NEIGHBOURS), apart[~dropped].reshape(len(xy), NEIGHBOURS)[:, -1]


def _tree(xy: Array) -> Any:
    return need("scipy.spatial", "sfm", "making a patch set").cKDTree(xy)


@dataclass(frozen=True)
class _Carried:
    """The keypoints of one photo as another must see them."""

    xy: Array  # (N, 2), NaN where nothing can be said
    log2_sigma: Array  # (N,)
    angle: Array  # (N,)
    depth: Array  # (N,) in the other photo


def _carry(photo: Photo, seen: Surface, other: Photo) -> _Carried:
    with np.errstate(invalid="ignore", divide="ignore"):
        here = np.column_stack([seen.rays, np.ones(len(seen.rays))])  # (N, 3)
        normal = np.column_stack([seen.slope, seen.value - np.sum(seen.slope * seen.rays, 1)])
        R = other.cam_from_world[:, :3] @ photo.cam_from_world[:, :3].T
        t = other.cam_from_world[:, 3] - R @ photo.cam_from_world[:, 3]
        there = here / seen.value[:, None] @ R.T + t
        visible = (there[:, 2] > 0) & _faces(normal, here) & _faces(normal @ R.T, there)
        xy = other.camera.pixels(there[:, :2] / there[:, 2:])
        tip_value = seen.value + np.sum(seen.slope * (seen.tips - seen.rays), 1)
        tip = np.column_stack([seen.tips, np.ones(len(here))]) / tip_value[:, None] @ R.T + t
        along = other.camera.pixels(tip[:, :2] / tip[:, 2:]) - xy
        wrong = here / (seen.value + seen.error)[:, None] @ R.T + t
        moved = np.linalg.norm(other.camera.pixels(wrong[:, :2] / wrong[:, 2:]) - xy, axis=1)
        visible &= (moved < MAX_PREDICTION) & (wrong[:, 2] > 0) & (tip[:, 2] > 0)
        zoom = other.camera.focal / photo.camera.focal / seen.value / there[:, 2]
    return _Carried(
        np.where(visible[:, None], xy, np.nan),
        np.log2(photo.keypoints.sigma * zoom, where=zoom > 0, out=np.full(len(zoom), np.nan)),
        np.arctan2(along[:, 1], along[:, 0]),
        there[:, 2],
    )


def _faces(normal: Array, ray: Array) -> Array:
    cosine = np.sum(normal * ray, 1) / np.linalg.norm(normal, axis=1) / np.linalg.norm(ray, axis=1)
    return cosine > MIN_COSINE


def links(scene: Scene, a: int, b: int, surface_a: Surface, surface_b: Surface) -> Links:
    """Link the keypoints of photos a < b that are each other's best within the limits of sameness."""
    first_photo, second_photo = scene.photos[a], scene.photos[b]
    to_b, to_a = _carry(first_photo, surface_a, second_photo), _carry(second_photo, surface_b, first_photo)
    i, j = _near(to_b.xy, second_photo.keypoints.xy, SAME_PIXELS)
    cost = np.maximum(
        _disagreement(to_b, i, second_photo, j, surface_b),
        _disagreement(to_a, j, first_photo, i, surface_a),
    )
    order = np.argsort(cost, kind="stable")
    order = order[cost[order] < 1]
    best = order[_is_first(i[order]) & _is_first(j[order])]
    i, j = i[best], j[best]
    matched = scene.matches.get((a, b), np.zeros((0, 2), np.int64))
    count = len(second_photo.keypoints)
    return Links(i, j, cost[best], ~np.isin(i * count + j, matched[:, 0] * count + matched[:, 1]))


def _disagreement(carried: _Carried, i: Array, photo: Photo, j: Array, seen: Surface) -> Array:
    """The largest of the disagreements, each as a share of its limit. NaN depths disagree."""
    keypoints = photo.keypoints
    sigma = keypoints.sigma[j]
    shift = np.linalg.norm(carried.xy[i] - keypoints.xy[j], axis=1)
    cost = np.stack(
        [
            shift / np.minimum(SAME_PIXELS, SAME_SIGMAS * sigma),
            np.abs(carried.log2_sigma[i] - np.log2(sigma)) / SAME_OCTAVES,
            _turn(carried.angle[i], keypoints.angle[j]) / SAME_ANGLE,
            np.abs(carried.depth[i] * seen.value[j] - 1) / SAME_DEPTH,
        ]
    ).max(0)
    return np.where(np.isnan(cost), np.inf, cost)


def _turn(a: Array, b: Array) -> Array:
    """The angle between two directions, 0 to pi."""
    return np.abs((a - b + np.pi) % (2 * np.pi) - np.pi)


def _is_first(values: Array) -> Array:
    """True for entries that are the first of their value."""
    first = np.zeros(len(values), bool)
    first[np.unique(values, return_index=True)[1]] = True
    return first


def _near(queries: Array, xy: Array, radius: float) -> tuple[Array, Array]:
    """Find all (query, row of xy) at most `radius` apart, by query and then by row. NaN queries are near nothing."""
    rows = np.flatnonzero(np.isfinite(queries).all(1))
    found = _tree(queries[rows]).sparse_distance_matrix(_tree(xy), radius, output_type="ndarray")
    found.sort(order=("i", "j"))
    return rows[found["i"]], found["j"]


@dataclass(frozen=True)
class Tracks:
    """Keypoints grouped into 3-D points: rows of one point follow each other, its reference keypoint first."""

    photo: Array  # (P,) of each row
    keypoint: Array  # (P,) in that photo
    point: Array  # (P,) 0, 0, 0, 1, 1, ...
    first: Array  # (K,) and second, hard: every pair of rows of one point that geometry calls the same
    second: Array  # (K,)
    hard: Array  # (K,) bool


def tracks(scene: Scene, progress: Progress = silent) -> Tracks:
    """Group all keypoints that are seen again into points. Two points of one photo are certainly different there."""
    photos = scene.photos
    pairs = list(combinations(range(len(photos)), 2)) if len(photos) <= EXHAUSTIVE else sorted(scene.matches)
    surface_of = lru_cache(CACHED_SURFACES)(lambda photo: surface(photos[photo], scene.points))
    starts = np.cumsum([0, *(len(photo.keypoints) for photo in photos)])
    ends, hard = [np.zeros((0, 2), np.int64)], [np.zeros(0, bool)]
    for done, (a, b) in enumerate(pairs):
        progress(done, len(pairs), "comparing photos")
        found = links(scene, a, b, surface_of(a), surface_of(b))
        ends.append(np.column_stack([found.first + starts[a], found.second + starts[b]]))
        hard.append(found.hard)
    edges, is_hard = np.concatenate(ends), np.concatenate(hard)
    point = _stars(edges, _too_close(photos, starts), starts[-1])
    rows = np.flatnonzero(point >= 0)
    # The reference comes first: _stars numbers a point's centre 2 k and the others 2 k + 1.
    rows = rows[np.argsort(point[rows], kind="stable")]
    row_of = np.full(starts[-1], -1)
    row_of[rows] = np.arange(len(rows))
    point //= 2
    inside = (point[edges[:, 0]] == point[edges[:, 1]]) & (point[edges[:, 0]] >= 0)
    photo = np.searchsorted(starts, rows, "right") - 1
    first, second = row_of[edges[inside]].T
    return Tracks(photo, rows - starts[photo], point[rows], first, second, is_hard[inside])


def _stars(edges: Array, too_close: Array, count: int) -> Array:
    """Greedy stars: a centre with all that is linked to it, so every row is checked against its reference directly.

    What is linked to a star but not to its centre, and what lies in doubt beside it, is left out.
    Returns (count,): 2 k for the centre of star k, 2 k + 1 for its other keypoints, -1 for none.
    """
    linked, doubtful = _Neighbours(edges, count), _Neighbours(too_close, count)
    point, free = np.full(count, -1), np.ones(count, bool)
    degree = np.diff(linked.starts)
    stars = 0
    for centre in np.argsort(-degree, kind="stable")[: np.count_nonzero(degree)]:
        if not free[centre]:
            continue
        around = linked[centre]
        around = around[free[around]]
        if len(around) == 0:
            continue
        point[centre], point[around] = 2 * stars, 2 * stars + 1
        stars += 1
        for keypoint in (centre, *around):
            free[keypoint] = False
            free[linked[keypoint]] = False
            free[doubtful[keypoint]] = False
    return point


class _Neighbours:
    """The neighbours of every node of a graph, from its edges (K, 2)."""

    def __init__(self, edges: Array, count: int) -> None:
        both = np.concatenate([edges, edges[:, ::-1]])
        self.others = both[np.argsort(both[:, 0], kind="stable"), 1]
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(both[:, 0], minlength=count))])

    def __getitem__(self, node: int) -> Array:
        return self.others[self.starts[node] : self.starts[node + 1]]


def _too_close(photos: Sequence[Photo], starts: Array) -> Array:
    """Pairs of keypoints of one photo that are not certainly different: (K, 2) numbers over all photos."""
    found = [np.zeros((0, 2), np.int64)]
    for photo, start in zip(photos, starts, strict=False):
        keypoints = photo.keypoints
        if len(keypoints) == 0:
            continue
        i, j = _near(keypoints.xy, keypoints.xy, DIFFERENT_PIXELS)
        octaves = np.abs(np.log2(keypoints.sigma[i] / keypoints.sigma[j]))
        doubt = (i < j) & (octaves <= DIFFERENT_OCTAVES)
        doubt &= _turn(keypoints.angle[i], keypoints.angle[j]) <= DIFFERENT_ANGLE
        found.append(np.column_stack([i[doubt], j[doubt]]) + start)
    return np.concatenate(found)
