"""Neighbours of many vectors, found as `hynet pairs` does: seconds, memory and recall as JSON, for research/scale.py.

Usage: python research/scale_vectors.py COUNT VECTORS.npy

So many unit vectors are made by perturbing those in the file, real ones, each by noise of 0.2 to 1 times its length.
Recall is of the 50 true neighbours of 1,000 of them. It runs in a process of its own, whose memory is that of this
number of vectors.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np

from hynet.runtime.machine import cores
from hynet.sfm import retrieval as neighbours

NEIGHBOURS, QUERIES = 50, 1000
TOGETHER = 10_000  # vectors made at once


def perturbed(real: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """(V, n) unit rows -> (count, n) unit rows."""
    vectors = np.empty((count, real.shape[1]), np.float32)
    for start in range(0, count, TOGETHER):
        some = real[rng.integers(len(real), size=min(TOGETHER, count - start))]
        noise = rng.normal(size=some.shape) / np.sqrt(some.shape[1]) * rng.uniform(0.2, 1, (len(some), 1))
        moved = some + noise
        vectors[start : start + len(some)] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return vectors


def recall(vectors: np.ndarray, found: np.ndarray, queries: np.ndarray) -> float:
    """The share of the true neighbours that are among those found."""
    shares = []
    for query in queries:
        similar = vectors @ vectors[query]
        similar[query] = -np.inf
        true = np.argpartition(-similar, NEIGHBOURS)[:NEIGHBOURS]
        shares.append(len(set(true.tolist()) & set(found[query].tolist())) / NEIGHBOURS)
    return float(np.mean(shares))


class Told:
    """Progress on stderr, once a minute."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, done: int, total: int, what: str) -> None:
        if time.monotonic() - self._last > 60:
            self._last = time.monotonic()
            print(f"  {what}: {done:,} of {total:,}", file=sys.stderr, flush=True)


def most_memory() -> float:
    """MB that were resident at the peak so far, in this process or the largest that it started."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e3


def main(count: int, vectors_file: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = perturbed(np.load(vectors_file), count, rng)
    before, began, used = most_memory(), time.monotonic(), time.process_time()
    found, _ = neighbours.most_similar(vectors, NEIGHBOURS, progress=Told())
    told = {
        "seconds": time.monotonic() - began,
        "processor_seconds": time.process_time() - used,
        "vectors": vectors.nbytes / 1e6,
        "before": before,
        "peak": most_memory(),
        "recall": recall(vectors, found, rng.choice(count, QUERIES, replace=False)),
        "exact": count <= neighbours.EXACT,
        "threads": int(os.environ.get("OMP_NUM_THREADS") or len(cores())),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("vectors_file", type=Path)
    main(**vars(parser.parse_args()))
