"""Round keypoints -> elliptic ones, so that a surface seen from the side gives the same patch as from the front.

Baumberg's iteration: stretch the region until the gradients in its patch are as strong in every direction.
"""

from __future__ import annotations

import numpy as np

from ...types import Array, Keypoints
from .orientation import AT_ONCE, gradients, window

BLUR = 1.5  # pixels of the patch, before gradients are taken
WINDOW = 4.0  # sigmas of the Gaussian that weighs them
ITERATIONS = 8
MOST = 4.0  # times as long as wide; a region that wants more lies on an edge, and stays round


def baumberg(image: Array, keypoints: Keypoints) -> Keypoints:
    """Keypoints of the same places and areas in (H, W) grey, with affine shapes; their own angles do not matter.

    The vertical of the photo stays vertical in the patch.
    """
    frames = [np.zeros((0, 2, 3), np.float32)]
    for start in range(0, len(keypoints), AT_ONCE):
        some = keypoints[start : start + AT_ONCE]
        frames.append(reshaped(some, _shapes(image, some)).frames)
    return Keypoints(np.concatenate(frames), keypoints.scores)


def reshaped(keypoints: Keypoints, shapes: Array) -> Keypoints:
    """Give keypoints the ellipses of shapes (N, 2, 2); places, areas and the vertical of the photo stay."""
    A = keypoints.sigma[:, None, None] * upright(shapes)
    return Keypoints(np.concatenate([A, keypoints.frames[:, :, 2:]], 2), keypoints.scores)


def upright(A: Array) -> Array:
    """Lower triangular matrices of the same ellipses scaled to area one: the vertical stays vertical. (N, 2, 2)."""
    (a, b), (c, d) = A.transpose(1, 2, 0)
    first, area = np.hypot(a, b), np.abs(a * d - b * c)
    rows = [np.stack([first, 0 * a], -1), np.stack([(a * c + b * d) / first, area / first], -1)]
    return np.stack(rows, 1) / np.sqrt(area)[:, None, None]


def _shapes(image: Array, keypoints: Keypoints) -> Array:
    """(n, 2, 2) of determinant one, lower triangular; the identity where the iteration leads nowhere."""
    weight = window(WINDOW)
    shapes = np.tile(np.eye(2), (len(keypoints), 1, 1))
    going = np.arange(len(keypoints))  # rows whose shape is still believed
    for _ in range(ITERATIONS):
        some = keypoints[going]
        dx, dy = gradients(image, reshaped(some, shapes[going]), BLUR)
        xx, xy, yy = ((weight * product).sum((1, 2)) for product in (dx * dx, dx * dy, dy * dy))
        area = np.sqrt(np.maximum(xx * yy - xy * xy, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            shapes[going] = upright(shapes[going] @ _inverse_root(xx / area, xy / area, yy / area))
        long = np.linalg.norm(shapes[going], axis=(1, 2)) ** 2  # of a shape r times as long as wide: r + 1 / r
        believed = long < MOST + 1 / MOST  # nan, of a flat patch, is not
        shapes[going[~believed]] = np.eye(2)
        going = going[believed]
    return shapes


def _inverse_root(xx: Array, xy: Array, yy: Array) -> Array:
    """M^(-1/2) of symmetric matrices of determinant one: (n,) each -> (n, 2, 2)."""
    scale = np.sqrt(xx + yy + 2)
    return np.stack([np.stack([yy + 1, -xy], -1), np.stack([-xy, xx + 1], -1)], 1) / scale[:, None, None]
