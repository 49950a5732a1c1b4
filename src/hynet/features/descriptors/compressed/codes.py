"""Descriptors in fewer bytes: what is learnt from some descriptors, and what is left of a row when it is stored so.

Every code gives unit rows again, so that whatever compares descriptors compares these. ADD A CODE: a dataclass of
arrays with `check`, `fit` and `__call__`, and a row in CODES.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from ....errors import BadInput, need
from ....types import Array

SEED = 1
ROUNDS = 50  # of ITQ, as its authors
CENTROIDS = 256  # of a product code: one byte for each part of a row


class Code(Protocol):
    """(N, D) unit rows -> (N, dim) unit rows that fit into `bytes` each."""

    keeps_ratio: ClassVar[bool]

    @classmethod
    def check(cls, width: int, size: int) -> None:
        """Whether rows of `width` numbers can be stored so, before the long work of describing what it is fitted to."""
        ...

    @classmethod
    def fit(cls, rows: Array, size: int) -> Self: ...

    def __call__(self, rows: Array) -> Array: ...

    def bytes(self, dim: int) -> int:
        """Size of one stored row. dim: numbers in an uncompressed one."""
        ...


@dataclass(frozen=True)
class Directions:
    """PCA: the directions in which descriptors vary most, as floats."""

    mean: Array  # (D,)
    basis: Array  # (D, size)
    keeps_ratio: ClassVar[bool] = True

    @classmethod
    def check(cls, width: int, size: int) -> None:
        if not 0 < size < width:
            raise BadInput(f"PCA keeps fewer than the {width} numbers of a descriptor, got {size}.")

    @classmethod
    def fit(cls, rows: Array, size: int) -> Self:
        mean = rows.mean(0)
        _, directions = np.linalg.eigh(np.cov((rows - mean).T))
        return cls(mean, np.ascontiguousarray(directions[:, ::-1][:, :size]).astype(np.float32))

    def __call__(self, rows: Array) -> Array:
        return _unit((rows - self.mean) @ self.basis)

    def bytes(self, dim: int) -> int:
        return 4 * self.basis.shape[1]


@dataclass(frozen=True)
class Halves:
    """Floats of 16 bits."""

    keeps_ratio: ClassVar[bool] = True

    @classmethod
    def check(cls, width: int, size: int) -> None:
        pass

    @classmethod
    def fit(cls, rows: Array, size: int) -> Self:
        return cls()

    def __call__(self, rows: Array) -> Array:
        return _unit(rows.astype(np.float16).astype(np.float32))

    def bytes(self, dim: int) -> int:
        return 2 * dim


@dataclass(frozen=True)
class Integers:
    """Integers of 8 bits in steps that suit nearly all numbers; the few beyond are the largest."""

    step: Array  # ()
    keeps_ratio: ClassVar[bool] = True

    @classmethod
    def check(cls, width: int, size: int) -> None:
        pass

    @classmethod
    def fit(cls, rows: Array, size: int) -> Self:
        return cls(np.array(np.quantile(np.abs(rows), 0.9999) / 127, np.float32))

    def __call__(self, rows: Array) -> Array:
        return _unit(np.rint(rows / self.step).clip(-127, 127).astype(np.float32))

    def bytes(self, dim: int) -> int:
        return dim


@dataclass(frozen=True)
class Bits:
    """Signs along directions that lose least by it: ITQ (Gong & Lazebnik 2011), once for each D bits.

    Rows are +-1 / sqrt(B), whose squared distance is 4 h / B for Hamming distance h: the order of neighbours is
    Hamming's. h grows with the angle, not with its square, so a ratio test needs the root of the ratio.
    """

    mean: Array  # (D,)
    directions: Array  # (D, B)
    keeps_ratio: ClassVar[bool] = False

    @classmethod
    def check(cls, width: int, size: int) -> None:
        if size < 8 or size % 8 or (size > width and size % width):
            raise BadInput(f"bits must be a multiple of 8, and of {width} beyond that, got {size}.")

    @classmethod
    def fit(cls, rows: Array, size: int) -> Self:
        width = rows.shape[1]
        mean = rows.mean(0)
        rng = np.random.default_rng(SEED)
        parts = [_quantised(rows - mean, min(size, width), rng) for _ in range(max(1, size // width))]
        return cls(mean, np.ascontiguousarray(np.concatenate(parts, 1), np.float32))

    def __call__(self, rows: Array) -> Array:
        side = 1 / np.sqrt(np.float32(self.directions.shape[1]))
        return np.where((rows - self.mean) @ self.directions > 0, side, -side).astype(np.float32)

    def bytes(self, dim: int) -> int:
        return self.directions.shape[1] // 8


@dataclass(frozen=True)
class Products:
    """Product quantisation (Jegou et al. 2011): each part of a row is the nearest of 256 centroids, one byte."""

    centroids: Array  # (parts, CENTROIDS, D / parts)
    keeps_ratio: ClassVar[bool] = True

    @classmethod
    def check(cls, width: int, size: int) -> None:
        need("faiss", "faiss", "learning a product code")
        if not 0 < size <= width or width % size:
            raise BadInput(f"the {width} numbers of a descriptor do not fall into {size} equal parts.")

    @classmethod
    def fit(cls, rows: Array, size: int) -> Self:
        faiss = need("faiss", "faiss", "learning a product code")
        if len(rows) < CENTROIDS:
            raise BadInput(f"a product code needs {CENTROIDS} descriptors or more to learn from, got {len(rows)}.")
        quantizer = faiss.ProductQuantizer(rows.shape[1], size, 8)
        quantizer.train(np.ascontiguousarray(rows, np.float32))
        return cls(faiss.vector_to_array(quantizer.centroids).reshape(size, CENTROIDS, -1).copy())

    def __call__(self, rows: Array) -> Array:
        parts = np.split(rows, len(self.centroids), axis=1)
        found = [
            centres[np.argmax(part @ centres.T - (centres**2).sum(1) / 2, axis=1)]
            for part, centres in zip(parts, self.centroids, strict=True)
        ]
        return _unit(np.concatenate(found, 1))

    def bytes(self, dim: int) -> int:
        return len(self.centroids)


CODES: dict[str, type[Any]] = {
    "pca": Directions,
    "float16": Halves,
    "int8": Integers,
    "bits": Bits,
    "pq": Products,
}


def parse(name: str) -> tuple[str, int]:
    """A code by its name and size: pca64 -> ("pca", 64); float16 and int8 have no size."""
    found = re.fullmatch(r"(pca|bits|pq)([0-9]{1,5})", name)
    if name in ("float16", "int8"):
        return name, 0
    if found is None:
        raise BadInput(f"no code {name!r}; choose float16, int8, or pca, bits or pq with a number, such as pca64.")
    return found[1], int(found[2])


def _quantised(centred: Array, bits: int, rng: np.random.Generator) -> Array:
    """(D, bits): PCA, then the rotation that brings signs nearest to what they stand for."""
    _, directions = np.linalg.eigh(np.cov(centred.T))
    basis = directions[:, ::-1][:, :bits]
    reduced = centred @ basis
    rotation, _ = np.linalg.qr(rng.normal(size=(bits, bits)))
    for _ in range(ROUNDS):
        left, _, right = np.linalg.svd(np.sign(reduced @ rotation).T @ reduced)
        rotation = (left @ right).T
    return basis @ rotation


def _unit(rows: Array) -> Array:
    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32)
