"""Round keypoints -> elliptic ones, so that a surface seen from the side gives the same patch as from the front.

Baumberg's iteration: stretch the region until the gradients in its patch are as strong in every direction.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..patches import cut
from ..types import Array, Keypoints
from .orientation import dominant

SIDE, SUPPORT = 27, 12.0  # pixels and detector sigmas of the patch that is looked at
BLUR = 1.5  # pixels of that patch, before gradients are taken
WINDOW, ANGLE_WINDOW = 4.0, 3.0  # sigmas of the Gaussian that weighs gradients for the shape, and for the angle
ITERATIONS = 8
MOST = 4.0  # times as long as wide; a region that wants more lies on an edge, and stays round
AT_ONCE = 512  # keypoints: their patches stay in the cache


def adapted(image: Array, keypoints: Keypoints, *, upright: bool = False) -> Keypoints:
    """Keypoints of the same places and areas in (H, W) grey, with affine shapes; their own angles do not matter.

    The vertical of the photo stays vertical in the patch, turned by the dominant orientation unless upright.
    """
    frames = [np.zeros((0, 2, 3), np.float32)]
    for start in range(0, len(keypoints), AT_ONCE):
        some = keypoints[start : start + AT_ONCE]
        A = some.sigma[:, None, None] * _shapes(image, some)  # (n, 2, 2)
        if not upright:
            dx, dy = (slope.reshape(len(some), -1) for slope in _gradients(image, some.xy, A))
            A = A @ _turn(dominant(dx, dy, _window(ANGLE_WINDOW).ravel()))
        frames.append(_frames(A, some.xy))
    return Keypoints(np.concatenate(frames), keypoints.scores)


def _shapes(image: Array, keypoints: Keypoints) -> Array:
    """(n, 2, 2) of determinant one, lower triangular; the identity where the iteration leads nowhere."""
    window = _window(WINDOW)
    shapes = np.tile(np.eye(2), (len(keypoints), 1, 1))
    going = np.arange(len(keypoints))  # rows whose shape is still believed
    for _ in range(ITERATIONS):
        some = keypoints[going]
        dx, dy = _gradients(image, some.xy, some.sigma[:, None, None] * shapes[going])
        xx, xy, yy = ((window * product).sum((1, 2)) for product in (dx * dx, dx * dy, dy * dy))
        area = np.sqrt(np.maximum(xx * yy - xy * xy, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            shapes[going] = _upright(shapes[going] @ _inverse_root(xx / area, xy / area, yy / area))
        long = np.linalg.norm(shapes[going], axis=(1, 2)) ** 2  # of a shape r times as long as wide: r + 1 / r
        believed = long < MOST + 1 / MOST  # nan, of a flat patch, is not
        shapes[going[~believed]] = np.eye(2)
        going = going[believed]
    return shapes


def _gradients(image: Array, xy: Array, A: Array) -> tuple[Array, Array]:
    """Derivatives along x and y of the patches of frames [A | xy]: (n, SIDE, SIDE) each."""
    patches = cut(image, Keypoints(_frames(A, xy), np.zeros(len(A))), SIDE, SUPPORT).astype(np.float32)
    smooth, slope = _blur_and_slope()
    return smooth @ patches @ slope.T, slope @ patches @ smooth.T


@lru_cache(maxsize=1)
def _blur_and_slope() -> tuple[Array, Array]:
    """The Gaussian and its derivative as matrices: a row takes a line of pixels to its value at one of them."""
    away = np.arange(SIDE) - np.arange(SIDE)[:, None]
    smooth = np.exp(-(away**2) / (2 * BLUR**2))
    smooth /= smooth.sum(1, keepdims=True)
    slope = away / BLUR**2 * smooth
    slope -= slope.sum(1, keepdims=True) * smooth  # at the border, where a part of the Gaussian is missing
    return smooth.astype(np.float32), slope.astype(np.float32)


def _window(sigmas: float) -> Array:
    """A Gaussian of so many detector sigmas over the patch, zero in its corners: (SIDE, SIDE)."""
    along = (np.arange(SIDE) - (SIDE - 1) / 2) * (SUPPORT / SIDE)
    square = along**2 + along[:, None] ** 2
    return np.where(square < (SUPPORT / 2) ** 2, np.exp(-square / (2 * sigmas**2)), 0).astype(np.float32)


def _inverse_root(xx: Array, xy: Array, yy: Array) -> Array:
    """M^(-1/2) of symmetric matrices of determinant one: (n,) each -> (n, 2, 2)."""
    scale = np.sqrt(xx + yy + 2)
    return np.stack([np.stack([yy + 1, -xy], -1), np.stack([-xy, xx + 1], -1)], 1) / scale[:, None, None]


def _upright(A: Array) -> Array:
    """The lower triangular matrix of the same ellipse: it takes the vertical to the vertical. (n, 2, 2)."""
    (a, b), (c, d) = A.transpose(1, 2, 0)
    first = np.hypot(a, b)
    return np.stack([np.stack([first, 0 * a], -1), np.stack([(a * c + b * d) / first, 1 / first], -1)], 1)


def _turn(angle: Array) -> Array:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], 1)


def _frames(A: Array, xy: Array) -> Array:
    return np.concatenate([A, xy[:, :, None]], 2).astype(np.float32)
