"""XFeat (Potje et al., 2024), by ONNX Runtime: the network gives raw maps, keypoints and descriptors are read off here.

Needs no torch. What is done after the network follows the authors' published pipeline: non-maximum suppression in 5 x 5
pixels, a score that is the heat times the reliability there, descriptors by bicubic interpolation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from ... import images
from ...runtime.machine import cores
from ...runtime.onnx_runtime import run, session
from ...types import Array, Features, Keypoints

LONGEST = 1024  # pixels of the longer side, as for the other networks
CELL = 8  # pixels of the photo to one of the maps
MULTIPLE = 32  # of both sides of what goes into the network
HEAT = 0.05  # the authors' threshold
NEIGHBOURHOOD = 5  # pixels, of the suppression
OUTPUTS = ["descriptors", "keypoint_logits", "reliability"]
SIGMA = 1.0  # it has no scale


class XFeat:
    """Photo -> its best keypoints above the authors' threshold, 64 numbers each."""

    ratio: float | None = None  # its authors match by mutual nearest neighbours alone

    def __init__(self, network: Any, max_keypoints: int) -> None:
        """network: its session of ONNX Runtime."""
        self.max_keypoints = max_keypoints
        self._session = network

    @classmethod
    def from_file(cls, path: Path, max_keypoints: int) -> XFeat | None:
        network = session(path, threads=len(cores()))
        recognised = [output.name for output in network.get_outputs()] == OUTPUTS
        return cls(network, max_keypoints) if recognised else None

    def __call__(self, photo: Any) -> Features:
        held = images.at_hand(photo)
        picture = images.read_colour(held)
        height, width = picture.shape[:2]
        small, _ = images.shrink(picture, LONGEST)
        size = tuple(max(MULTIPLE, side // MULTIPLE * MULTIPLE) for side in small.shape[1::-1])  # (width, height)
        small = cv2.resize(small, size, interpolation=cv2.INTER_LINEAR)
        pixels = np.ascontiguousarray(small.transpose(2, 0, 1)[None], np.float32) / 255
        described, logits, reliability = run(self._session, OUTPUTS, {"input": pixels})
        heat = _heat(logits[0])  # (H, W)
        xy = _peaks(heat)  # (N, 2) whole pixels
        scores = heat[xy[:, 1], xy[:, 0]] * _bilinear(reliability[0], xy, size)[:, 0]
        best = np.argsort(-scores, kind="stable")[: self.max_keypoints]
        descriptors = _unit(_bicubic(_unit(described[0], axis=0), xy[best], size))
        scale = np.array([width, height]) / size
        sigma = np.full(len(best), SIGMA * scale.mean())
        keypoints = Keypoints.from_circles((xy[best] + 0.5) * scale - 0.5, sigma, np.zeros(len(best)), scores[best])
        return Features(keypoints, descriptors, (width, height), self.ratio, photo=images.remembered(held))


def _heat(logits: Array) -> Array:
    """(65, h, w) -> (8 h, 8 w): what each cell says of its 64 pixels; the last of the 65 stands for none of them."""
    shares = np.exp(logits - logits.max(0))
    shares /= shares.sum(0)
    rows, columns = logits.shape[1:]
    cells = shares[:-1].reshape(CELL, CELL, rows, columns)
    return cells.transpose(2, 0, 3, 1).reshape(CELL * rows, CELL * columns)


def _peaks(heat: Array) -> Array:
    """(N, 2) x, y of the pixels that are the hottest of their neighbourhood."""
    around = cv2.dilate(heat, np.ones((NEIGHBOURHOOD, NEIGHBOURHOOD)))
    y, x = np.nonzero((heat == around) & (heat > HEAT))
    return np.column_stack([x, y])


def _in_map(values: Array, xy: Array, size: tuple[int, ...]) -> tuple[Array, Array]:
    """Place pixels of the photo in a map, as whole numbers and fractions, by the authors' convention."""
    rows, columns = values.shape[1:]
    places = xy / (np.array(size) - 1) * (columns, rows) - 0.5
    whole = np.floor(places).astype(np.int64)
    return whole, (places - whole).astype(np.float32)


def _gathered(values: Array, column: Array, row: Array) -> Array:
    """(C, h, w) at whole places -> (N, C), nothing outside."""
    rows, columns = values.shape[1:]
    inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    return values[:, row.clip(0, rows - 1), column.clip(0, columns - 1)].T * inside[:, None]


def _bilinear(values: Array, xy: Array, size: tuple[int, ...]) -> Array:
    whole, rest = _in_map(values, xy, size)
    weights = np.stack([1 - rest, rest])  # (2, N, 2)
    return _weighted(values, whole, weights, first=0)


def _bicubic(values: Array, xy: Array, size: tuple[int, ...]) -> Array:
    whole, rest = _in_map(values, xy, size)
    distances = np.abs(np.stack([rest + 1, rest, rest - 1, rest - 2]))  # (4, N, 2)
    return _weighted(values, whole, _cubic(distances), first=-1)


def _weighted(values: Array, whole: Array, weights: Array, first: int) -> Array:
    """Sum over the neighbours of each place, each weighed by row and by column."""
    total = np.zeros((len(whole), len(values)), np.float32)
    for j, down in enumerate(weights[..., 1]):
        for i, across in enumerate(weights[..., 0]):
            near = _gathered(values, whole[:, 0] + first + i, whole[:, 1] + first + j)
            total += near * (across * down)[:, None]
    return total


def _cubic(t: Array, a: float = -0.75) -> Array:
    """Keys' kernel at distances 0 to 2, with the a of most libraries."""
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * (t**3 - 5 * t**2 + 8 * t - 4)
    return np.where(t <= 1, near, far)


def _unit(values: Array, axis: int = 1) -> Array:
    return values / np.maximum(np.linalg.norm(values, axis=axis, keepdims=True), 1e-12)
