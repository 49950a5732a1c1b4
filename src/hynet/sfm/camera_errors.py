"""How far reconstructed cameras are from the true ones: a reconstruction knows neither place, direction nor scale."""

from __future__ import annotations

import numpy as np

from ..geometry import rotation_error
from ..types import Array


def camera_errors(ours: Array, truth: Array) -> tuple[Array, Array]:
    """After the best similarity: degrees (V,) and distances (V,), in the units of the truth.

    Both are (V, 3, 4) cam_from_world. The turn comes from the cameras' rotations, since places on a line leave it
    open; scale and shift come from their places.
    """
    turns = ours[:, :, :3].transpose(0, 2, 1) @ truth[:, :, :3]  # (V, 3, 3): our world from the true one
    turn = nearest_rotation(turns.sum(0))
    degrees = np.array([rotation_error(ours[k, :, :3] @ turn, truth[k, :, :3]) for k in range(len(ours))])
    places, true_places = centres(ours) @ turn, centres(truth)
    middle, true_middle = places.mean(0), true_places.mean(0)
    spread = ((places - middle) ** 2).sum()
    scale = ((places - middle) * (true_places - true_middle)).sum() / spread if spread > 0 else 0.0
    apart = scale * (places - middle) + true_middle - true_places
    return degrees, np.linalg.norm(apart, axis=1)


def centres(cam_from_world: Array) -> Array:
    """Where the cameras are: (V, 3, 4) -> (V, 3)."""
    return -np.einsum("vji,vj->vi", cam_from_world[:, :, :3], cam_from_world[:, :, 3])


def nearest_rotation(matrix: Array) -> Array:
    """(3, 3) -> (3, 3)."""
    U, _, Vt = np.linalg.svd(matrix)
    return U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
