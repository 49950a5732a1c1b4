"""Training pairs on disk: a shard is an .npz of photos (keypoints, 8-bit descriptors) and pairs with their truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .hynet_paths import Array, atomic_write

LARGEST = 0.5  # number of a descriptor: 127 in 8 bits. Those of 128 numbers rarely have one above.
COLUMNS = ("xy", "sigma", "angle", "scores", "rays")


@dataclass(frozen=True)
class Seen:
    """Keypoints of one photo, their descriptors by model, and where the photo comes from."""

    source: str  # SCENE/PHOTO
    size: tuple[int, int]  # width, height
    xy: Array  # (N, 2) float32
    sigma: Array  # (N,)
    angle: Array  # (N,) radians; all 0: upright
    scores: Array  # (N,)
    rays: Array  # (N, 2) at depth one, without distortion; of a made view its pixels once more
    focal: float = 1.0
    codes: Mapping[str, Array] = field(default_factory=dict)  # model -> (N, 128) int8
    view: int = -1  # seed of a made view; -1: the photo as it is

    def __len__(self) -> int:
        return len(self.xy)

    @property
    def upright(self) -> bool:
        return not self.angle.any()


@dataclass(frozen=True)
class Truth:
    """What is known of a pair of a shard's photos."""

    photos: tuple[int, int]
    kind: str  # real, poor, made
    positives: Array  # (K, 2) rows of the two photos
    geometry: Array  # (3, 3) of a made pair second_from_first, else rays of the first to lines of the second


@dataclass(frozen=True)
class Shard:
    photos: Sequence[Seen]
    pairs: Sequence[Truth]


def encode(descriptors: Array) -> Array:
    return np.rint(np.clip(descriptors / LARGEST, -1, 1) * 127).astype(np.int8)


def decode(codes: Array) -> Array:
    """Unit rows again, float32."""
    rows = codes.astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def save(path: Path, shard: Shard) -> None:
    """Write the shard, whole or not at all."""
    photos, pairs = shard.photos, shard.pairs
    columns = {
        "source": np.array([photo.source for photo in photos]),
        "size": np.array([photo.size for photo in photos]),
        "focal": np.array([photo.focal for photo in photos]),
        "view": np.array([photo.view for photo in photos]),
        "count": np.array([len(photo) for photo in photos]),
        "pairs": np.array([truth.photos for truth in pairs], np.int64).reshape(-1, 2),
        "kind": np.array([truth.kind for truth in pairs]),
        "geometry": np.array([truth.geometry for truth in pairs]),
        "positive_count": np.array([len(truth.positives) for truth in pairs], np.int64),
        "positives": np.concatenate(
            [np.zeros((0, 2), np.int32), *(truth.positives.astype(np.int32) for truth in pairs)]
        ),
    }
    for name in COLUMNS:
        columns[name] = np.concatenate([getattr(photo, name).astype(np.float32) for photo in photos])
    for model in sorted({model for photo in photos for model in photo.codes}):
        has = [model in photo.codes for photo in photos]
        columns[f"has_{model}"] = np.array(has)
        columns[f"codes_{model}"] = np.concatenate([photo.codes[model] for photo in photos if model in photo.codes])
    with atomic_write(path) as temporary:
        np.savez(temporary, **columns)


def load(path: Path) -> Shard:
    with np.load(path) as stored:
        columns = {name: stored[name] for name in stored.files}
    ends = np.cumsum(columns["count"])
    codes: list[dict[str, Array]] = [{} for _ in ends]
    for name in columns:
        if name.startswith("has_"):
            model, start = name.removeprefix("has_"), 0
            for row in np.flatnonzero(columns[name]):
                codes[row][model] = columns[f"codes_{model}"][start : start + columns["count"][row]]
                start += columns["count"][row]
    photos = []
    for row, end in enumerate(ends):
        part = slice(end - columns["count"][row], end)
        width, height = columns["size"][row].tolist()
        points = (columns[name][part] for name in COLUMNS)
        focal, view = float(columns["focal"][row]), int(columns["view"][row])
        photos.append(Seen(str(columns["source"][row]), (width, height), *points, focal, codes[row], view))
    stops = np.cumsum(columns["positive_count"])
    pairs = []
    for row, stop in enumerate(stops):
        first, second = columns["pairs"][row].tolist()
        positives = columns["positives"][stop - columns["positive_count"][row] : stop]
        pairs.append(Truth((first, second), str(columns["kind"][row]), positives, columns["geometry"][row]))
    return Shard(photos, pairs)
