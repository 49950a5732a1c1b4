"""Detector + patches + descriptor = photo -> Features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import cv2

from ... import images
from ...errors import BadInput, listed
from ...images.patches import SUPPORT_SIGMAS, cut
from ...types import Array, Descriptor, Detector, Features, Keypoints
from ..calibrated import Calibration, saved
from ..descriptors.loading import load
from ..detectors import open_detector
from ..detectors.affine_network import SHIPPED, AffineNetwork
from ..detectors.orientation import oriented
from ..detectors.shape import baumberg

# Keypoints are looked for in a photo of at most this side, as hloc does for SIFT: time and memory stay bounded.
LONGEST = 1600

ORIENTATIONS = ("auto", "upright", "gradient")
SHAPES = {"none": None, "baumberg": None, "affine-network": SHIPPED}  # -> its network; any other is the path of one


class Extractor:
    """Photo -> Features, in pixels of the original photo.

        extract = Extractor(max_keypoints=2048)
        features = extract("a.jpg")

    detector, descriptor: a name, the path of weights, or an object of one's own.
    score_threshold: keypoints of a lower score are left out; None: as usual for the detector.
    spread: over the photo, instead of the strongest anywhere.
    orientation: "gradient" turns each keypoint to where it gets brighter, "upright" none; "auto" leaves it to who sees
        several photos (`match_photos`, `extract_all`), and is "gradient" for one photo alone.
    shape: elliptic regions, for surfaces seen from the side: "affine-network", "baumberg", or the path of weights of a
        network of one's own or of AffNet.
    upright, affine: short for orientation="upright" and shape="baumberg".
    support: full width of a patch in detector sigmas; None: as calibrated, or as the model was trained.
    device: where a descriptor that is given by name or path runs, as for `hynet.load`.
    """

    def __init__(
        self,
        detector: str | Path | Detector = "dog",
        descriptor: str | Path | Descriptor = "default",
        max_keypoints: int = 2048,
        upright: bool = False,
        *,
        longest: int = LONGEST,
        score_threshold: float | None = None,
        spread: bool = True,
        affine: bool = False,
        support: float | None = None,
        orientation: str = "auto",
        shape: str | Path = "none",
        device: str | None = None,
    ) -> None:
        self._asked = {name: value for name, value in locals().items() if name != "self"}
        for name, count in {"max_keypoints": max_keypoints, "longest": longest}.items():
            if not isinstance(count, Integral):
                raise BadInput(f"{name} must be a whole number, got {count!r}.")
        for name, part in {"detector": detector, "descriptor": descriptor}.items():
            if not isinstance(part, str | Path) and not callable(getattr(part, "describe", part)):
                raise BadInput(f"the {name} must be a name, a path or an object that does its work, got {part!r}.")
        if longest < 1:
            raise BadInput(f"the longest side must be at least 1 pixel, got {longest}.")
        if support is not None and not support > 0:
            raise BadInput(f"the support must be more than 0 sigmas, got {support:g}.")
        asked = {"score_threshold": score_threshold, "spread": None if spread else False}
        options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        calibration = Calibration()
        if orientation not in ORIENTATIONS:
            raise BadInput(
                f"no orientation {orientation!r}; choose {', '.join(ORIENTATIONS[:-1])} or {ORIENTATIONS[-1]}."
            )
        self.orientation = "upright" if upright else orientation
        self._reshape = _open_shape("baumberg" if affine and shape == "none" else shape)
        self._orients = self._reshape is not None or isinstance(detector, str | Path)  # one's own may bring its angles
        if isinstance(detector, str | Path):
            if isinstance(descriptor, str | Path):
                calibration = saved(descriptor, str(detector))
            detector = open_detector(detector, max_keypoints=max_keypoints, upright=True, **options)
        self.detector = detector
        self.descriptor = load(descriptor, device=device) if isinstance(descriptor, str | Path) else descriptor
        self.longest = longest
        self.max_keypoints = max_keypoints
        # What the photos of the user were found to want, else what the model says of itself.
        trained = self.descriptor.support or SUPPORT_SIGMAS
        self.support = support or calibration.support or trained
        self.ratio: float | None = calibration.ratio or self.descriptor.ratio
        self.thresholds = calibration.thresholds  # geometry -> pixels; like the ratio, they travel with the features

    def turned_as(self, orientation: str) -> Extractor:
        """The same with another orientation."""
        other = object.__new__(Extractor)
        other.__dict__.update(self.__dict__)
        other.orientation = orientation
        return other

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: how it was made, since open networks cannot be sent; and what calibration chose here."""
        chosen = ("orientation", "support", "ratio", "thresholds")
        return {"asked": self._asked, "chosen": {name: getattr(self, name) for name in chosen}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["asked"])  # type: ignore[misc]
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
        """The same, not yet turned: found in the photo made small enough, and shaped."""
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
        """What the descriptor looks at: (N, S, S) uint8."""
        return cut(image, keypoints, self.descriptor.patch_size, self.support)


Reshape = Callable[[Array, Keypoints, float], Keypoints]  # grey photo, keypoints, width of the patches in sigmas


def _open_shape(shape: str | Path) -> Reshape | None:
    if shape == "none":
        return None
    if shape == "baumberg":
        return lambda image, keypoints, support: baumberg(image, keypoints)
    weights = network_of_shape(shape)
    if weights is None or not weights.exists():
        raise BadInput(
            f"no shape {str(shape)!r}; choose {listed(SHAPES)}, or give the path of a network such as AffNet."
        )
    return AffineNetwork(weights)


def usual_shape(detector: str | Path, model: str | Path) -> str:
    """The shape that two photos are matched with: elliptic regions, but for `light`, which is there to be fast."""
    return "affine-network" if str(detector) == "dog" and str(model) != "light" else "none"


def usual_spread(detector: str | Path, geometry: str) -> bool:
    """Whether keypoints of two photos are spread over them: for a plane, the strongest of DoG are better."""
    return not (geometry == "homography" and str(detector) == "dog")


def network_of_shape(shape: str | Path) -> Path | None:
    """The file of the network that predicts it, where it is predicted."""
    return SHAPES.get(str(shape), Path(shape))


def check_mask(mask: Array, shape: tuple[int, ...]) -> None:
    """Whether it is as large as its photo: (H, W)."""
    if mask.shape != shape:
        sizes = [f"{width} x {height}" for height, width in (mask.shape, shape)]
        raise BadInput(f"the mask has {sizes[0]} pixels and its photo {sizes[1]}; make them equal.")
