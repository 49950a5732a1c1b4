"""Which keypoints of two photos of a reconstructed scene match, do not match, or cannot be told: labels for a matcher.

    scene = load("scenes/conch")
    a, b = view(scene, "one.jpg", keypoints_a), view(scene, "two.jpg", keypoints_b)     # (N, 4): x, y, scale, angle
    labels = label(a, b, candidates)                                                    # (N, K) rows of keypoints_b

The keypoints may be any of these photos; those of the reconstruction tell only where the surface is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .geometry import Array, Photo, Scene, relative

SAME = 3.0  # pixels between a keypoint and the place where geometry says it is, in both photos
OFF_LINE = 12.0  # pixels from the epipolar line, in both photos: a candidate farther away is wrong
BESIDE = 6.0  # pixels around a match's place, within which another candidate may be the same keypoint found twice
OCTAVES, TURN = 0.5, np.radians(30)  # by which scale and direction may differ from what the surface says
NEIGHBOURS, REACH = 6, 25.0  # triangulated keypoints that a plane is fitted to, and pixels to the farthest of them
BEND = 0.004  # RMS misfit of the plane as a share of the inverse depth: above, there is an edge
LEVERAGE = 1.0  # of the keypoint in the fit: above, it lies outside of its neighbours
TRACKED = 0.5  # pixels to the keypoint of the model that it is; an octave of scale counts as TRACKED / OCTAVES pixels


@dataclass(frozen=True)
class View:
    """Keypoints of one photo and what is known of the surface at each."""

    photo: Photo
    keypoints: Array  # (N, 4) x, y, scale, angle
    tree: cKDTree  # of x, y
    rays: Array  # (3, N, 2) at depth one: keypoint, and one pixel to the right and below
    inverse_depth: Array  # (3, N) the same three; NaN where nothing is known
    tracks: Array  # (N,) triangulated point, -1: none


@dataclass(frozen=True)
class Labels:
    """1: matches; -1: does not; 0: not to be trained on."""

    positives: Array  # (M, 2) rows of both photos, all there are, also those that are no candidates
    ab: Array  # (Na, K) of each candidate
    a: Array  # (Na,) 1: has a match; -1: none of its candidates can be one
    ba: Array | None = None  # the same for the second photo, if its candidates were given
    b: Array | None = None


def view(scene: Scene, name: str, keypoints: Array) -> View:
    """Fit the surface at each keypoint of a photo: once, for all of its pairs."""
    photo, keypoints = scene.photos[name], np.asarray(keypoints, np.float64)
    xy = keypoints[:, :2]
    rays = np.stack([photo.rays(xy + step) for step in ([0, 0], [1, 0], [0, 1])])
    known = np.flatnonzero(photo.points >= 0)
    inverse = 1 / (scene.xyz[photo.points[known]] @ photo.R[2] + photo.t[2])
    value, slope = np.full(len(xy), np.nan), np.zeros((len(xy), 2))
    if len(known) > NEIGHBOURS:
        value, slope = _planes(xy, rays[0], photo.xy[known], photo.rays(photo.xy[known]), inverse)
    tracks = np.full(len(xy), -1)
    same, row = _tracked(photo, keypoints, known)
    tracks[same] = photo.points[known[row]]
    value[same] = inverse[row]  # better known than by its neighbours; the slope stays theirs, or none
    inverse_depth = value + np.sum(slope * (rays - rays[0]), 2)
    return View(photo, keypoints, cKDTree(xy), rays, np.where(inverse_depth > 0, inverse_depth, np.nan), tracks)


def _tracked(photo: Photo, keypoints: Array, known: Array) -> tuple[Array, Array]:
    """Keypoints that the model has triangulated, and which of `known` they are."""
    if not len(known) or not np.isfinite(photo.detected[known]).all():
        return np.array([], int), np.array([], int)
    away, row = cKDTree(_place(photo.detected[known])).query(_place(keypoints[:, :3]))
    same = np.flatnonzero(away < TRACKED)
    return same, row[same]


def _place(keypoints: Array) -> Array:
    return np.column_stack([keypoints[:, :2], np.log2(keypoints[:, 2]) * TRACKED / OCTAVES])


def _planes(xy: Array, rays: Array, at: Array, rays_at: Array, inverse: Array) -> tuple[Array, Array]:
    """Inverse depth (N,), affine in the ray, and its slope (N, 2), from the triangulated keypoints around each."""
    away, near = cKDTree(at).query(xy, NEIGHBOURS)
    offsets = rays_at[near] - rays[:, None]
    unit = np.abs(offsets).max((1, 2))[:, None, None] + 1e-12
    X = np.concatenate([np.ones((*near.shape, 1)), offsets / unit], 2)  # (N, 6, 3)
    cofactors = np.linalg.inv(X.transpose(0, 2, 1) @ X + 1e-9 * np.eye(3))
    fit = np.einsum("nij,nkj,nk->ni", cofactors, X, inverse[near])
    misfit = np.sqrt(np.mean((np.einsum("nkj,nj->nk", X, fit) - inverse[near]) ** 2, 1))
    good = (away[:, -1] < REACH) & (cofactors[:, 0, 0] < LEVERAGE) & (misfit < BEND * fit[:, 0])
    return np.where(good, fit[:, 0], np.nan), np.where(good[:, None], fit[:, 1:] / unit[:, 0], 0)


def label(a: View, b: View, candidates_ab: Array, candidates_ba: Array | None = None) -> Labels:
    """Labels for the candidates (rows of the other photo, -1 for none) of each keypoint, one way or both."""
    there, back = _carried(a, b), _carried(b, a)
    positives = _positives(a, b, there, back)
    ab, of_a = _judged(a, b, positives, np.asarray(candidates_ab))
    if candidates_ba is None:
        return Labels(positives, ab, of_a)
    ba, of_b = _judged(b, a, positives[:, ::-1], np.asarray(candidates_ba))
    return Labels(positives, ab, of_a, ba, of_b)


def _carried(a: View, b: View) -> Array:
    """(N, 4) a's keypoints as b sees them: x, y, scale, angle; NaN where it cannot be said."""
    R, t = relative(a.photo, b.photo)
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = np.concatenate([a.rays, np.ones((*a.rays.shape[:2], 1))], 2) / a.inverse_depth[..., None] @ R.T + t
        at, right, below = (b.photo.pixels(corner) for corner in inside)
        (xx, yx), (xy, yy) = (right - at).T, (below - at).T  # the affine map from a's pixels to b's
        area = xx * yy - xy * yx
        scale = a.keypoints[:, 2] * np.sqrt(np.where(area > 0, area, np.nan))  # negative: seen from behind
        angle = a.keypoints[:, 3] + np.arctan2(yx - xy, xx + yy)
    carried = np.column_stack([at, scale, angle])
    return np.where(np.isfinite(carried).all(1)[:, None], carried, np.nan)


def _positives(a: View, b: View, there: Array, back: Array) -> Array:
    """(M, 2) sorted: the same triangulated point, or where each photo's surface says that the other's keypoint is."""
    known = np.flatnonzero(np.isfinite(there[:, 0]))
    near = b.tree.query_ball_point(there[known, :2], SAME)
    i = np.repeat(known, [len(rows) for rows in near])
    j = np.array([row for rows in near for row in rows], int)
    with np.errstate(invalid="ignore"):
        both = np.hypot(*(back[j, :2] - a.keypoints[i, :2]).T) < SAME
    by_track = _same_track(a.tracks, b.tracks)
    found = np.unique(np.concatenate([np.column_stack([i, j])[both], by_track]), axis=0)
    i, j = found.T
    with np.errstate(invalid="ignore"):
        octaves = np.abs(np.log2(b.keypoints[j, 2] / there[i, 2]))
        turned = np.abs((b.keypoints[j, 3] - there[i, 3] + np.pi) % (2 * np.pi) - np.pi)
        return found[(octaves < OCTAVES) & (turned < TURN)].astype(np.int32)


def _same_track(first: Array, second: Array) -> Array:
    """(M, 2) rows with the same point; a place with two directions is two keypoints."""
    i, j = np.flatnonzero(first >= 0), np.flatnonzero(second >= 0)
    j = j[np.argsort(second[j], kind="stable")]
    start, end = (np.searchsorted(second[j], first[i], side) for side in ("left", "right"))
    count = end - start
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.column_stack([np.repeat(i, count), j[np.repeat(start, count) + within]])


def _judged(a: View, b: View, positives: Array, candidates: Array) -> tuple[Array, Array]:
    """Labels of candidates (N, K) and of their keypoints (N,)."""
    exists = candidates >= 0
    judged = np.where(exists & (_off_line(a, b, candidates) > OFF_LINE), -1, 0).astype(np.int8)
    keypoint = np.where(exists.any(1) & ((judged == -1) | ~exists).all(1), -1, 0).astype(np.int8)
    i, j = positives.T
    matched = np.unique(i)
    beside = np.zeros(candidates.shape, bool)
    for place_i, place_j in _by_rank(i, j):  # mostly one round: few keypoints have two matches
        away = b.keypoints[candidates[place_i], :2] - b.keypoints[place_j, None, :2]
        beside[place_i] |= np.hypot(away[..., 0], away[..., 1]) <= BESIDE
    judged[matched] = np.where(exists & ~beside, -1, 0)[matched]
    keys = i.astype(np.int64) * len(b.keypoints) + j
    right = np.isin(np.arange(len(candidates))[:, None] * len(b.keypoints) + candidates, keys) & exists
    judged[right] = 1
    keypoint[matched] = 1
    return judged, keypoint


def _by_rank(i: Array, j: Array) -> list[tuple[Array, Array]]:
    """Positives in rounds, in each of which a keypoint occurs once."""
    order = np.argsort(i, kind="stable")
    i, j = i[order], j[order]
    rank = np.arange(len(i)) - np.searchsorted(i, i)
    return [(i[rank == k], j[rank == k]) for k in range(rank.max() + 1 if len(rank) else 0)]


def _off_line(a: View, b: View, candidates: Array) -> Array:
    """(N, K) pixels from the epipolar line, the smaller of the distances in both photos."""
    R, t = relative(a.photo, b.photo)
    E = np.cross(t, R.T).T  # E x = t x (R x)
    one = np.column_stack([a.rays[0], np.ones(len(a.rays[0]))])
    two = np.column_stack([b.rays[0], np.ones(len(b.rays[0]))])
    in_b, in_a = one @ E.T, two @ E  # lines
    miss = np.abs(np.einsum("nkc,nc->nk", two[candidates], in_b))
    from_b = miss / np.hypot(in_b[:, 0], in_b[:, 1])[:, None] * b.photo.camera.mean_focal_length()
    from_a = miss / np.hypot(in_a[:, 0], in_a[:, 1])[candidates] * a.photo.camera.mean_focal_length()
    return np.minimum(from_a, from_b)
