"""Two views of one scene: cameras, poses, and the distance of a match from a homography or an epipolar geometry.

Points are (K, 2) pixels, a row of the first photo with the same row of the second. Matrices are named b_from_a.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from ..types import Array

# The guess for a photo without calibration; COLMAP's too.
FOCAL_OVER_LONGEST_SIDE = 1.2
TINY = np.finfo(float).tiny  # at an epipole there is no line: 0 / TINY is 0, where 0 / 0 would be nan


@dataclass(frozen=True)
class Pose:
    """Pose of the second camera: x_second = rotation @ x_first + translation, of unit length when scale is unknown."""

    rotation: Array  # (3, 3)
    translation: Array  # (3,)


# --- Distances and errors ---


def transfer(second_from_first: Array, xy: Array) -> Array:
    """Map points by a homography: (3, 3), (K, 2) -> (K, 2). Those that go to infinity come back as inf or nan."""
    moved = np.column_stack([xy, np.ones(len(xy))]) @ np.asarray(second_from_first, np.float64).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return moved[:, :2] / moved[:, 2:]


def transfer_error(second_from_first: Array, first: Array, second: Array) -> Array:
    """Pixels between each point of the second photo and where the homography puts its partner. -> (K,)."""
    return np.linalg.norm(transfer(second_from_first, first) - second, axis=1)


def corner_error(found: Array, true: Array, image_size: tuple[int, int]) -> float:
    """Pixels of the second photo by which a homography moves the corners of the first wrongly, on average."""
    x, y = image_size[0] - 1, image_size[1] - 1
    corners = np.array([[0, 0], [x, 0], [x, y], [0, y]], np.float64)
    error = transfer_error(found, corners, transfer(true, corners)).mean()
    return float(error) if np.isfinite(error) else np.inf


def sampson_distance(F: Array, first: Array, second: Array) -> Array:
    """Pixels to the nearest exact match, to first order: |x2' F x1| / sqrt(sum of squared line normals). -> (K,)."""
    ones = np.ones(len(first))
    x1, x2 = np.column_stack([first, ones]), np.column_stack([second, ones])  # (K, 3)
    second_lines, first_lines = x1 @ F.T, x2 @ F
    residual = np.abs((x2 * second_lines).sum(1))
    return residual / np.sqrt(TINY + (second_lines[:, :2] ** 2).sum(1) + (first_lines[:, :2] ** 2).sum(1))


def rotations(angle: float | Array) -> Array:
    """Rotations of the plane by angles from x towards y: (..., 2, 2)."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)


def rotation_error(first: Array, second: Array) -> float:
    """Degrees by which two rotations differ, 0 to 180."""
    # The chord |R1 - R2| keeps its precision near 0, where the arc cosine of the trace loses it.
    chord = np.linalg.norm(np.asarray(first) - np.asarray(second))
    return float(np.degrees(2 * np.arcsin(min(1.0, chord / np.sqrt(8)))))


def direction_error(first: Array, second: Array) -> float:
    """Degrees between two translations whose length and sign are unknown, 0 to 90."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(first, second)), abs(first @ second))))


def pose_error(found: Pose, true: Pose) -> float:
    """Degrees, the larger of rotation and direction of translation."""
    turned = rotation_error(found.rotation, true.rotation)
    return max(turned, direction_error(found.translation, true.translation))


# --- Cameras ---


def camera(focal: float, image_size: tuple[int, int]) -> Array:
    """The matrix K of a pinhole camera that looks through the middle of its photo."""
    width, height = image_size
    return np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])


def guess_camera(image_size: tuple[int, int]) -> Array:
    """Guess K for a photo about which nothing is known."""
    return camera(FOCAL_OVER_LONGEST_SIDE * max(image_size), image_size)


def scale_camera(K: Array, scale: float) -> Array:
    """K after the photo was resized by `scale`. The corner of the photo stays; the centre of its first pixel moves."""
    shift = (scale - 1) / 2
    return np.array([[scale, 0, shift], [0, scale, shift], [0, 0, 1]]) @ K


def rays(xy: Array, K: Array) -> Array:
    """Pixels as directions (x, y) at depth 1. (K, 2) -> (K, 2)."""
    return transfer(np.linalg.inv(K), xy)


def cross_matrix(t: Array) -> Array:
    """[t]x, with [t]x v = t x v."""
    return np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]])


def essential_from_pose(pose: Pose) -> Array:
    return cross_matrix(pose.translation) @ pose.rotation


def fundamental_from_pose(pose: Pose, first_K: Array, second_K: Array) -> Array:
    return np.linalg.inv(second_K).T @ essential_from_pose(pose) @ np.linalg.inv(first_K)


def pose_from_fundamental(F: Array, first: Array, second: Array, *, first_K: Array, second_K: Array) -> Pose:
    """Choose the pose, of the four in E = K2' F K1, that puts most matches in front of both cameras.

    OpenCV counts only points nearer than 50 baselines. Where none is, one of the four comes back all the same.
    """
    _, rotation, translation, _ = cv2.recoverPose(
        second_K.T @ F @ first_K, rays(first, first_K), rays(second, second_K)
    )
    return Pose(rotation, translation[:, 0])
