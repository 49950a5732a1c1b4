"""The result of matching two photos, with pictures of it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import BadInput
from ..geometry.estimators import Fit
from ..types import Array, Features, Matches

if TYPE_CHECKING:  # Pillow and the drawing are needed for pictures only
    from ..images.drawing import Words

Shown = Literal["matches", "keypoints", "patches"]

PATCHES_SHOWN = 64
UNCLEAR = 0.1, 0.5  # probabilities between which photos perhaps show one place


@dataclass(frozen=True, repr=False)
class MatchedPhotos:
    """Two photos, their features and matches, and the geometry of the two. A notebook shows it as a picture."""

    photos: tuple[Array, Array]  # (H, W) grey each
    features: tuple[Features, Features]
    matches: Matches
    geometry: Fit  # named "none" where the matches were not verified; then all of them count as inliers
    overlap: float | None  # probability that the photos show one place; None: not known
    seconds: Mapping[str, float]  # by stage
    patch_size: int  # pixels a side, and ...
    support: float  # ... sigmas a side, of the patches that were described

    @property
    def inliers(self) -> Matches:
        """The matches that agree on the geometry."""
        return self.geometry.inliers

    @property
    def is_inlier(self) -> Array:
        """(K,) bool, a flag for each match."""
        return self.geometry.is_inlier

    def points(self, matches: Matches) -> Array:
        """(K, 4) pixels of matches in the two photos: x1, y1, x2, y2."""
        return np.column_stack(matches.places(*self.features)).astype(np.float64)

    def draw(self, show: Shown = "matches") -> Array:
        """Draw the matches, the keypoints, or the patches that were matched: (H, W, 3) uint8."""
        from ..images import drawing
        from ..images.patches import cut

        keypoints = self.features[0].keypoints, self.features[1].keypoints
        sizes = [each.image_size for each in self.features]
        if show not in ("matches", "keypoints", "patches"):
            raise BadInput(f"cannot show {show!r}; choose matches, keypoints or patches.")
        if show != "patches":
            with ThreadPoolExecutor(2) as both:
                pictures = list(both.map(drawing.picture_of, self.features))
        if show == "keypoints":
            counts = " and ".join(str(len(each)) for each in keypoints)
            words = [(f"{counts} keypoints, the strongest shown", drawing.INK)]
            return drawing.keypoints(pictures, keypoints, words, sizes=sizes)
        if show == "matches":
            return drawing.matches(pictures, keypoints, self.matches, self.is_inlier, self._caption(), sizes=sizes)
        order = np.argsort(self.matches.distances, kind="stable")
        # Evenly from the nearest to the farthest: the nearest alone would all look alike.
        some = order[np.linspace(0, len(order) - 1, min(len(order), PATCHES_SHOWN)).astype(int)]
        first, second = (
            cut(photo, points[self.matches.indices[some, side]], self.patch_size, self.support)
            for side, (photo, points) in enumerate(zip(self.photos, keypoints, strict=True))
        )
        caption = [*self._caption(), (", nearest first", drawing.FAINT)]
        return drawing.patches(first, second, self.is_inlier[some], caption)

    def _caption(self) -> Words:
        """Number of matches, verdict and place; green only where the photos are known to show one place."""
        from ..images import drawing

        counted = f"{len(self.matches)} matches, "
        if self.overlap is None:
            return [(f"{counted}{self.verdict}; ", drawing.INK), (self.place, drawing.FAINT)]
        if self.overlap < UNCLEAR[1]:
            return [(f"{self.place}: ", drawing.RED), (f"{counted}{self.verdict}", drawing.FAINT)]
        return [(counted, drawing.INK), (self.verdict, drawing.GREEN)]

    def save(self, path: str | Path, show: Shown = "matches") -> None:
        """Save the picture as PNG, JPEG or WebP, by the ending of the name."""
        from ..images import drawing

        drawing.save(self.draw(show), path)

    @property
    def place(self) -> str:
        """A phrase that says whether the photos show one place."""
        if self.overlap is None:
            return "not known whether this is one place"
        if self.overlap < UNCLEAR[0]:
            return "not the same place"
        return "perhaps the same place" if self.overlap < UNCLEAR[1] else "the same place"

    @property
    def verdict(self) -> str:
        """The number of inliers in words."""
        return "not verified" if self.geometry.name == "none" else f"{len(self.inliers)} inliers"

    def __repr__(self) -> str:
        return f"<{len(self.matches)} matches, {self.verdict}>"

    def _repr_png_(self) -> bytes:
        """Show the picture in a notebook."""
        from PIL import Image

        content = io.BytesIO()
        Image.fromarray(self.draw()).save(content, "png")
        return content.getvalue()
