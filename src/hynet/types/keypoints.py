"""Places in a photo with scale and direction; the shapes of OpenCV and kornia."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import BadInput
from ..runtime.arrays import Array

# Full width of our patches in detector sigmas (patches.SUPPORT_SIGMAS), which kornia's frames span
LAF_SUPPORT = 24.0


@dataclass(frozen=True)
class Keypoints:
    """Local frames [A | xy]: A takes the unit circle to the region of ONE detector sigma around xy."""

    frames: Array  # (N, 2, 3) float32
    scores: Array  # (N,) float32, higher is better

    def __post_init__(self) -> None:
        frames = _numbers(
            self.frames, "frames", "Keypoints.from_circles takes positions, sizes and angles, from_cv2 those of OpenCV"
        )
        scores = _numbers(self.scores, "scores", "give one number per keypoint")
        if frames.ndim != 3 or frames.shape[1:] != (2, 3) or scores.shape != frames.shape[:1]:
            raise BadInput(f"frames must be (N, 2, 3) with one score each, got {frames.shape} and {scores.shape}.")
        if not (np.isfinite(frames).all() and np.isfinite(scores).all()):
            raise BadInput("keypoints must be finite numbers, and some are NaN or infinite; leave those out.")
        object.__setattr__(self, "frames", frames)
        object.__setattr__(self, "scores", scores)

    @classmethod
    def from_circles(cls, xy: ArrayLike, sigma: ArrayLike, angle: ArrayLike, scores: ArrayLike) -> Keypoints:
        """Make keypoints from positions (N, 2) and detector sigmas (N,) in pixels and angles (N,) in radians."""
        xy = np.asarray(xy, np.float64)
        sigma = np.asarray(sigma, np.float64)
        angle = np.asarray(angle, np.float64)
        cos, sin = sigma * np.cos(angle), sigma * np.sin(angle)
        frames = np.stack([np.stack([cos, -sin, xy[:, 0]], -1), np.stack([sin, cos, xy[:, 1]], -1)], 1)
        return cls(frames.astype(np.float32), np.asarray(scores, np.float32))

    @classmethod
    def from_cv2(cls, keypoints: Sequence[Any]) -> Keypoints:
        """Make keypoints from a list of cv2.KeyPoint: sigma is half the size; one without an angle is upright."""
        try:
            rows = [(*point.pt, point.size / 2, max(point.angle, 0.0), point.response) for point in keypoints]
        except (TypeError, AttributeError):
            raise BadInput(f"from_cv2 takes a list of cv2.KeyPoint, got {type(keypoints).__name__}.") from None
        x, y, sigma, degrees, scores = np.array(rows, np.float64).reshape(-1, 5).T
        return cls.from_circles(np.column_stack([x, y]), sigma, np.radians(degrees), scores)

    def to_cv2(self) -> list[Any]:
        """Return a list of cv2.KeyPoint, which are circles: an ellipse becomes the circle of its area."""
        import cv2  # here, since few need it and all start with this module

        columns = (*self.xy.T, 2 * self.sigma, np.degrees(self.angle) % 360, self.scores)
        return [cv2.KeyPoint(*map(float, row)) for row in zip(*columns, strict=True)]

    @classmethod
    def from_lafs(cls, lafs: Any, scores: ArrayLike | None = None, *, support: float = LAF_SUPPORT) -> Keypoints:
        """Make keypoints from kornia's local affine frames, (1, N, 2, 3) or (N, 2, 3); a tensor or an array.

        support: width in sigmas of the square that a frame spans, as for `to_lafs`.
        """
        frames = np.array(lafs.detach().cpu().numpy() if hasattr(lafs, "detach") else lafs, np.float32)
        if frames.ndim == 4 and len(frames) == 1:
            frames = frames[0]
        if frames.ndim == 3 and frames.shape[1:] == (2, 3):
            frames[:, :, :2] /= support / 2
        return cls(
            frames, np.ones(len(frames), np.float32) if scores is None else np.asarray(scores, np.float32).ravel()
        )

    def to_lafs(self, *, support: float = LAF_SUPPORT) -> Array:
        """Return kornia's local affine frames, (1, N, 2, 3) float32; torch.from_numpy makes them a tensor.

        support: width in sigmas of the patches that kornia is to cut; by default that of ours.
        """
        frames = self.frames.copy()
        frames[:, :, :2] *= support / 2
        return frames[None]

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, rows: Any) -> Keypoints:
        """The chosen keypoints: a slice, a mask or an array of rows."""
        return Keypoints(self.frames[rows], self.scores[rows])

    @property
    def xy(self) -> Array:
        """(N, 2) positions in pixels."""
        return self.frames[:, :, 2]

    @property
    def sigma(self) -> Array:
        """(N,) radius of the circle with the region's area, in pixels."""
        A = self.frames[:, :, :2]
        return np.sqrt(np.abs(A[:, 0, 0] * A[:, 1, 1] - A[:, 0, 1] * A[:, 1, 0]))

    @property
    def angle(self) -> Array:
        """(N,) direction of the frame's first axis, in radians."""
        return np.arctan2(self.frames[:, 1, 0], self.frames[:, 0, 0])


def _numbers(values: Any, what: str, hint: str) -> Array:
    """Convert to float32; people pass the results of other libraries, and a sentence says what to pass instead."""
    try:
        return np.ascontiguousarray(values, np.float32)
    except (TypeError, ValueError):
        raise BadInput(f"{what} must be an array of numbers, got {type(values).__name__}; {hint}.") from None
