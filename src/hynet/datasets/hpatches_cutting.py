"""Image sequences -> HPatches stacks, by the recipe of its release: detect, cluster, orient, jitter, cut."""

from __future__ import annotations

import json
import zlib
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from ..errors import BadData, DataNotFound
from ..geometry.two_views import rotations
from ..images import read
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..types import Array, Progress, silent
from .hpatches import COLUMNS, SIDE
from .sequences import folders, homography, homography_file, photo

MAGNIFICATION = 5  # half-width of a region in detected scales (protocol of the release)
SCALES_PER_OCTAVE = 3
SMALLEST = 1.6  # pixels, the finest scale looked at
# Grey levels (DoG) and their squares, ours: about 1,700 regions of an 800 x 640 photo.
DOG, HESSIAN, HARRIS = 3.0, 60.0, 30.0
OVERLAP = 0.5  # regions that share more are one
# How much of the largest jitter: median overlap of the regions 0.85 and 0.72 as released; 0.6 for tough is ours.
JITTER = {"e": 0.36, "h": 0.75, "t": 1.12}
LARGEST_SHIFT, LARGEST_TURN, LARGEST_ZOOM, LARGEST_STRETCH = 0.3, np.pi / 6, 0.5, 0.25  # half-widths, radians, octaves


def cut(image_root: str | Path, out: str | Path, seed: int = 0, progress: Progress = silent) -> Path:
    """Image sequences -> patch stacks in the release's layout. Sequences that are there already are kept."""
    found = folders(image_root)
    for done, folder in enumerate(found):
        progress(done, len(found), folder.name)
        _cut_sequence(folder, Path(out) / folder.name, seed)
    progress(len(found), len(found), "done")
    return Path(out)


def _cut_sequence(folder: Path, out: Path, seed: int) -> None:
    photos = [photo(folder, k) for k in range(1, 7)]
    tables = [homography_file(folder, k) for k in range(2, 7)]
    for k, path in enumerate([*photos, *tables]):
        if path is None:
            what = f"photo {k + 1}" if k < 6 else f"H_1_{k - 4}"
            raise DataNotFound(f"no {what} in {folder}; a sequence has photos 1 to 6 and H_1_2 to H_1_6.")
    sources = [path for path in [*photos, *tables] if path is not None]
    key = json.dumps({"seed": seed, "from": fingerprints.files(*sources)})
    if (out / "source.json").exists() and (out / "source.json").read_text(encoding="utf-8") == key:
        return

    rng = np.random.default_rng([seed, zlib.crc32(folder.name.encode())])
    images = [read(path) for path in sources[:6]]
    image_from_first = [np.eye(3), *map(homography, sources[6:])]
    blobs = _upright(_detect(images[0]))
    everywhere = [_inside(blobs, H, image.shape) for H, image in zip(image_from_first, images, strict=True)]
    blobs = blobs[np.all(everywhere, 0)]
    regions = _oriented(images[0], blobs[_clustered(rng, blobs)])
    frames = {name: _jittered(rng, regions, JITTER.get(name[0], 0.0)) for name in COLUMNS}
    # Turned and jittered squares reach farther out than upright ones.
    fits = np.all([_inside(frames[c], image_from_first[_target(c)], images[_target(c)].shape) for c in COLUMNS], 0)
    if not fits.any():
        raise BadData(f"{folder} has no region that lies inside all six photos; check its homographies.")
    pyramids = [_pyramid(image) for image in images]
    (out / "source.json").unlink(missing_ok=True)  # it vouches for what is now replaced
    for name in reversed(COLUMNS):  # ref.png last: it makes the folder a sequence
        patches = _sample(pyramids[_target(name)], frames[name][fits], image_from_first[_target(name)])
        with atomic_write(out / f"{name}.png") as temporary:
            # Level 1 takes a sixth of the time of the default.
            Image.fromarray(patches.reshape(-1, SIDE)).save(temporary, compress_level=1)
    with atomic_write(out / "source.json") as temporary:  # says that the stacks are whole, and of what
        temporary.write_text(key, encoding="utf-8")


def _target(column: str) -> int:
    return 0 if column == "ref" else int(column[1])


def _detect(image: Array) -> Array:
    """Detect peaks of DoG, Hessian and Harris in position and scale: (N, 3) x, y, scale."""
    found = []
    sigmas = SMALLEST * 2 ** (np.arange(SCALES_PER_OCTAVE + 3) / SCALES_PER_OCTAVE)
    # A photo comes with about half a pixel of blur.
    base: Array = cv2.GaussianBlur(image.astype(np.float32), (0, 0), np.sqrt(SMALLEST**2 - 0.5**2))
    step = 1
    while min(base.shape) > 16 * SMALLEST:
        smooth = [base, *(cv2.GaussianBlur(base, (0, 0), np.sqrt(s**2 - SMALLEST**2)) for s in sigmas[1:])]
        scales = list(zip(smooth, sigmas, strict=True))
        dog = np.stack([np.abs(coarse - fine) for fine, coarse in pairwise(smooth)])
        hessian = np.stack([_hessian(level, sigma) for level, sigma in scales])
        harris = np.stack([_harris(level, sigma) for level, sigma in scales])
        blob = np.stack([_blob(level) for level in smooth[:-1]])  # DoG peaks along edges too, at no place in particular
        peaks = [_peaks(dog, DOG, blob), _peaks(hessian, HESSIAN), _peaks(harris, HARRIS)]
        found += [np.stack([x * step, y * step, sigmas[level] * step], 1) for level, y, x in peaks]
        base, step = smooth[SCALES_PER_OCTAVE][::2, ::2], step * 2
    return np.concatenate(found)


def _harris(smooth: Array, sigma: float) -> Array:
    """Determinant over trace of the second moments, in grey levels squared."""
    dx, dy = cv2.Sobel(smooth, -1, 1, 0, scale=sigma / 8), cv2.Sobel(smooth, -1, 0, 1, scale=sigma / 8)
    xx, yy, xy = (cv2.GaussianBlur(product, (0, 0), 1.4 * sigma) for product in (dx * dx, dy * dy, dx * dy))
    return (xx * yy - xy * xy) / (xx + yy + 1e-6)


def _hessian(smooth: Array, sigma: float) -> Array:
    """Size of the determinant of the second derivatives, in grey levels squared."""
    dxx, dyy, dxy = _curvature(smooth)
    return sigma**4 * np.abs(dxx * dyy - dxy * dxy)


def _blob(smooth: Array) -> Array:
    """True where the principal curvatures are within a factor of 10 of each other, as Lowe asks."""
    dxx, dyy, dxy = _curvature(smooth)
    return (dxx + dyy) ** 2 < 12.1 * (dxx * dyy - dxy * dxy)


def _curvature(smooth: Array) -> tuple[Array, ...]:
    return tuple(cv2.Sobel(smooth, -1, *order, scale=1 / 4) for order in ((2, 0), (0, 2), (1, 1)))


def _peaks(response: Array, threshold: float, allowed: Array | bool = True) -> tuple[Array, ...]:
    """Return allowed maxima of 3 x 3 x 3 neighbourhoods: level, y, x."""
    around = np.stack([cv2.dilate(level, np.ones((3, 3), np.uint8)) for level in response])
    around[1:-1] = np.maximum(np.maximum(around[:-2], around[1:-1]), around[2:])
    around[[0, -1]] = np.inf  # the first and the last scale have no neighbour on one side
    return np.nonzero((response == around) & (response > threshold) & allowed)


def _upright(blobs: Array) -> Array:
    """(N, 3) x, y, scale -> (N, 2, 3) regions [A | xy]: A takes the square from -1 to 1 to the region."""
    regions = np.zeros((len(blobs), 2, 3))
    regions[:, 0, 0] = regions[:, 1, 1] = MAGNIFICATION * blobs[:, 2]
    regions[:, :, 2] = blobs[:, :2]
    return regions


def _oriented(image: Array, regions: Array) -> Array:
    """The regions turned to their dominant gradient."""
    turned = regions.copy()
    pyramid = _pyramid(image)
    for start in range(0, len(regions), 512):  # bounded memory
        rows = slice(start, start + 512)
        turned[rows, :, :2] = regions[rows, :, :2] @ rotations(_dominant(_sample(pyramid, regions[rows], np.eye(3))))
    return turned


def _dominant(patches: Array) -> Array:
    """Lowe's peak of the gradient histogram, one angle for each patch."""
    smooth = cv2.GaussianBlur(patches.reshape(-1, SIDE), (0, 0), 2).reshape(patches.shape).astype(np.float32)
    dy, dx = np.gradient(smooth, axis=(1, 2))
    across = np.linspace(-1, 1, SIDE)
    window = np.exp(-(across**2 + across[:, None] ** 2) * (MAGNIFICATION / 1.5) ** 2 / 2)  # 1.5 scales wide
    bins = np.floor(np.arctan2(dy, dx) * (36 / (2 * np.pi))).astype(int) % 36
    rows = np.arange(len(patches))[:, None, None] * 36
    weights = np.hypot(dx, dy) * window
    histogram: Array = np.bincount((rows + bins).ravel(), weights.ravel(), 36 * len(patches)).reshape(-1, 36)
    for _ in range(3):
        histogram = (np.roll(histogram, 1, 1) + histogram + np.roll(histogram, -1, 1)) / 3
    peak = histogram.argmax(1)
    left, top, right = (np.take_along_axis(histogram, (peak[:, None] + k) % 36, 1)[:, 0] for k in (-1, 0, 1))
    offset = 0.5 * (left - right) / np.minimum(left - 2 * top + right, -1e-9)
    return (peak + 0.5 + offset) * (2 * np.pi / 36)


def _jittered(rng: np.random.Generator, regions: Array, strength: float) -> Array:
    """Regions as an inexact detector would give them: shifted, zoomed, turned, stretched."""
    count = len(regions)
    x, y, zoom, turn, stretch = strength * rng.uniform(-1, 1, (5, count))
    size, ratio = 2 ** (LARGEST_ZOOM * zoom), 2 ** (LARGEST_STRETCH * stretch)
    axis = rotations(rng.uniform(0, np.pi, count))
    scale = np.zeros((count, 2, 2))
    scale[:, 0, 0], scale[:, 1, 1] = size * ratio, size / ratio
    A = regions[:, :, :2]
    shift = A @ (LARGEST_SHIFT * np.stack([x, y], -1))[:, :, None]
    wrong = A @ rotations(turn * LARGEST_TURN) @ axis @ scale @ axis.swapaxes(1, 2)
    return np.concatenate([wrong, regions[:, :, 2:] + shift], 2)


def _inside(regions: Array, image_from_first: Array, shape: tuple[int, ...]) -> Array:
    """(N,) bool: True for squares that lie wholly in the image."""
    x, y, divisor = _projected(image_from_first, regions, np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]]))
    inside = (x >= 0) & (y >= 0) & (x <= shape[1] - 1) & (y <= shape[0] - 1)
    return np.all(inside & (divisor > 0), axis=1)


def _projected(H: Array, regions: Array, at: Array) -> tuple[Array, Array, Array]:
    """Points `at` (2, M) of each region through a homography: x, y, and the divisor, negative behind the camera."""
    homogeneous = np.concatenate([regions, np.broadcast_to([[[0.0, 0.0, 1.0]]], (len(regions), 1, 3))], 1)
    points = np.concatenate([at, np.ones((1, at.shape[1]))]).astype(np.float32)
    x, y, divisor = np.moveaxis((H @ homogeneous).astype(np.float32) @ points, 1, 0)  # (N, M) each
    return x / divisor, y / divisor, divisor


def _clustered(rng: np.random.Generator, regions: Array) -> Array:
    """Rows that stay when, of regions that overlap by more than half, a random one is kept; in their order."""
    xy, radius = regions[:, :, 2], np.sqrt(np.linalg.det(regions[:, :, :2]))
    free = np.ones(len(regions), bool)
    kept = []
    for row in rng.permutation(len(regions)):
        if free[row]:
            kept.append(row)
            close = np.flatnonzero(free & (np.abs(xy - xy[row]).max(1) < radius[row]))
            free[close[_overlap(xy[close] - xy[row], radius[close], radius[row]) > OVERLAP]] = False
    return np.sort(np.array(kept, int))


def _overlap(offset: Array, radius: Array, other: float) -> Array:
    """Intersection over union of circles: (N, 2), (N,) -> (N,)."""
    apart = np.maximum(np.linalg.norm(offset, axis=1), 1e-9)
    one = np.clip((apart**2 + radius**2 - other**2) / (2 * apart * radius), -1, 1)
    two = np.clip((apart**2 + other**2 - radius**2) / (2 * apart * other), -1, 1)
    kite = (radius + other - apart) * (apart + radius - other) * (apart - radius + other) * (apart + radius + other)
    shared = radius**2 * np.arccos(one) + other**2 * np.arccos(two) - 0.5 * np.sqrt(np.maximum(kite, 0))
    return shared / (np.pi * (radius**2 + other**2) - shared)


def _pyramid(image: Array) -> list[Array]:
    """The image halved again and again; pixel (x, y) is pixel (x, y) / 2 of the next."""
    levels = [image]
    while min(levels[-1].shape) > 2 * SIDE:
        levels.append(cv2.pyrDown(levels[-1]))
    return levels


def _sample(pyramid: list[Array], regions: Array, image_from_first: Array) -> Array:
    """Patches of regions of the first photo as another shows them, each from the level that does not alias."""
    steps = np.linspace(-1, 1, SIDE)
    x, y = np.meshgrid(steps, steps)
    grid = np.stack([x.ravel(), y.ravel()])
    patches = np.empty((len(regions), SIDE, SIDE), np.uint8)
    for start in range(0, len(regions), 512):  # bounded memory
        x, y, _ = _projected(image_from_first, regions[start : start + 512], grid)  # (n, 65 * 65)
        centre = SIDE**2 // 2
        across = np.hypot(x[:, centre + 1] - x[:, centre], y[:, centre + 1] - y[:, centre])
        down = np.hypot(x[:, centre + SIDE] - x[:, centre], y[:, centre + SIDE] - y[:, centre])
        level = np.clip(np.rint(np.log2(np.maximum(across, down))), 0, len(pyramid) - 1).astype(int)
        for k in np.unique(level).tolist():
            rows = np.flatnonzero(level == k)
            cut_out = cv2.remap(
                pyramid[k], x[rows] / 2**k, y[rows] / 2**k, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
            )
            patches[start + rows] = cut_out.reshape(-1, SIDE, SIDE)
    return patches
