"""Photo -> Seen: keypoints found once, described by several models, upright and turned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .hynet_paths import Array, Extractor, Keypoints, best_rows, peaks
from .shards import Seen, encode

MODELS = ("light", "default")


def extractors(models: Sequence[str], keypoints: int = 4096) -> dict[str, Extractor]:
    return {model: Extractor(model=model, max_keypoints=keypoints, orientation="upright") for model in models}


def described(image: Array, keypoints: Keypoints, models: Mapping[str, Extractor]) -> dict[str, Array]:
    """The 8-bit descriptors of the keypoints by each model."""
    return {name: encode(model.describe(image, keypoints).descriptors) for name, model in models.items()}


def turned(image: Array, keypoints: Keypoints) -> tuple[Array, Array]:
    """Rows of upright keypoints, some twice, and the angles that `Extractor` turns them by."""
    parts = [peaks(image, keypoints[start : start + 512]) for start in range(0, len(keypoints), 512)]
    rows = np.concatenate([rows + 512 * part for part, (rows, _) in enumerate(parts)])
    return rows, np.concatenate([angles for _, angles in parts])


def circles(seen: Seen) -> Keypoints:
    return Keypoints.from_circles(seen.xy, seen.sigma, seen.angle, seen.scores)


def strongest_rows(xy: Array, sigma: Array, scores: Array, count: int, shape: tuple[int, ...]) -> Array:
    """Rows of the keypoints that the detector keeps of a photo (H, W), spread over it, when asked for fewer."""
    return best_rows(xy, scores * np.sqrt(sigma), count, shape)


def strongest(keypoints: Keypoints, count: int, shape: tuple[int, ...]) -> Keypoints:
    return keypoints[strongest_rows(keypoints.xy, keypoints.sigma, keypoints.scores, count, shape)]
