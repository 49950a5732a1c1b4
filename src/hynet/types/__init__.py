"""The nouns that flow through the package. Read this first.

Pixels everywhere: (x, y), the CENTRE of the top-left pixel is (0, 0), y points down, angles turn from x towards y.
Letters everywhere: N keypoints or pairs, D descriptor size, P patches, S patch side, K matches, H and W pixels.
All values are frozen and checked once, when they are made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import BadData, BadInput
from . import showing, storing
from .table import Table as Table

Array = NDArray[Any]
Pair = tuple[str, str]  # the names of two photos

# Points found in one image nearer to each other than this may be one thing, found twice (Winder and Brown, 2007).
DIFFERENT_PIXELS = 10.0

# Full width of our patches in detector sigmas (patches.SUPPORT_SIGMAS), which kornia's frames span
LAF_SUPPORT = 24.0

# How long work reports itself: progress(done, total, what). The library never prints; the command line draws a bar.
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, what: str) -> None:
    """The default progress: nobody is watching."""


@dataclass(frozen=True)
class PatchSet:
    """Grey patches and which of them show the same 3-D point. `patches` may be memory-mapped."""

    patches: Array  # (P, S, S) uint8
    points: Array  # (P,) int64; same number = same 3-D point
    images: Array | None = None  # (P,) reference image: two points of one image are certainly different
    scenes: Array | None = None  # (P,) scene number: two points of different scenes are certainly different
    places: Array | None = None  # (P, 2) where in the reference image
    hard_pairs: Array | None = None  # (K, 2) rows: the same point, seen very differently

    def __post_init__(self) -> None:
        if self.patches.ndim != 3 or self.patches.shape[1] != self.patches.shape[2] or self.patches.dtype != np.uint8:
            raise BadInput(f"patches must be (P, S, S) uint8, got {self.patches.shape} {self.patches.dtype}.")
        for name in ("points", "images", "scenes"):
            column = getattr(self, name)
            if column is not None and column.shape != (len(self.patches),):
                raise BadInput(f"{name} must have one number per patch ({len(self.patches)}), got {column.shape}.")
        if self.places is not None and self.places.shape != (len(self.patches), 2):
            raise BadInput(f"places must be x and y of each patch ({len(self.patches)}, 2), got {self.places.shape}.")

    def __len__(self) -> int:
        return len(self.patches)


@dataclass(frozen=True)
class PatchPairs:
    """Pairs of rows of a PatchSet that are known to match or known not to: what FPR@95 is measured on."""

    first: Array  # (N,) int64
    second: Array  # (N,) int64
    is_match: Array  # (N,) bool

    def __post_init__(self) -> None:
        if not (self.first.shape == self.second.shape == self.is_match.shape) or self.first.ndim != 1:
            raise BadInput(
                f"pairs need three columns of one length, got {self.first.shape}, {self.second.shape}, "
                f"{self.is_match.shape}."
            )

    def __len__(self) -> int:
        return len(self.first)

    def evenly(self, most: int) -> PatchPairs:
        """At most so many, chosen evenly."""
        chosen = np.linspace(0, len(self) - 1, min(len(self), most)).astype(np.int64)
        return PatchPairs(self.first[chosen], self.second[chosen], self.is_match[chosen])


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
        """From position (N, 2) in pixels, detector sigma (N,) in pixels, angle (N,) in radians."""
        xy = np.asarray(xy, np.float64)
        sigma = np.asarray(sigma, np.float64)
        angle = np.asarray(angle, np.float64)
        cos, sin = sigma * np.cos(angle), sigma * np.sin(angle)
        frames = np.stack([np.stack([cos, -sin, xy[:, 0]], -1), np.stack([sin, cos, xy[:, 1]], -1)], 1)
        return cls(frames.astype(np.float32), np.asarray(scores, np.float32))

    @classmethod
    def from_cv2(cls, keypoints: Sequence[Any]) -> Keypoints:
        """From a list of cv2.KeyPoint: sigma is half its size, and one without an angle is upright."""
        try:
            rows = [(*point.pt, point.size / 2, max(point.angle, 0.0), point.response) for point in keypoints]
        except (TypeError, AttributeError):
            raise BadInput(f"from_cv2 takes a list of cv2.KeyPoint, got {type(keypoints).__name__}.") from None
        x, y, sigma, degrees, scores = np.array(rows, np.float64).reshape(-1, 5).T
        return cls.from_circles(np.column_stack([x, y]), sigma, np.radians(degrees), scores)

    def to_cv2(self) -> list[Any]:
        """As cv2.KeyPoint, which has circles only: of an ellipse the circle of its area."""
        import cv2  # here, since few need it and all start with this module

        columns = (*self.xy.T, 2 * self.sigma, np.degrees(self.angle) % 360, self.scores)
        return [cv2.KeyPoint(*map(float, row)) for row in zip(*columns, strict=True)]

    @classmethod
    def from_lafs(cls, lafs: Any, scores: ArrayLike | None = None, *, support: float = LAF_SUPPORT) -> Keypoints:
        """From kornia's local affine frames, (1, N, 2, 3) or (N, 2, 3); a tensor or an array.

        support: how many sigmas wide the square is that a frame spans, as for `to_lafs`.
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
        """As kornia's local affine frames, (1, N, 2, 3) float32: torch.from_numpy makes them a tensor.

        support: how many sigmas wide the patches are that kornia is to cut; by default as wide as ours.
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


@dataclass(frozen=True, repr=False)
class Features:
    """What was found in one photo, and how each of it looks."""

    keypoints: Keypoints
    descriptors: Array  # (N, D) float32 unit rows
    image_size: tuple[int, int]  # (width, height) of the original photo
    ratio: float | None = None  # the ratio test that suits the descriptor: the default of `match`
    # geometry -> pixels within which a match counts as an inlier, as calibrated: the default of `verify`
    thresholds: Mapping[str, float] = field(default_factory=dict)
    focal: float | None = None  # of the camera, in pixels of the original photo, where it is known
    # Its path, or a small copy (H, W, 3) of what was not a file: what `hynet.draw` shows. Not saved.
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
        """Into one .npz file; `Features.load` reads it. Many photos: `hynet extract` writes hloc's layout."""
        columns = {
            "frames": self.keypoints.frames,
            "scores": self.keypoints.scores,
            "descriptors": self.descriptors,
            "image_size": np.array(self.image_size),
            "ratio": self.ratio,
            "thresholds": np.array(json.dumps(dict(self.thresholds))),
            "focal": self.focal,
        }
        storing.save_arrays(path, "Features", columns)

    @classmethod
    def load(cls, path: str | Path) -> Features:
        """What `save` wrote."""
        columns = storing.load_arrays(path, "Features")
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
        """For notebooks."""
        points = self.keypoints
        name = self.photo.name if isinstance(self.photo, Path) else "a photo"
        words = f"{len(self)} features of {self.descriptors.shape[1]} numbers, in {name}"
        return showing.keypoints(points.xy, points.sigma, points.scores, self.image_size, words)


@dataclass(frozen=True, repr=False)
class Matches:
    """Which keypoint of the first photo goes with which of the second. Empty is an answer, not an error."""

    indices: Array  # (K, 2) int64: row of the first, row of the second
    distances: Array  # (K,) float32 between unit descriptors, 0 to 2
    confidence: Array | None = None  # (K,) float32, the probability that each is right; None: not known
    # (K, 2) float32 pixels: the exact place, in the second photo, of what the first keypoint shows, as `refine` finds
    # it; None: where the second keypoint was found
    refined: Array | None = None

    def __post_init__(self) -> None:
        if self.indices.ndim != 2 or self.indices.shape[1] != 2 or self.distances.shape != self.indices.shape[:1]:
            raise BadInput(
                f"matches must be (K, 2) with one distance each, got {self.indices.shape} and {self.distances.shape}."
            )
        if self.confidence is not None and self.confidence.shape != self.distances.shape:
            raise BadInput(f"{len(self.indices)} matches need as many confidences, got {self.confidence.shape}.")
        if self.refined is not None and self.refined.shape != self.indices.shape:
            raise BadInput(f"{len(self.indices)} matches need as many refined places, got {self.refined.shape}.")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: Any) -> Matches:
        optional = (None if column is None else column[rows] for column in (self.confidence, self.refined))
        return Matches(self.indices[rows], self.distances[rows], *optional)

    def places(self, a: Features, b: Features) -> tuple[Array, Array]:
        """Where the matches of two photos lie in the first and in the second: (K, 2) pixels each."""
        rows, columns = self.indices.T
        if rows.max(initial=-1) >= len(a) or columns.max(initial=-1) >= len(b):
            raise BadInput(f"these matches are not of these features ({len(a)} and {len(b)}).")
        return a.keypoints.xy[rows], b.keypoints.xy[columns] if self.refined is None else self.refined

    def save(self, path: str | Path) -> None:
        """Into one .npz file; `Matches.load` reads it."""
        storing.save_arrays(path, "Matches", {each.name: getattr(self, each.name) for each in fields(self)})

    @classmethod
    def load(cls, path: str | Path) -> Matches:
        """What `save` wrote."""
        columns = storing.load_arrays(path, "Matches")
        try:
            return cls(**columns)
        except (TypeError, ValueError, AttributeError) as error:
            raise BadData(f"{path} holds matches that cannot be used ({error}); save them again.") from None

    def __repr__(self) -> str:
        return f"<{len(self)} matches>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        if not len(self):
            return showing.histogram(self.distances, 1, "no matches")
        low, middle, high = np.percentile(self.distances, (0, 50, 100))
        words = f"{len(self)} matches; distance {low:.2f} to {high:.2f}, median {middle:.2f}"
        return showing.histogram(self.distances, float(high) or 1, words)


def _numbers(values: Any, what: str, hint: str) -> Array:
    """float32, or a sentence: people pass what other libraries return."""
    try:
        return np.ascontiguousarray(values, np.float32)
    except (TypeError, ValueError):
        raise BadInput(f"{what} must be an array of numbers, got {type(values).__name__}; {hint}.") from None


def need_features(*given: Any) -> None:
    """What `match` and `verify` take: arrays of others are told where to go."""
    for each in given:
        if not isinstance(each, Features):
            raise BadInput(
                f"matching needs hynet.Features, got {type(each).__name__}; hynet.Extractor makes them from a photo, "
                "and hynet.Features(keypoints, descriptors, image_size) from arrays."
            )


class Descriptor(Protocol):
    """Patches to unit vectors. Any square patch size goes in; it is resized once, at the door.

    A class of your own that inherits this has the defaults of `support` and `ratio`.
    """

    patch_size: int
    dim: int
    support: float | None = None  # full width of a patch, in detector sigmas, that it was trained with; None: the usual
    ratio: float | None = None  # the ratio test that suits it; None: not known

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, dim) float32 unit rows."""
        ...


class Detector(Protocol):
    """Photo to keypoints."""

    def __call__(self, image: Array, mask: Array | None = None) -> Keypoints:
        """(H, W) grey uint8 -> Keypoints, none of them where the mask (H, W) is zero."""
        ...
