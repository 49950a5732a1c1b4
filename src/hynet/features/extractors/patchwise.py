"""Detector + patches + descriptor = photo -> Features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Unpack

import cv2
import numpy as np

from ... import images
from ...errors import BadInput, listed
from ...images.patches import SUPPORT_SIGMAS, cut
from ...types import Array, Descriptor, Detector, Features, Keypoints
from ..calibrated import Calibration, saved
from ..descriptors.loading import load
from ..detectors import open_detector
from ..detectors.orientation import oriented
from ..models import shipped
from ..settings import ORIENTATIONS, FeatureOptions, FeatureSettings, with_options
from . import PhotoExtractor

SHAPES = {
    "none": None,
    "baumberg": None,
    "affine-network": shipped("shape")["shape"],
}  # -> its network; any other is the path of one


@with_options(FeatureSettings)
class Extractor:
    """Photo -> Features, in pixels of the original photo.

        extract = Extractor(max_keypoints=2048)
        features = extract("a.jpg")

    Options are the fields of FeatureSettings; detector and model also take an object of one's own.
    """

    def __init__(self, settings: FeatureSettings | None = None, **options: Unpack[FeatureOptions]) -> None:
        if settings is not None and not isinstance(settings, FeatureSettings):
            raise BadInput(f"give options by their names, such as hynet.Extractor(detector={settings!r}).")
        self.settings = asked = (settings or FeatureSettings()).replace(**options)
        _check(asked)
        calibration = Calibration()
        self.orientation: str = asked.orientation
        self._reshape = _open_shape(asked.shape)
        detector: Any = asked.detector
        self._orients = self._reshape is not None or isinstance(detector, str)  # one's own may bring its angles
        if isinstance(detector, str):
            if isinstance(asked.model, str):
                calibration = saved(asked.model, detector)
            own = {"score_threshold": asked.score_threshold, "spread": None if asked.spread is not False else False}
            given = {name: value for name, value in own.items() if value is not None}
            detector = open_detector(detector, max_keypoints=asked.max_keypoints, upright=True, **given)
        self.detector: Detector = detector
        self.descriptor: Descriptor = (
            load(asked.model, device=asked.device) if isinstance(asked.model, str) else asked.model
        )
        self.longest = asked.longest
        self.max_keypoints = asked.max_keypoints
        # What the photos of the user were found to want, else what the model says of itself.
        trained = self.descriptor.support or SUPPORT_SIGMAS
        self.support = asked.support or calibration.support or trained
        self.ratio: float | None = calibration.ratio or self.descriptor.ratio
        self.thresholds = calibration.thresholds  # geometry -> pixels; like the ratio, they travel with the features

    def turned_as(self, orientation: str) -> Extractor:
        """Return a copy of the extractor with another orientation."""
        other = object.__new__(Extractor)
        other.__dict__.update(self.__dict__)
        other.orientation = orientation
        return other

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: how it was made, since open networks cannot be sent; and what calibration chose here."""
        chosen = ("orientation", "support", "ratio", "thresholds")
        return {"settings": self.settings, "chosen": {name: getattr(self, name) for name in chosen}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["settings"])  # type: ignore[misc]
        self.__dict__.update(state["chosen"])

    def __call__(self, photo: Any, mask: Any = None) -> Features:
        """The features of a photo (whatever `images.read` takes), none where the mask of the same size is black."""
        held = images.at_hand(photo)
        image = images.read(held)
        features = self.describe(image, self.detect(image, None if mask is None else images.read(mask)))
        return replace(features, focal=images.focal(held), photo=images.remembered(held))

    def detect(self, image: Array, mask: Array | None = None) -> Keypoints:
        """(H, W) grey -> Keypoints, turned as asked for; none where the mask (H, W) is zero."""
        found = self.detect_upright(image, mask)
        return found if self.orientation == "upright" else self.orient(image, found)

    def detect_upright(self, image: Array, mask: Array | None = None) -> Keypoints:
        """Detect keypoints in the photo shrunk to `longest`, and shape them; they are upright."""
        if mask is not None:
            check_mask(mask, image.shape)
        small, scale = images.shrink(image, self.longest)
        if mask is not None and scale != 1:
            mask = cv2.resize(mask, small.shape[::-1], interpolation=cv2.INTER_NEAREST)
        found = self.detector(small) if mask is None else self.detector(small, mask)
        if self._reshape is not None:
            found = self._reshape(small, found, self.support)
        if scale == 1:
            return found
        frames = found.frames / scale
        frames[:, :, 2] = images.unshrink(found.xy, scale)
        return Keypoints(frames, found.scores)

    def orient(self, image: Array, upright: Keypoints) -> Keypoints:
        """Each turned to where it gets brighter; no more than asked for."""
        return oriented(image, upright)[: self.max_keypoints] if self._orients else upright

    def describe(self, image: Array, keypoints: Keypoints) -> Features:
        """(H, W) grey and any keypoints in it -> Features."""
        height, width = image.shape
        descriptors = self.descriptor.describe(self.patches(image, keypoints))
        return Features(keypoints, descriptors, (width, height), self.ratio, self.thresholds)

    def patches(self, image: Array, keypoints: Keypoints) -> Array:
        """Cut the patches that are described: (N, S, S) uint8."""
        return cut(image, keypoints, self.descriptor.patch_size, self.support)


def _check(asked: FeatureSettings) -> None:
    """Refuse settings that no photo could be extracted with."""
    if not asked.patchwise or asked.mask is not None or asked.precision != "float32":
        raise BadInput(
            "hynet.Extractor is a detector with a descriptor, for a photo at a time; extractor, mask and precision are "
            "settings of hynet.extract_all and hynet.reconstruct."
        )
    for name, count in {"max_keypoints": asked.max_keypoints, "longest": asked.longest}.items():
        if not isinstance(count, Integral):
            raise BadInput(f"{name} must be a whole number, got {count!r}.")
    for name, part in {"detector": asked.detector, "model": asked.model}.items():
        if not isinstance(part, str) and not callable(getattr(part, "describe", part)):
            raise BadInput(f"the {name} must be a name, a path or an object that does its work, got {part!r}.")
    if asked.longest < 1:
        raise BadInput(f"the longest side must be at least 1 pixel, got {asked.longest}.")
    if asked.support is not None and not asked.support > 0:
        raise BadInput(f"the support must be more than 0 sigmas, got {asked.support:g}.")
    if asked.orientation not in ORIENTATIONS:
        raise BadInput(f"no orientation {asked.orientation!r}; choose {listed(ORIENTATIONS)}.")


Reshape = Callable[[Array, Keypoints, float], Keypoints]  # grey photo, keypoints, width of the patches in sigmas


def _open_shape(shape: str) -> Reshape | None:
    if shape in ("auto", "none"):
        return None
    if shape == "baumberg":
        from ..detectors.shape import baumberg

        return lambda image, keypoints, support: baumberg(image, keypoints)
    weights = network_of_shape(shape)
    if weights is None or not weights.exists():
        raise BadInput(f"no shape {shape!r}; choose {listed(SHAPES)}, or give the path of a network such as AffNet.")
    from ..detectors.affine_network import AffineNetwork

    return AffineNetwork(weights)


def network_of_shape(shape: str | Path) -> Path | None:
    """The file of the network that predicts it, where it is predicted."""
    return SHAPES.get(str(shape), Path(shape))


def extract_with_mask(extract: PhotoExtractor, photo: Any, mask: Any = None) -> Features:
    """Features of a photo by any extractor, none of them where the mask is black."""
    if mask is None:
        return extract(photo)
    if isinstance(extract, Extractor):  # which looks only where it may
        return extract(photo, mask)
    found, allowed = extract(photo), images.read(mask)
    width, height = found.image_size
    check_mask(allowed, (height, width))
    x, y = np.rint(found.keypoints.xy).astype(int).clip(0, (width - 1, height - 1)).T
    return found[allowed[y, x] > 0]


def check_mask(mask: Array, shape: tuple[int, ...]) -> None:
    """Refuse a mask of another size than its photo (H, W)."""
    if mask.shape != shape:
        sizes = [f"{width} x {height}" for height, width in (mask.shape, shape)]
        raise BadInput(f"the mask has {sizes[0]} pixels and its photo {sizes[1]}; make them equal.")
