"""Errors of reconstructed cameras: a reconstruction knows neither place, direction nor scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..geometry.two_views import rotation_error
from ..types import Array


@dataclass(frozen=True)
class Similarity:
    """Similarity between a reconstructed world and the true one."""

    turn: Array  # (3, 3): our world from the true one
    scale: float  # true units for each of ours
    middle: Array  # (3,) of our cameras, turned
    true_middle: Array  # (3,) of the true ones

    def places(self, ours: Array) -> Array:
        """Places (V, 3) of cameras (V, 3, 4) in the true world."""
        return self.scale * (centres(ours) @ self.turn - self.middle) + self.true_middle


def best_similarity(ours: Array, truth: Array) -> Similarity:
    """Fit the similarity of (V, 3, 4) cam_from_world.

    The turn comes from the cameras' rotations, since places on a line leave it open; scale and shift from their places.
    """
    turns = ours[:, :, :3].transpose(0, 2, 1) @ truth[:, :, :3]  # (V, 3, 3): our world from the true one
    turn = nearest_rotation(turns.sum(0))
    places, true_places = centres(ours) @ turn, centres(truth)
    middle, true_middle = places.mean(0), true_places.mean(0)
    spread = ((places - middle) ** 2).sum()
    scale = ((places - middle) * (true_places - true_middle)).sum() / spread if spread > 0 else 0.0
    return Similarity(turn, float(scale), middle, true_middle)


def camera_errors(ours: Array, truth: Array, over: Similarity | None = None) -> tuple[Array, Array]:
    """Degrees (V,) and distances (V,), in the units of the truth; both are (V, 3, 4) cam_from_world.

    over: how the worlds lie over each other; None: as suits these cameras best.
    """
    over = over or best_similarity(ours, truth)
    degrees = np.array([rotation_error(ours[k, :, :3] @ over.turn, truth[k, :, :3]) for k in range(len(ours))])
    return degrees, np.linalg.norm(over.places(ours) - centres(truth), axis=1)


def centres(cam_from_world: Array) -> Array:
    """Places (V, 3) of cameras (V, 3, 4)."""
    return -np.einsum("vji,vj->vi", cam_from_world[:, :, :3], cam_from_world[:, :, 3])


def nearest_rotation(matrix: Array) -> Array:
    """Rotation (3, 3) nearest to a matrix (3, 3)."""
    U, _, Vt = np.linalg.svd(matrix)
    return U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
