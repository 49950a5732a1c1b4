"""Keypoints, matches and patches as pictures: (H, W, 3) RGB uint8, ready to save or to show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..errors import BadInput
from ..runtime.files import atomic_write
from ..types import Array, Features, Keypoints, Matches, need_features
from . import shrink, thumbnail
from .reading import PICTURE_SIDE as SIDE

Colour = tuple[int, int, int]
Words = list[tuple[str, Colour]]  # of a caption, each in its colour

GROUND = (22, 24, 29)
INK = (232, 234, 237)
FAINT = (140, 145, 153)
GREEN = (64, 224, 130)
RED = (240, 72, 72)
AMBER = (255, 190, 60)

GAP = 10  # pixels between photos
BAND = 46  # of the caption's strip
FONT = 19  # of its letters
MAX_LINES = 80  # more would hide the photos; every match keeps its dot
DIM = 0.9  # photos are darkened a little, so that lines stand out
PLAIN = 90  # grey level in place of a photo that is not known
OVER = 2  # everything is drawn larger and then averaged: OpenCV's own smoothing makes diamonds of small dots
FINE = 4  # bits below the pixel that OpenCV draws with


def draw(
    a: Features,
    b: Features,
    matches: Matches,
    *,
    inliers: Array | None = None,
    photos: tuple[Any, Any] | None = None,
    caption: str = "",
) -> Array:
    """Draw two photos in colour, side by side, with their matches: (H, W, 3) RGB uint8.

    inliers: (K,) bool, as `hynet.verify(a, b, matches).is_inlier`: the other matches become thin and red.
    photos: where features were loaded from a file and do not know their photos.
    """
    need_features(a, b)
    agree = np.ones(len(matches), bool) if inliers is None else np.asarray(inliers)
    if agree.shape != (len(matches),) or agree.dtype != np.bool_:
        raise BadInput(f"inliers must be one bool per match ({len(matches)}), got {agree.shape} {agree.dtype}.")
    if len(matches) and not (matches.indices.min() >= 0 and (matches.indices.max(axis=0) < (len(a), len(b))).all()):
        raise BadInput(f"these matches are not of these features ({len(a)} and {len(b)}).")
    words: Words = [(caption or f"{len(matches)} matches", INK)]
    if inliers is not None and not caption:
        words += [(f", {int(agree.sum())} inliers", GREEN)]
    shown = [picture_of(each, given) for each, given in zip((a, b), photos or (None, None), strict=True)]
    return _draw_matches(shown, (a.keypoints, b.keypoints), matches, agree, words, sizes=(a.image_size, b.image_size))


def picture_of(features: Features, photo: Any = None) -> Array:
    """The photo that features came from, small and in colour; plain where that is not known. (H, W, 3)."""
    source = features.photo if photo is None else photo
    if source is not None:
        return thumbnail(source, SIDE)
    width, height = features.image_size
    scale = min(1.0, SIDE / max(width, height))
    return np.full((max(1, round(height * scale)), max(1, round(width * scale)), 3), PLAIN, np.uint8)


def matches(
    photos: Sequence[Array],
    keypoints: Sequence[Keypoints],
    found: Matches,
    agree: Array,
    caption: Words,
    *,
    sizes: Sequence[tuple[int, int]] | None = None,
) -> Array:
    """Two photos side by side: matches that agree in greens, the others thin and red.

    photos: (H, W) grey or (H, W, 3) each; agree: (K,) bool.
    sizes: (width, height) in which the keypoints are, of photos that are smaller copies.
    """
    canvas, places = _side_by_side(_shown(photos, sizes))
    xy = [points.xy[found.indices[:, side]] for side, points in enumerate(keypoints)]
    if found.refined is not None:
        xy[1] = found.refined
    first, second = (_placed(points, *places[side]) for side, points in enumerate(xy))  # (K, 2) in the picture
    colours = np.where(agree[:, None], _greens(first[:, 1] * OVER / len(canvas)), RED).astype(int).tolist()  # of K
    starts, ends = _fine(first), _fine(second)
    some = np.random.default_rng(0).permutation(len(found))
    layer = np.empty_like(canvas)
    for which, strength, width, radius in ((False, 0.35, 1, 1.6), (True, 0.55, 2, 2.4)):
        layer[:] = canvas
        for k in some[agree[some] == which][:MAX_LINES]:
            cv2.line(layer, starts[k], ends[k], colours[k], width, cv2.LINE_AA, FINE)
        cv2.addWeighted(layer, strength, canvas, 1 - strength, 0, dst=canvas)
        for k in np.flatnonzero(agree == which):
            for point in (starts[k], ends[k]):
                _dot(canvas, point, radius, colours[k])
    return captioned(_averaged(canvas), caption)


def keypoints(
    photos: Sequence[Array],
    found: Sequence[Keypoints],
    caption: Words,
    *,
    most: int = 300,
    sizes: Sequence[tuple[int, int]] | None = None,
) -> Array:
    """The best keypoints of each photo: circles (ellipses) of three sigma, each with its frame's first axis.

    sizes: (width, height) in which the keypoints are, of photos that are smaller copies.
    """
    canvas, places = _side_by_side(_shown(photos, sizes))
    layer = canvas.copy()
    around = np.linspace(0, 2 * np.pi, 33)
    circle = np.concatenate([np.zeros((1, 2)), np.column_stack([np.cos(around), np.sin(around)])])
    for every, (scale, left) in zip(found, places, strict=True):
        best = every[np.argsort(-every.scores, kind="stable")[:most]]
        rims = _placed(best.xy, scale, left)[:, None] + 3 * scale * (circle @ best.frames[:, :, :2].transpose(0, 2, 1))
        for rim in rims:  # begins at the centre, so that the first axis is drawn too
            line = np.array(_fine(rim), np.int32)
            cv2.polylines(layer, [line], False, AMBER, OVER, cv2.LINE_AA, FINE)
    return captioned(_averaged(cv2.addWeighted(layer, 0.8, canvas, 0.2, 0)), caption)


def reprojections(photo: Array, xy: Array, projected: Array, caption: Words) -> Array:
    """A grey photo with keypoints in green, each with a line to where its point in the world is seen, in red."""
    canvas, ((scale, left),) = _side_by_side(_shown([photo], None))
    for start, end in zip(_fine(_placed(xy, scale, left)), _fine(_placed(projected, scale, left)), strict=True):
        cv2.line(canvas, start, end, RED, 2, cv2.LINE_AA, FINE)
        _dot(canvas, start, 2.0, GREEN)
    return captioned(_averaged(canvas), caption)


def patches(
    first: Array, second: Array, agree: Array, caption: Words, *, columns: int = 8, rows: int = 8, zoom: int = 64
) -> Array:
    """Draw the patches of matches side by side, green frames around those that agree. (K, S, S) each."""
    count = min(len(first), columns * rows)
    pad, edge = 8, 3
    cell_width, cell_height = 2 * zoom + 2 * edge + pad, zoom + 2 * edge + pad
    height = cell_height * max(1, -(-count // columns)) + pad
    canvas = np.full((height, cell_width * columns + pad, 3), GROUND, np.uint8)
    for k in range(count):
        pair = np.hstack([cv2.resize(side[k], (zoom, zoom), interpolation=cv2.INTER_CUBIC) for side in (first, second)])
        pair = cv2.cvtColor(pair, cv2.COLOR_GRAY2RGB)
        frame = GREEN if agree[k] else RED
        framed = cv2.copyMakeBorder(pair, edge, edge, edge, edge, cv2.BORDER_CONSTANT, value=frame)
        top, left = pad + cell_height * (k // columns), pad + cell_width * (k % columns)
        canvas[top : top + framed.shape[0], left : left + framed.shape[1]] = framed
    return captioned(canvas, caption)


_draw_matches = matches  # by a name that no argument of `draw` hides


def save(picture: Array, path: str | Path) -> None:
    """Save as PNG, JPEG or WebP, by the ending of the name."""
    if Path(path).suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise BadInput(f"cannot write a picture as {Path(path).name!r}; let its name end in .png, .jpg or .webp.")
    with atomic_write(path) as temporary:
        if temporary.suffix.lower() == ".png":  # OpenCV's takes half of Pillow's time, and a quarter more bytes
            temporary.write_bytes(cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1].tobytes())
        else:
            Image.fromarray(picture).save(temporary)


def write(canvas: Array, words: str, place: tuple[int, int], width: int, size: int = 15) -> None:
    """Write words into a picture, their upper left corner at (x, y), shortened to a width in pixels."""
    font = ImageFont.load_default(size)
    while len(words) > 1 and font.getlength(words) > width:
        words = f"{words.rstrip('…')[:-1]}…"
    image = Image.fromarray(canvas)
    ImageDraw.Draw(image).text(place, words, INK, font)
    canvas[:] = np.asarray(image)


def captioned(canvas: Array, caption: Words) -> Array:
    """Put a strip with the caption below the picture; Pillow's letters are smoother than OpenCV's."""
    font = ImageFont.load_default(FONT)
    margin, width = 14, sum(font.getlength(words) for words, _ in caption)
    strip = Image.new("RGB", (max(canvas.shape[1], round(width) + 2 * margin), BAND), GROUND)
    pen, x = ImageDraw.Draw(strip), float(margin)
    for words, colour in caption:
        pen.text((x, BAND / 2), words, colour, font, anchor="lm")
        x += font.getlength(words)
    beside = np.full((len(canvas), strip.width - canvas.shape[1], 3), GROUND, np.uint8)
    return np.vstack([np.hstack([canvas, beside]), np.asarray(strip)])


def _shown(photos: Sequence[Array], sizes: Sequence[tuple[int, int]] | None) -> list[tuple[Array, float]]:
    """Return each photo as it is drawn on, with its scale: pixels per pixel of the original."""
    shown, darker = [], (np.arange(256) * DIM).astype(np.uint8)
    for photo, size in zip(photos, sizes or [photo.shape[:2] for photo in photos], strict=True):
        small, scale = shrink(photo, SIDE)
        colour = np.repeat(small[:, :, None], 3, 2) if small.ndim == 2 else small
        shown.append((cv2.LUT(colour, darker), scale * max(photo.shape[:2]) / max(size)))
    return shown


def _side_by_side(photos: Sequence[tuple[Array, float]]) -> tuple[Array, list[tuple[float, int]]]:
    """One canvas, OVER times as large, and for each photo its scale and the column it begins at."""
    height = max(len(photo) for photo, _ in photos)
    width = sum(photo.shape[1] + GAP for photo, _ in photos) - GAP
    canvas = np.full((height, width, 3), GROUND, np.uint8)
    left, places = 0, []
    for photo, scale in photos:
        canvas[: len(photo), left : left + photo.shape[1]] = photo
        places.append((scale, left))
        left += photo.shape[1] + GAP
    return cv2.resize(canvas, None, fx=OVER, fy=OVER, interpolation=cv2.INTER_LINEAR), places


def _averaged(canvas: Array) -> Array:
    return cv2.resize(canvas, None, fx=1 / OVER, fy=1 / OVER, interpolation=cv2.INTER_AREA)


def _placed(xy: Array, scale: float, left: int) -> Array:
    """Pixels of the photo as pixels of the picture."""
    return (xy + 0.5) * scale - 0.5 + np.array([left, 0])


def _fine(points: Array) -> list[list[int]]:
    """Pixels of the picture (K, 2) as OpenCV draws them on the larger canvas."""
    return np.rint(((points + 0.5) * OVER - 0.5) * 2**FINE).astype(int).tolist()


def _dot(canvas: Array, point: Sequence[int], radius: float, colour: Sequence[int]) -> None:
    for size, ink in ((radius + 0.9, GROUND), (radius, colour)):  # a dark rim keeps neighbours apart
        cv2.circle(canvas, point, round(size * OVER * 2**FINE), ink, -1, cv2.LINE_AA, FINE)


def _greens(height: Array) -> Array:
    """Colours from lime at the top (0) through turquoise to blue at the foot (1), to tell lines apart. (K, 3)."""
    stops = np.array([(170, 240, 60), (50, 225, 130), (50, 190, 245)])
    return np.stack([np.interp(height, (0, 0.5, 1), stops[:, channel]) for channel in range(3)], 1)
