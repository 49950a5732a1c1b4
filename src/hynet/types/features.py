"""Keypoints of one photo with their descriptors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadData, BadInput
from ..runtime.arrays import Array, load_arrays, save_arrays
from .keypoints import Keypoints


@dataclass(frozen=True, repr=False)
class Features:
    """Keypoints of one photo with their descriptors, and settings that suit these."""

    keypoints: Keypoints
    descriptors: Array  # (N, D) float32 unit rows
    image_size: tuple[int, int]  # (width, height) of the original photo
    ratio: float | None = None  # the ratio test that suits the descriptor: the default of `match`
    # geometry -> pixels within which a match is an inlier, as calibrated: the default of `verify`
    thresholds: Mapping[str, float] = field(default_factory=dict)
    focal: float | None = None  # of the camera, in pixels of the original photo, where it is known
    # Shown by `hynet.draw`: its path, or a small copy (H, W, 3) where it was not a file. Not saved.
    photo: Path | Array | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.keypoints, Keypoints):
            raise BadInput(
                f"features need Keypoints, got {type(self.keypoints).__name__}; Keypoints.from_circles makes them."
            )
        descriptors = np.asarray(self.descriptors)
        if descriptors.ndim != 2 or len(descriptors) != len(self.keypoints) or descriptors.dtype.kind not in "fiu":
            raise BadInput(f"{len(self.keypoints)} keypoints need as many descriptors, got {descriptors.shape}.")
        if not np.isfinite(descriptors).all():
            raise BadInput(
                "descriptors must be finite numbers, and some are NaN or infinite; check the model's weights."
            )
        if len(self.image_size) != 2 or not all(0 < side < 2**31 for side in self.image_size):  # nor is NaN
            raise BadInput(f"image_size must be the width and height of the photo, got {self.image_size}.")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise BadInput(f"the ratio must be above 0 and at most 1, got {self.ratio:g}.")

    def __len__(self) -> int:
        return len(self.keypoints)

    def __getitem__(self, rows: Any) -> Features:
        """The chosen features: a slice, a mask or an array of rows."""
        return replace(self, keypoints=self.keypoints[rows], descriptors=self.descriptors[rows])

    def save(self, path: str | Path) -> None:
        """Save to one .npz file; `Features.load` reads it. `hynet extract` saves those of many photos."""
        columns = {
            "frames": self.keypoints.frames,
            "scores": self.keypoints.scores,
            "descriptors": self.descriptors,
            "image_size": np.array(self.image_size),
            "ratio": self.ratio,
            "thresholds": np.array(json.dumps(dict(self.thresholds))),
            "focal": self.focal,
        }
        save_arrays(path, "Features", columns)

    @classmethod
    def load(cls, path: str | Path) -> Features:
        """Load a file that `save` wrote."""
        columns = load_arrays(path, "Features")
        try:
            width, height = (int(side) for side in columns["image_size"])
            ratio, focal = (float(columns[name]) if name in columns else None for name in ("ratio", "focal"))
            thresholds = {str(name): float(pixels) for name, pixels in json.loads(str(columns["thresholds"])).items()}
            keypoints = Keypoints(columns["frames"], columns["scores"])
            return cls(keypoints, columns["descriptors"], (width, height), ratio, thresholds, focal)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise BadData(f"{path} holds features that cannot be used ({error}); save them again.") from None

    def __repr__(self) -> str:
        count, dim = self.descriptors.shape
        return f"<{count} features of {dim} numbers, in a photo of {self.image_size[0]} x {self.image_size[1]} pixels>"

    def _repr_html_(self) -> str:
        """Show the keypoints in a notebook."""
        from . import showing

        points = self.keypoints
        name = self.photo.name if isinstance(self.photo, Path) else "a photo"
        words = f"{len(self)} features of {self.descriptors.shape[1]} numbers, in {name}"
        return showing.keypoints(points.xy, points.sigma, points.scores, self.image_size, words)


def need_features(*given: Any) -> None:
    """Raise BadInput, with a hint for arrays, unless all are Features."""
    for each in given:
        if not isinstance(each, Features):
            raise BadInput(
                f"matching needs hynet.Features, got {type(each).__name__}; hynet.Extractor makes them from a photo, "
                "and hynet.Features(keypoints, descriptors, image_size) from arrays."
            )
