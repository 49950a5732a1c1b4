"""Whether products in 8 bits pay in matching: processor time of mutual nearest neighbours with runner-ups, in floats as
`hynet.match` finds them, and from an 8-bit product of ONNX Runtime.

Usage: OMP_NUM_THREADS=1 python research/integer_products.py A.jpg B.jpg [--model light] [--keypoints 2048 10000]
       python research/integer_products.py --write src/hynet/matching/product.onnx

"best two": of each row the best two of the 8-bit product, in the order of their products in floats; a better one may be
missed. "certain": of each row as many as --listed, and whatever the rounding could hide is computed in floats, so that
the answers are those of the floats. With a = q + e, where q is what 8 bits hold of a,

    a.b = q.r + e.r + q.f + e.f,   |e.r| <= |e| sqrt(|r|^2 - (q.r)^2 / |q|^2) + |q.r| |e.q| / |q|^2

since only the part of r that is perpendicular to q can meet the part of e that is; q.f likewise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
from onnx import helper

import hynet
from hynet.matching.nearest import nearest
from hynet.matching.rounded import LEFT
from hynet.runtime.onnx_runtime import session

TILE = 2**22  # numbers of the product at once
ROUNDS = 7
LOWEST = np.iinfo(np.int32).min


@dataclass(frozen=True)
class Quantised:
    """Rows (N, D) as scale * codes, and what of them is lost at most."""

    codes: np.ndarray  # (N, D) whole numbers from -127 to 127, as floats
    scale: float
    error: float  # length
    along: float  # the part of the error that points along the row, of the row's length
    norm: float  # of a row as it is held

    @classmethod
    def of(cls, rows: np.ndarray) -> Quantised:
        scale = np.float32(np.abs(rows).max() / 127)
        codes = np.rint(rows / scale)
        held = codes * scale
        lost = rows - held
        squares = np.einsum("nd,nd->n", held, held)
        along = np.abs(np.einsum("nd,nd->n", lost, held)) / np.maximum(squares, 1e-12)
        tiny = 1e-6  # for the rounding of these floats themselves
        error = np.sqrt(np.einsum("nd,nd->n", lost, lost).max())
        return cls(codes, float(scale), float(error) + tiny, float(along.max()) + tiny, float(squares.max() ** 0.5))


def product_model(middle: int) -> bytes:
    """uint8 around the middle times int8, which is fast in ONNX Runtime: two signed ones take ten times as long."""
    kind, make = onnx.TensorProto, helper.make_tensor_value_info
    takes = [make("a", kind.UINT8, ["n", "d"]), make("b", kind.INT8, ["d", "m"])]
    zero = helper.make_tensor("zero", kind.UINT8, [], [middle])
    node = helper.make_node("MatMulInteger", ["a", "b", "zero"], ["c"])
    graph = helper.make_graph([node], "product", takes, [make("c", kind.INT32, ["n", "m"])], [zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString()


SESSION = session(product_model(128), threads=1)


def products(a: Quantised, b: Quantised) -> Any:
    """Tiles of the 8-bit product, each with the row it begins at."""
    left, right = (a.codes + 128).astype(np.uint8), np.ascontiguousarray(b.codes.astype(np.int8).T)
    rows = max(64, TILE // right.shape[1])
    for start in range(0, len(left), rows):
        yield start, SESSION.run(None, {"a": left[start : start + rows], "b": right})[0]


def best_listed(a: Quantised, b: Quantised, listed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns and products (N, listed) of each row's best, and the best product of each column besides them (M,)."""
    columns, values = np.empty((len(a.codes), listed), np.int64), np.empty((len(a.codes), listed), np.int32)
    besides = np.full(len(b.codes), LOWEST, np.int32)
    for start, tile in products(a, b):
        rows, here = np.arange(len(tile)), slice(start, start + len(tile))
        for place in range(listed):
            best = tile.argmax(1)
            columns[here, place], values[here, place] = best, tile[rows, best]
            tile[rows, best] = LOWEST
        np.maximum(besides, tile.max(0), out=besides)
    return columns, values, besides


def best_two(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest and runner-up of each row (N,), probably; the columns' side is not even looked at."""
    columns, _, _ = best_listed(Quantised.of(first), Quantised.of(second), 2)
    exact = np.einsum("nd,nkd->nk", first, second[columns])
    order = np.argsort(-exact, axis=1, kind="stable")
    best, runner_up = np.take_along_axis(columns, order, 1).T
    return best, runner_up


def certain(first: np.ndarray, second: np.ndarray, listed: int) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Mutual pairs (K, 2), their runner-ups (K,), and the shares of rows and columns that floats had to decide."""
    a, b = Quantised.of(first), Quantised.of(second)
    unit = a.scale * b.scale

    def bound(t: np.ndarray) -> np.ndarray:
        across = a.error * np.sqrt(np.maximum(0, b.norm**2 - (t / a.norm) ** 2))
        across += b.error * np.sqrt(np.maximum(0, a.norm**2 - (t / b.norm) ** 2))
        return across + (a.along + b.along) * np.abs(t) + a.error * b.error

    most = float(bound(np.zeros(1))[0]) + (a.along + b.along) * a.norm * b.norm

    def reach(values: np.ndarray) -> np.ndarray:
        """The least product that may truly be as large as those."""
        t = values * unit
        return np.floor((t - bound(t) - bound(np.maximum(t - 2 * most, 0))) / unit)

    columns, values, besides = best_listed(a, b, listed)
    top = besides.copy()
    np.maximum.at(top, columns.ravel(), values.ravel())
    as_best, as_second, for_column = reach(values[:, 0]), reach(values[:, 1]), reach(top)
    both = (values >= as_best[:, None]) & (values >= for_column[columns])  # may be a mutual pair
    may_match = both.any(1) | (values[:, -1] >= as_best)
    open_rows = np.flatnonzero(may_match & (values[:, -1] >= as_second))  # more than are listed may be the best two
    wanted = np.zeros(len(second), bool)
    wanted[columns[both]] = True
    needed = (may_match[:, None] & (values >= as_second[:, None])) | (wanted[columns] & (values >= for_column[columns]))
    i, k = np.nonzero(needed)
    exact = np.full(columns.shape, -np.inf)
    exact[i, k] = np.einsum("nd,nd->n", first[i], second[columns[i, k]])
    order = np.argsort(-exact, axis=1, kind="stable")[:, :2]
    best, runner_up = np.take_along_axis(columns, order, 1).T
    two, _, _ = best_of_floats(first[open_rows], second)
    best[open_rows], runner_up[open_rows] = two.T

    rows = np.flatnonzero(may_match)
    score = np.einsum("nd,nd->n", first[rows], second[best[rows]])
    top_exact = np.full(len(second), -np.inf)
    np.maximum.at(top_exact, columns[i, k], exact[i, k])
    np.maximum.at(top_exact, best[rows], score)
    t, top_t = besides * unit, top * unit
    unsure = np.zeros(len(second), bool)
    unsure[best[rows]] = (t + bound(t) >= top_exact)[best[rows]]
    rows = rows[score >= np.maximum(top_exact, top_t - bound(top_t))[best[rows]]]
    open_columns = np.flatnonzero(unsure)
    back = np.full(len(second), -1)
    back[open_columns] = (second[open_columns] @ first.T).argmax(1)
    rows = rows[~unsure[best[rows]] | (back[best[rows]] == rows)]
    shares = {"rows": len(open_rows) / len(first), "columns": len(open_columns) / len(second)}
    return np.column_stack([rows, best[rows]]), runner_up[rows], shares


def best_of_floats(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    best, runner_up, back = nearest(first, second)
    return np.column_stack([best, runner_up]), best, back


def milliseconds(act: Callable[..., object], *values: Any) -> float:
    """Of processor time, the median."""
    act(*values)
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        act(*values)
        taken.append(1e3 * (time.process_time() - start))
    return median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", nargs="*")
    parser.add_argument("--write", type=Path, help="the product that src/hynet/matching/product.onnx holds")
    parser.add_argument("--model", default="light")
    parser.add_argument("--keypoints", type=int, nargs="+", default=[2048, 10_000])
    parser.add_argument("--listed", type=int, default=8)
    asked = parser.parse_args()
    if asked.write:
        asked.write.write_bytes(product_model(LEFT + 1))
        return
    print("| keypoints | floats, ms | 8-bit product alone | best two | certain | rows, columns in floats | the same |")
    print("|---|---|---|---|---|---|---|")
    for count in asked.keypoints:
        extract = hynet.Extractor(model=asked.model, max_keypoints=count, orientation="upright")
        first, second = (extract(photo).descriptors for photo in asked.photos)
        pairs, runners, shares = certain(first, second, asked.listed)
        best, runner_up, back = nearest(first, second)
        rows = np.flatnonzero(back[best] == np.arange(len(first)))
        same = np.array_equal(pairs, np.column_stack([rows, best[rows]])) and np.array_equal(runners, runner_up[rows])
        times = [
            milliseconds(nearest, first, second),
            milliseconds(lambda *codes: [0 for _ in products(*codes)], Quantised.of(first), Quantised.of(second)),
            milliseconds(best_two, first, second),
            milliseconds(certain, first, second, asked.listed),
        ]
        cells = [f"{len(first):,} x {len(second):,}", *(f"{each:.1f}" for each in times)]
        cells += [f"{shares['rows']:.0%}, {shares['columns']:.0%}", "yes" if same else "no"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
