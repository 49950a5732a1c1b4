"""Pairs from single photos: two random views of each, so that the place of every keypoint in the other is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from scipy.spatial import cKDTree

from . import describing
from .hynet_paths import Array, Extractor, Keypoints, images
from .shards import Seen, Truth

SAME, OCTAVES, TURN = 3.0, 0.5, np.radians(30)  # pixels, and limits of scale and angle, of a positive
COUNTS = (1024, 1536, 2048)  # keypoints of a view
FOCAL = 1.1  # of the longer side, of the camera that a view is seen by
TILT = np.radians(42)
UPRIGHT_TURN = np.radians(12)  # of each view, where keypoints are upright


def drawn_view(photo: Array, others: Sequence[Array], seed: int, upright: bool, zoom: float) -> tuple[Array, ...]:
    """A view (h, w), view_from_photo (3, 3), and two masks (h, w): not outside of the photo; nor covered either."""
    random = np.random.default_rng(seed)
    height, width = photo.shape
    long, aspect = random.uniform(640, 1120), random.choice([1.0, 3 / 4, 2 / 3])
    out = (round(long), round(long * aspect)) if width >= height else (round(long * aspect), round(long))
    scale = zoom * long / max(width, height)
    H = _view_from_photo((width, height), out, scale, random, upright)
    sharp = photo if scale >= 1 else cv2.GaussianBlur(photo, (0, 0), 0.5 * np.sqrt(scale**-2 - 1) + 1e-3)
    view = cv2.warpPerspective(sharp, H, out, flags=cv2.INTER_LINEAR, borderValue=127)
    inside = cv2.warpPerspective(np.ones_like(photo), H, out, flags=cv2.INTER_NEAREST)
    shown = inside > 0
    for _ in range(random.integers(0, 4) if random.random() < 0.5 else 0):
        view, shown = _covered(view, shown, others[random.integers(len(others))], random)
    return _in_another_light(view, random), H, inside, shown


def _view_from_photo(
    size: tuple[int, int], out: tuple[int, int], scale: float, random: np.random.Generator, upright: bool
) -> Array:
    turn = random.uniform(-1, 1) * (UPRIGHT_TURN if upright else np.pi)
    pan, tilt = random.uniform(-1, 1, 2) * TILT * random.random()
    looked_at = np.array(size) * random.uniform(0.3, 0.7, 2)
    focal = FOCAL * max(out)
    K = np.array([[focal, 0, out[0] / 2], [0, focal, out[1] / 2], [0, 0, 1]])
    rotations = [cv2.Rodrigues(np.array(axis, float))[0] for axis in ([0, 0, turn], [tilt, 0, 0], [0, pan, 0])]
    R = rotations[0] @ rotations[1] @ rotations[2]
    # The photo is a plane at distance focal / scale; turned about the point that is looked at.
    plane = np.array([[1, 0, -looked_at[0]], [0, 1, -looked_at[1]], [0, 0, 0]]) * scale
    camera = R @ plane
    camera[2, 2] += focal
    return K @ camera / focal


def _covered(view: Array, shown: Array, other: Array, random: np.random.Generator) -> tuple[Array, Array]:
    """Something of another photo in front."""
    height, width = view.shape
    cover = np.zeros_like(view)
    centre = (int(random.integers(width)), int(random.integers(height)))
    axes = tuple(int(each) for each in random.uniform(0.04, 0.22, 2) * max(height, width))
    cv2.ellipse(cover, centre, axes, float(random.uniform(0, 180)), 0, 360, 1, -1)
    cover = cover > 0
    view = np.where(cover, cv2.resize(other, (width, height)), view)
    return view, shown & ~cover


def _in_another_light(view: Array, random: np.random.Generator) -> Array:
    height, width = view.shape
    grey = view.astype(np.float32) / 255
    if random.random() < 0.5:
        grey = grey ** np.exp(random.normal(0, 0.35))
    slope = random.normal(0, 0.25, 2) * (random.random() < 0.5)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    gain = np.exp(slope[0] * (x / width - 0.5) + slope[1] * (y / height - 0.5) + random.normal(0, 0.2))
    grey = (grey * gain - 0.5) * np.exp(random.normal(0, 0.15)) + 0.5 + random.normal(0, 0.04)
    if random.random() < 0.4:
        grey = cv2.GaussianBlur(grey, (0, 0), random.uniform(0.4, 1.8))
    grey = grey + random.normal(0, random.uniform(0, 0.025), grey.shape)
    view = np.rint(np.clip(grey, 0, 1) * 255).astype(np.uint8)
    if random.random() < 0.6:
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(random.integers(20, 90))]
        view = cv2.imdecode(cv2.imencode(".jpg", view, quality)[1], cv2.IMREAD_GRAYSCALE)
    return view


def zooms(random: np.random.Generator) -> tuple[float, float]:
    """How large the photo is in each of two views: up to 4 times as large in one, mostly less."""
    octaves = random.uniform(0, 2) if random.random() < 0.4 else random.uniform(0, 0.7)
    middle = random.uniform(0, 0.6)
    first, second = 2.0 ** (middle - octaves / 2), 2.0 ** (middle + octaves / 2)
    return (first, second) if random.random() < 0.5 else (second, first)


@dataclass(frozen=True)
class Plan:
    """All that is drawn of a pair but what each view draws for itself."""

    photo: Path
    other: Path  # what covers parts of the views
    upright: bool
    count: int
    zooms: tuple[float, float]


def plan(seed: int, photos: Sequence[Path]) -> Plan:
    random = np.random.default_rng(seed)
    photo, other = (photos[number] for number in random.integers(len(photos), size=2))
    return Plan(photo, other, bool(random.random() < 0.7), int(random.choice(COUNTS)), zooms(random))


def views(planned: Plan, seed: int) -> list[tuple[Array, ...]]:
    """The two views, as `drawn_view` gives them."""
    photo, others = images.read(planned.photo), [images.read(planned.other)]
    return [
        drawn_view(photo, others, 2 * seed + side, planned.upright, zoom) for side, zoom in enumerate(planned.zooms)
    ]


def make(seed: int, photos: Sequence[Path], models: Mapping[str, Extractor]) -> tuple[tuple[Seen, Seen], Truth] | None:
    """Two views of a photo that the seed draws, or nothing where they have too few keypoints."""
    planned = plan(seed, photos)
    finder = next(iter(models.values()))
    seen, maps, clear = [], [], []
    for side, (view, H, inside, shown) in enumerate(views(planned, seed)):
        keypoints = finder.detect_upright(view, cv2.erode(inside, np.ones((9, 9), np.uint8)))
        keypoints = describing.strongest(keypoints, planned.count, view.shape)
        if len(keypoints) < 100:
            return None
        if not planned.upright:
            rows, angles = describing.turned(view, keypoints)
            kept = keypoints[rows]
            keypoints = Keypoints.from_circles(kept.xy, kept.sigma, angles, kept.scores)[: planned.count]
        xy = keypoints.xy
        seen.append(
            Seen(
                f"{planned.photo.parent.name}/{planned.photo.name}",
                view.shape[::-1],
                xy,
                keypoints.sigma,
                np.zeros(len(xy), np.float32) if planned.upright else keypoints.angle,
                keypoints.scores,
                rays=xy,
                codes=describing.described(view, keypoints, models),
                view=2 * seed + side,
            )
        )
        maps.append(H)
        column, row = np.rint(xy).astype(int).T
        clear.append(shown[row.clip(0, view.shape[0] - 1), column.clip(0, view.shape[1] - 1)])
    H = maps[1] @ np.linalg.inv(maps[0])
    H /= H[2, 2]
    found = positives(*seen, H)
    found = found[clear[0][found[:, 0]] & clear[1][found[:, 1]]]
    return (seen[0], seen[1]), Truth((0, 1), "made", found, H)


def carried(seen: Seen, H: Array) -> tuple[Array, Array, Array]:
    """Places, sigmas and angles of the keypoints in the other view."""

    def moved(xy: Array) -> Array:
        there = np.column_stack([xy, np.ones(len(xy))]) @ H.T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(there[:, 2:] > 1e-6, there[:, :2] / there[:, 2:], np.nan)

    at = moved(seen.xy)
    (xx, yx), (xy, yy) = (((moved(seen.xy + step) - at) / 0.5).T for step in ([0.5, 0], [0, 0.5]))
    area = xx * yy - xy * yx
    angle = seen.angle + np.arctan2(yx - xy, xx + yy)
    with np.errstate(invalid="ignore"):
        return at, seen.sigma * np.sqrt(np.where(area > 0, area, np.nan)), angle


def positives(a: Seen, b: Seen, H: Array) -> Array:
    """(K, 2) keypoints of the two views that are one, by place, scale and angle."""
    at, sigma, angle = carried(a, H)
    known = np.flatnonzero(np.isfinite(at).all(1) & np.isfinite(sigma))
    near = cKDTree(b.xy).query_ball_point(at[known], SAME)
    i = np.repeat(known, [len(rows) for rows in near])
    j = np.array([row for rows in near for row in rows], np.int64)
    back = carried(b, np.linalg.inv(H))[0]
    with np.errstate(invalid="ignore"):
        close = np.hypot(*(back[j] - a.xy[i]).T) < SAME
        octaves = np.abs(np.log2(b.sigma[j] / sigma[i]))
        turn = np.abs((b.angle[j] - angle[i] + np.pi) % (2 * np.pi) - np.pi)
        good = close & (octaves < OCTAVES) & (turn < TURN)
    return np.column_stack([i[good], j[good]])
