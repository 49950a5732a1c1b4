"""The paper's Section 2: how alike two descriptors are, and the gradients each measure sends back.

    s_bar = x.y                      raw inner product
    s     = x.y / (|x| |y|)          cos(theta)
    d_bar = |x - y|                  raw L2 distance
    d     = |x/|x| - y/|y||          sqrt(2 (1 - s)) = 2 sin(theta / 2)
    s_h   = [alpha (1 - s) + d] / Z  the hybrid measure; Z makes its steepest slope over theta 1

Measures take (..., D) arrays, NumPy or torch alike, and give (...). All are symmetric, so `grad_*` returns the
gradient for x, and the gradient for y is the same function with its arguments swapped.
Erratum: the paper prints x.(ds_bar/dx) = 0 where it means s and d, the normalised ones.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from ..types import Array

Vectors = Any  # (..., D): a NumPy array or a torch tensor


def s_bar(x: Vectors, y: Vectors) -> Any:
    return (x * y).sum(-1)


def s(x: Vectors, y: Vectors) -> Any:
    return s_bar(x, y) / (_norm(x) * _norm(y))


def d_bar(x: Vectors, y: Vectors) -> Any:
    return _norm(x - y)


def d(x: Vectors, y: Vectors) -> Any:
    return _norm(x / _norm(x)[..., None] - y / _norm(y)[..., None])


def s_h(x: Vectors, y: Vectors, alpha: float = 2.0, z: float | None = None) -> Any:
    """Z is unit_slope(alpha) as in the paper, unless given; the released code has Z = 1."""
    return (alpha * (1 - s(x, y)) + d(x, y)) / (unit_slope(alpha) if z is None else z)


# --- closed-form gradients for x (Eq. 3) ----------------------------------------------------------------------------


def grad_s_bar(x: Vectors, y: Vectors) -> Vectors:
    return y + 0 * x


def grad_d_bar(x: Vectors, y: Vectors) -> Vectors:
    return (x - y) / d_bar(x, y)[..., None]


def grad_s(x: Vectors, y: Vectors) -> Vectors:
    along_x = (s_bar(x, y) / _norm(x) ** 2)[..., None] * x
    return (y - along_x) / (_norm(x) * _norm(y))[..., None]


def grad_d(x: Vectors, y: Vectors) -> Vectors:
    return -grad_s(x, y) / d(x, y)[..., None]  # d = sqrt(2 (1 - s))


def grad_s_h(x: Vectors, y: Vectors, alpha: float = 2.0, z: float | None = None) -> Vectors:
    return (grad_d(x, y) - alpha * grad_s(x, y)) / (unit_slope(alpha) if z is None else z)


MEASURES = {"s_bar": s_bar, "s": s, "d_bar": d_bar, "d": d, "s_h": s_h}
GRADIENTS = {"s_bar": grad_s_bar, "s": grad_s, "d_bar": grad_d_bar, "d": grad_d, "s_h": grad_s_h}


def decompose(gradient: Vectors, x: Vectors) -> tuple[Vectors, Vectors]:
    """Delta = Delta_parallel + Delta_orthogonal: what changes the length of x, and what turns it."""
    parallel = (s_bar(gradient, x) / _norm(x) ** 2)[..., None] * x
    return parallel, gradient - parallel


# --- gradient magnitudes over the angle (Sec. 2.3, Fig. 2b and 5b) --------------------------------------------------


def g_s(theta: Array | float) -> Array:
    return np.abs(np.sin(theta))


def g_d(theta: Array | float) -> Array:
    """|sin t / sqrt(2 (1 - cos t))|, which is |cos(t / 2)|, also at t = 0 where the fraction is 0 / 0."""
    return np.abs(np.cos(np.asarray(theta) / 2))


def g_h(theta: Array | float, alpha: float = 2.0) -> Array:
    return np.abs(alpha * np.sin(theta) + np.cos(np.asarray(theta) / 2)) / unit_slope(alpha)


def unit_slope(alpha: float) -> float:
    """Z(alpha): the largest alpha sin t + cos(t / 2) over t in [0, pi], in closed form. Z(2) = 2.736."""
    # With u = sin(t / 2) the slope is (1 + 2 alpha u) sqrt(1 - u^2), steepest where 4 alpha u^2 + u = 2 alpha.
    u = 4 * alpha / (1 + sqrt(1 + 32 * alpha**2))
    return (1 + 2 * alpha * u) * sqrt(1 - u**2)


def _norm(x: Vectors) -> Any:
    return (x * x).sum(-1) ** 0.5
