"""Patches, photo pairs and scenes made from nothing, whose truth is exact. The same seed gives the same pixels."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from ..geometry.two_views import rotations
from ..types import Array, PatchSet

PATCH = 64  # pixels a side
TEXELS = 120  # texture pixels a metre in scenes
POINTS_PER_TEXTURE = 100  # patches of one texture share their reference image


@dataclass(frozen=True)
class SyntheticScene:
    """Textured planes seen by pinhole cameras without distortion."""

    photos: Array  # (V, H, W) uint8
    depths: Array  # (V, H, W) float32 along the optical axis, at pixel centres
    K: Array  # (3, 3), the same for all photos
    cam_from_world: Array  # (V, 3, 4) [R | t]


@dataclass(frozen=True)
class _Plane:
    picture: Array  # (H, W) uint8
    world_from_texel: Array  # (3, 3): (u, v, 1) -> world


def texture(size: tuple[int, int], seed: int) -> Array:
    """A picture of that (width, height) with corners and blobs at all scales. (H, W) uint8."""
    width, height = size
    rng = np.random.default_rng(seed)
    picture = np.full((height, width), 128, np.float32)
    # Leaves fall from large to small and hide each other, as things in photos do.
    for radius in np.geomspace(max(size) / 5, 5, 6):
        leaves = _leaves(rng, int(0.4 * width * height / radius**2 / np.pi) + 1, size, radius)
        for leaf, grey in zip(leaves, rng.normal(128, 50, len(leaves)).tolist(), strict=True):
            cv2.fillConvexPoly(picture, leaf, grey, cv2.LINE_8, 4)
    for wavelength in (64, 16, 4, 2):
        noise = rng.standard_normal((height // wavelength + 3, width // wavelength + 3), np.float32)
        smooth = cv2.resize(noise, None, fx=wavelength, fy=wavelength, interpolation=cv2.INTER_CUBIC)
        picture += 5 * np.log2(wavelength * 2) * smooth[wavelength:, wavelength:][:height, :width]
    return _pixels(cv2.GaussianBlur(picture, (0, 0), 0.8))  # no detail finer than a pixel: warps do not alias


def photo_pair(seed: int, size: tuple[int, int] = (640, 480)) -> tuple[Array, Array, Array]:
    """Two photos of one plane and the homography between them: first, second, second_from_first."""
    width, height = size
    rng = np.random.default_rng(seed)
    margin = max(size) // 3  # so that the second photo sees a little beyond the first, not a border
    picture = texture((width + 2 * margin, height + 2 * margin), seed)
    first = picture[margin : margin + height, margin : margin + width]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    centre = corners.mean(0)
    moved = (corners - centre) @ rotations(rng.uniform(-0.35, 0.35)).T * rng.uniform(0.85, 1.2) + centre
    moved += rng.uniform(-0.06, 0.06, (4, 2)) * size  # perspective
    second_from_first = cv2.getPerspectiveTransform(corners.astype(np.float32), moved.astype(np.float32))
    second_from_picture = second_from_first @ np.array([[1, 0, -margin], [0, 1, -margin], [0, 0, 1.0]])
    warped = cv2.warpPerspective(
        picture, second_from_picture, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
    )
    lit = (warped - 128.0) * rng.uniform(0.7, 1.2) + 128 + rng.uniform(-20, 20)
    return first.copy(), _pixels(lit + rng.normal(0, 2, warped.shape)), second_from_first


def patch_set(points: int = 500, patches_per_point: int = 4, seed: int = 0) -> PatchSet:
    """64 x 64 patches with a detector's geometric error and a camera's: hard enough that SIFT makes mistakes."""
    rng = np.random.default_rng(seed)
    patches = np.empty((points, patches_per_point, PATCH, PATCH), np.uint8)
    pictures = -(-points // POINTS_PER_TEXTURE)
    for k in range(pictures):
        rows = slice(k * POINTS_PER_TEXTURE, min(points, (k + 1) * POINTS_PER_TEXTURE))
        picture = texture((640, 640), int(rng.integers(2**31)))
        frames = _frames(rng, picture, rows.stop - rows.start)
        jittered = _jitter(rng, np.repeat(frames, patches_per_point, 0))
        patches[rows] = _photographed(rng, _cut(picture, jittered)).reshape(patches[rows].shape)
    numbers = np.repeat(np.arange(points), patches_per_point)
    return PatchSet(patches.reshape(-1, PATCH, PATCH), numbers, numbers // POINTS_PER_TEXTURE)


load = patch_set  # by its name among the data sets


def scene(seed: int = 0, photos: int = 8, size: tuple[int, int] = (640, 480)) -> SyntheticScene:
    """A wall, a floor and two cards that hide parts of them, seen from an arc. Every pixel has a depth."""
    rng = np.random.default_rng(seed)
    width, height = size
    K = np.array([[1.1 * width, 0, (width - 1) / 2], [0, 1.1 * width, (height - 1) / 2], [0, 0, 1]])
    planes = [
        _plane([-8, -5, 2.6], [16, 0, -0.8], [0, 10, 0], seed * 4),  # the wall
        _plane([-8, 1.2, 4], [16, 0, 0], [0, 0.9, -6], seed * 4 + 1),  # the floor, tilted towards the viewer
        _plane([0.2, -0.7, 0.6], [1.1, 0, 0.3], [0, 1.0, 0.15], seed * 4 + 2),
        _plane([-1.7, -0.9, 1.2], [0.9, 0, -0.5], [0, 1.4, 0], seed * 4 + 3),
    ]
    poses = []
    for angle in np.linspace(-0.3, 0.3, photos):
        eye = np.array([6 * np.sin(angle), rng.uniform(-0.4, 0.2), 1 - 6 * np.cos(angle)])
        poses.append(_looking(eye, np.array([0, 0, 1]) + rng.uniform(-0.15, 0.15, 3)))
    shots = []
    for pose in poses:
        fine, _ = _render(planes, K, pose, size, samples=2)
        shot = cv2.resize(fine, size, interpolation=cv2.INTER_AREA)
        shots.append(_pixels(shot + rng.normal(0, 1.5, shot.shape)))
    depths = [_render(planes, K, pose, size, samples=1)[1] for pose in poses]
    return SyntheticScene(np.stack(shots), np.stack(depths), K, np.stack(poses))


def _leaves(rng: np.random.Generator, count: int, size: tuple[int, int], radius: float) -> Array:
    """Polygons of three to eight sides around that radius, as cv2 wants them: (count, 8, 2) sixteenths of a pixel."""
    corners = np.minimum(np.arange(8), rng.integers(2, 8, (count, 1)))  # the last corner repeats where there are fewer
    angles = np.take_along_axis(np.sort(rng.uniform(0, 2 * np.pi, (count, 8))), corners, 1)
    spokes = radius * rng.uniform(0.6, 1.4, (count, 1, 1)) * np.stack([np.cos(angles), np.sin(angles)], -1)
    return np.rint((rng.uniform(0, size, (count, 1, 2)) + spokes) * 16).astype(np.int32)


def _frames(rng: np.random.Generator, picture: Array, count: int) -> Array:
    """(count, 2, 3) regions [A | xy] around corners, well inside; A takes the square from -1 to 1 to the region."""
    margin = 64
    inner = np.zeros_like(picture)
    inner[margin:-margin, margin:-margin] = 255
    xy = cv2.goodFeaturesToTrack(picture, count, 0.001, 12, mask=inner).reshape(-1, 2)
    extra = rng.uniform(margin, len(picture) - margin, (count - len(xy), 2))
    half_width = rng.uniform(16, 28, count)  # at most one pixel of the picture to one of the patch: no aliasing
    A = half_width[:, None, None] * rotations(rng.uniform(-np.pi, np.pi, count))
    return np.concatenate([A, np.concatenate([xy, extra])[:, :, None]], 2)


def _jitter(rng: np.random.Generator, frames: Array) -> Array:
    """Errors of a detector: up to 0.15 of the half-width, 16 degrees, 0.3 octave, and a stretch of 1.13."""
    count = len(frames)
    axis = rotations(rng.uniform(0, np.pi, count))
    stretch = 2 ** rng.uniform(-0.09, 0.09, count)
    scale = 2 ** rng.uniform(-0.3, 0.3, count)
    diagonal = np.zeros((count, 2, 2))
    diagonal[:, 0, 0], diagonal[:, 1, 1] = scale * stretch, scale / stretch
    A = frames[:, :, :2] @ rotations(rng.uniform(-0.28, 0.28, count)) @ axis @ diagonal @ axis.swapaxes(1, 2)
    shift = frames[:, :, :2] @ rng.uniform(-0.15, 0.15, (count, 2, 1))
    return np.concatenate([A, frames[:, :, 2:] + shift], 2)


def _cut(picture: Array, frames: Array) -> Array:
    """(P, 2, 3) regions -> (P, 64, 64) float32."""
    steps = (np.arange(PATCH) - (PATCH - 1) / 2) * (2 / PATCH)
    x, y = np.meshgrid(steps, steps)
    grid = np.stack([x.ravel(), y.ravel(), np.ones(PATCH**2)])  # (3, 4096)
    at = (frames @ grid).astype(np.float32)  # (P, 2, 4096)
    cut = cv2.remap(picture, at[:, 0], at[:, 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    return cut.reshape(-1, PATCH, PATCH).astype(np.float32)


def _photographed(rng: np.random.Generator, patches: Array) -> Array:
    """Gain, offset, gamma, a shade across the patch, and noise: each patch its own."""
    count = len(patches)

    def each(low: float, high: float) -> Array:
        return rng.uniform(low, high, (count, 1, 1)).astype(np.float32)

    x = np.linspace(-1, 1, PATCH, dtype=np.float32)
    bright = 255 * (patches / 255) ** each(0.7, 1.4)
    lit = (bright - 128) * each(0.5, 1.2) + 128 + each(-30, 30) + each(-25, 25) * x + each(-25, 25) * x[:, None]
    return _pixels(lit + each(2, 9) * rng.standard_normal(patches.shape, np.float32))


def _plane(origin: list[float], side: list[float], other: list[float], seed: int) -> _Plane:
    """A rectangle of the world (metres, y down) with as many texture pixels as a photo from 6 m has."""
    lengths = np.linalg.norm([side, other], axis=1)
    picture = texture((int(TEXELS * lengths[0]), int(TEXELS * lengths[1])), seed)
    across, down = np.array(side) / lengths[0], np.array(other) / lengths[1]
    return _Plane(picture, np.stack([across / TEXELS, down / TEXELS, origin], 1))


def _render(planes: list[_Plane], K: Array, pose: Array, size: tuple[int, int], samples: int) -> tuple[Array, Array]:
    """Grey and depth, `samples` to a pixel along each axis; the nearest plane wins."""
    width, height = size[0] * samples, size[1] * samples
    # Samples of one pixel lie around its centre, which is a whole number.
    fine_from_pixel = np.array([[samples, 0, (samples - 1) / 2], [0, samples, (samples - 1) / 2], [0, 0, 1]])
    R, t = pose[:, :3], pose[:, 3]
    grey, inverse_depth = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    for plane in planes:
        cam_from_texel = R @ plane.world_from_texel + np.outer(t, [0, 0, 1])
        fine_from_texel = fine_from_pixel @ K @ cam_from_texel
        # depth * (x, y, 1) = fine_from_texel (u, v, 1), so the last row of the inverse gives 1/depth.
        x_term, y_term, constant = np.linalg.inv(fine_from_texel)[2]
        near = (x_term * np.arange(width) + (y_term * np.arange(height) + constant)[:, None]).astype(np.float32)
        sampled = cv2.warpPerspective(plane.picture, fine_from_texel, (width, height), flags=cv2.INTER_LINEAR)
        covered = cv2.warpPerspective(
            np.ones_like(plane.picture), fine_from_texel, (width, height), flags=cv2.INTER_NEAREST
        )
        seen = (covered > 0) & (near > inverse_depth)
        grey[seen], inverse_depth[seen] = sampled[seen], near[seen]
    return grey, 1 / inverse_depth


def _looking(eye: Array, target: Array) -> Array:
    """(3, 4) cam_from_world of a camera at `eye` whose axis goes through `target`; y of the world points down."""
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross([0, 1, 0], forward)
    right /= np.linalg.norm(right)
    R = np.stack([right, np.cross(forward, right), forward])
    return np.concatenate([R, (-R @ eye)[:, None]], 1)


def _pixels(values: Array) -> Array:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
