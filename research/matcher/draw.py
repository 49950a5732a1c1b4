"""Draws pairs of shards with their labels: green what is right, red some of what is wrong, grey what is not known.

python -m research.matcher.draw SHARDS DATA OUT --count 30
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np

from . import shards
from .examples import RIGHT, UNKNOWN, Pool, labels, points
from .hynet_paths import Array
from .network import prepare
from .pairs import image_of, photos_to_train_on
from .shards import Seen, Truth

HEIGHT = 420
LINES = 60
COLOURS = {RIGHT: (60, 200, 60), UNKNOWN: (170, 170, 170), 0: (60, 60, 230)}


def drawn(a: Seen, b: Seen, truth: Truth, data: Path) -> Array:
    """Two photos side by side, lines between candidates."""
    random, photos = np.random.default_rng(0), photos_to_train_on(data)
    rows = [np.arange(len(seen)) for seen in (a, b)]
    model = "light"
    vectors = [shards.decode(seen.codes[model]) for seen in (a, b)]
    edges = prepare(*vectors, points(a, rows[0]), points(b, rows[1])).edges
    known = labels(edges, a, b, rows[0], rows[1], truth)
    sides, scales = [], []
    for seen in (a, b):
        image = image_of(seen, data, photos)
        scales.append(HEIGHT / image.shape[0])
        small = cv2.resize(image, None, fx=scales[-1], fy=scales[-1], interpolation=cv2.INTER_AREA)
        sides.append(cv2.cvtColor(small, cv2.COLOR_GRAY2BGR))
    canvas = np.hstack(sides)
    shift = np.array([sides[0].shape[1], 0])
    counts = {name: int((known == value).sum()) for name, value in (("right", 1), ("wrong", 0), ("unknown", -1))}
    for value, most in ((UNKNOWN, 15), (0, 12), (RIGHT, LINES)):
        every = np.flatnonzero((known == value) & (edges.mutual if value != RIGHT else True))
        for edge in random.permutation(every)[:most]:
            one = a.xy[edges.i[edge]] * scales[0]
            two = b.xy[edges.j[edge]] * scales[1] + shift
            ends = [tuple(int(each) for each in np.rint(place)) for place in (one, two)]
            cv2.line(canvas, *ends, COLOURS[value], 1, cv2.LINE_AA)
            for end, seen, row, scale in zip(ends, (a, b), (edges.i, edges.j), scales, strict=True):
                radius = int(np.clip(3 * seen.sigma[row[edge]] * scale, 2, 30))
                cv2.circle(canvas, end, radius, COLOURS[value], 1, cv2.LINE_AA)
    words = f"{truth.kind} {a.source} {b.source} positives {len(truth.positives)} {counts} upright {a.upright}"
    cv2.putText(canvas, words, (6, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (0, 0, 0), 3, cv2.LINE_AA)
    cv2.putText(canvas, words, (6, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (255, 255, 255), 1, cv2.LINE_AA)
    return canvas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not any(options.shards.glob("*.npz")):
        parser.error(f"no shards in {options.shards}; research.matcher.pairs makes them.")
    options.out.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(options.seed)
    pool = Pool(options.shards)
    odds = {kind: share for kind, share in {"real": 0.5, "made": 0.4, "poor": 0.1}.items() if kind in pool.of_kind}
    for number in range(options.count):
        found = pool.of_kind[str(random.choice(list(odds), p=np.array(list(odds.values())) / sum(odds.values())))]
        row, truths = found[random.integers(len(found))]
        truth = truths[random.integers(len(truths))]
        a, b = (pool.shards[row].photos[each] for each in truth.photos)
        cv2.imwrite(str(options.out / f"{number:02d}.png"), drawn(a, b, truth, options.data))


if __name__ == "__main__":
    main()
