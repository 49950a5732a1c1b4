"""Detector + patches + descriptor = photo -> Features; and Features as HDF5 in hloc's layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from . import images
from .calibration import Calibration, saved
from .descriptors.loading import load
from .detectors import DETECTORS
from .detectors import shape as affine_shape
from .errors import BadData, BadInput, choose
from .patches import SUPPORT_SIGMAS, cut
from .types import Array, Descriptor, Detector, Features, Keypoints

# Keypoints are looked for in a photo of at most this side, as hloc does for SIFT: time and memory stay bounded.
LONGEST = 1600


class Extractor:
    """Photo -> Features, in pixels of the original photo.

    extract = Extractor(max_keypoints=2048)
    features = extract("a.jpg")

    score_threshold: keypoints of a lower score are left out; None: as usual for the detector.
    spread: evenly over the photo instead of the strongest anywhere.
    affine: elliptic regions, for surfaces seen from the side.
    support: full width of a patch in detector sigmas; None: as calibrated, or as the model was trained.
    """

    def __init__(
        self,
        detector: str | Detector = "dog",
        descriptor: str | Path | Descriptor = "default",
        max_keypoints: int = 2048,
        upright: bool = False,
        *,
        longest: int = LONGEST,
        score_threshold: float | None = None,
        spread: bool = False,
        affine: bool = False,
        support: float | None = None,
    ) -> None:
        if longest < 1:
            raise BadInput(f"the longest side must be at least 1 pixel, got {longest}.")
        if support is not None and not support > 0:
            raise BadInput(f"the support must be more than 0 sigmas, got {support:g}.")
        asked = {"score_threshold": score_threshold, "spread": spread or None}
        options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        calibration = Calibration()
        if isinstance(detector, str):
            make = choose(DETECTORS, detector, "detector")
            if isinstance(descriptor, str | Path):
                calibration = saved(descriptor, detector)
            # The affine shape brings its own orientation, one a place.
            detector = make(max_keypoints=max_keypoints, upright=upright or affine, **options)
        self.detector = detector
        self.descriptor = load(descriptor) if isinstance(descriptor, str | Path) else descriptor
        self.longest, self.upright, self.affine = longest, upright, affine
        # What the photos of the user were found to want, else what the model says of itself.
        trained: float = getattr(self.descriptor, "support", SUPPORT_SIGMAS)
        self.support = support or calibration.support or trained
        self.ratio: float | None = calibration.ratio or getattr(self.descriptor, "ratio", None)
        self.thresholds = calibration.thresholds  # geometry -> pixels, for hynet.verify

    def __call__(self, photo: str | Path | Array, mask: str | Path | Array | None = None) -> Features:
        """The features of a photo, none of them where the mask, a picture of the same size, is black."""
        image = images.read(photo)
        return self.describe(image, self.detect(image, None if mask is None else images.read(mask)))

    def detect(self, image: Array, mask: Array | None = None) -> Keypoints:
        """(H, W) grey -> Keypoints, found in the photo made small enough; none where the mask (H, W) is zero."""
        if mask is not None and mask.shape != image.shape:
            sizes = [f"{width} x {height}" for height, width in (mask.shape, image.shape)]
            raise BadInput(f"the mask has {sizes[0]} pixels and its photo {sizes[1]}; make them equal.")
        small, scale = images.shrink(image, self.longest)
        if mask is not None and scale != 1:
            mask = cv2.resize(mask, small.shape[::-1], interpolation=cv2.INTER_NEAREST)
        found = self.detector(small) if mask is None else self.detector(small, mask)
        if self.affine:
            found = affine_shape.adapted(small, found, upright=self.upright)
        if scale == 1:
            return found
        frames = found.frames / scale
        frames[:, :, 2] = images.unshrink(found.xy, scale)
        return Keypoints(frames, found.scores)

    def describe(self, image: Array, keypoints: Keypoints) -> Features:
        """(H, W) grey and any keypoints in it -> Features."""
        height, width = image.shape
        descriptors = self.descriptor.describe(self.patches(image, keypoints))
        return Features(keypoints, descriptors, (width, height), self.ratio)

    def patches(self, image: Array, keypoints: Keypoints) -> Array:
        """What the descriptor looks at: (N, S, S) uint8."""
        return cut(image, keypoints, self.descriptor.patch_size, self.support)


# --- hloc's layout: a group a photo ---


def columns(features: Features) -> dict[str, Array]:
    """hloc's layout: descriptors (D, N), the rest one row a keypoint."""
    keypoints = features.keypoints
    return {
        "keypoints": keypoints.xy,
        "descriptors": features.descriptors.T,
        "scores": keypoints.scores,
        "scales": keypoints.sigma,
        "angles": keypoints.angle,
        "image_size": np.array(features.image_size),
    }


def write_group(file: Any, name: str, features: Features) -> None:
    """The features of one photo into an open file."""
    for key, column in columns(features).items():
        file.create_dataset(f"{name}/{key}", data=column)


def read_h5(path: str | Path, name: str) -> Features:
    """The features of one photo, ours or anyone's in hloc's layout; without scales, angles or scores: 1, 0 and 1."""
    with opened(path) as file:
        if name not in file or "keypoints" not in file[name] or "descriptors" not in file[name]:
            raise BadData(f"{path} holds no features of {name}.")
        group = file[name]
        xy = np.asarray(group["keypoints"], np.float32)
        if xy.ndim != 2 or xy.shape[1] < 2:
            raise BadData(f"{path} has keypoints of {name} that are not rows of x and y, but {xy.shape}.")
        xy = xy[:, :2]
        ones = np.ones(len(xy), np.float32)
        scales, scores = (np.asarray(group[key]) if key in group else ones for key in ("scales", "scores"))
        angles = np.asarray(group["angles"]) if "angles" in group else 0 * ones
        # Who left out the size of the photo left us its keypoints: it reaches at least as far.
        size = group["image_size"] if "image_size" in group else np.ceil(xy.max(axis=0, initial=0)) + 1
        width, height = (int(side) for side in size)
        descriptors = np.ascontiguousarray(np.asarray(group["descriptors"], np.float32).T)  # (N, D)
        ratio = file.attrs.get("ratio")
        keypoints = Keypoints.from_circles(xy, scales, angles, scores)
        return Features(keypoints, descriptors, (width, height), None if ratio is None else float(ratio))


def h5_names(path: str | Path) -> list[str]:
    """The photos in a features file."""
    names: list[str] = []
    with opened(path) as file:
        file.visititems(lambda name, item: names.append(name) if "keypoints" in getattr(item, "keys", dict)() else None)
    return sorted(names)


@contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    import h5py  # here, since matching two photos does not need it

    try:
        file = h5py.File(path, "r")
    except OSError:
        raise BadData(
            f"{path} is not a features file (HDF5); choose another, or delete it and extract again."
        ) from None
    with file:
        yield file
