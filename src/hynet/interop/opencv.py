"""Our features where cv2's own are used: in place of cv2.SIFT.create() or cv2.ORB.create().

features = hynet.interop.opencv.HyNet(max_keypoints=2000)
keypoints, descriptors = features.detectAndCompute(image, None)
matches = cv2.BFMatcher(features.defaultNorm(), crossCheck=True).match(descriptors, others)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from ..errors import BadInput
from ..features.extractors.patchwise import Extractor
from ..types import Array, Descriptor, Detector, Keypoints

UNTURNED = -1.0  # OpenCV's angle of a keypoint that has none


class HyNet:
    """The methods of cv2.Feature2D. Images are as cv2.imread gives them, grey or BGR; descriptors are unit rows.

    An OpenCV keypoint is a circle: what `shape` makes of it is lost, so there is no such option.
    """

    def __init__(
        self,
        detector: str | Path | Detector = "dog",
        model: str | Path | Descriptor = "default",
        max_keypoints: int = 2048,
        upright: bool = False,
    ) -> None:
        self._extract = Extractor(
            detector=detector,
            model=model,
            max_keypoints=max_keypoints,
            orientation="upright" if upright else "auto",
        )

    def detect(self, image: Array, mask: Array | None = None) -> tuple[cv2.KeyPoint, ...]:
        """Keypoints where the mask, of the image's size, is not zero; the strongest first."""
        grey = _grey(image)
        found = self._extract.detect(grey, mask)
        upright = self._extract.orientation == "upright"
        degrees = np.full(len(found), UNTURNED) if upright else np.degrees(found.angle) % 360
        columns = zip(found.xy.tolist(), found.sigma.tolist(), degrees.tolist(), found.scores.tolist(), strict=True)
        return tuple(cv2.KeyPoint(x, y, 2 * sigma, angle, score) for (x, y), sigma, angle, score in columns)

    def compute(
        self, image: Array, keypoints: Sequence[cv2.KeyPoint], descriptors: Array | None = None
    ) -> tuple[tuple[cv2.KeyPoint, ...], Array | None]:
        """The keypoints of any of cv2's detectors, none left out, and (N, D) float32; None without keypoints."""
        if not len(keypoints):
            return (), None
        table = np.array([(*point.pt, point.size, point.angle, point.response) for point in keypoints])
        x, y, size, degrees, response = table.T
        angle = np.radians(np.where(degrees == UNTURNED, 0, degrees))
        frames = Keypoints.from_circles(np.column_stack([x, y]), size / 2, angle, response)
        return tuple(keypoints), self._extract.describe(_grey(image), frames).descriptors

    def detectAndCompute(  # noqa: N802
        self,
        image: Array,
        mask: Array | None,
        descriptors: Array | None = None,
        useProvidedKeypoints: bool = False,
    ) -> tuple[tuple[cv2.KeyPoint, ...], Array | None]:
        """Both. Keypoints cannot be provided here, as in cv2 from Python; `compute` takes them."""
        if useProvidedKeypoints:
            raise BadInput("keypoints cannot be provided here; use compute(image, keypoints).")
        return self.compute(image, self.detect(image, mask))

    def descriptorSize(self) -> int:  # noqa: N802
        return self._extract.descriptor.dim

    def descriptorType(self) -> int:  # noqa: N802
        return cv2.CV_32F

    def defaultNorm(self) -> int:  # noqa: N802
        return cv2.NORM_L2

    def empty(self) -> bool:
        return False

    def getDefaultName(self) -> str:  # noqa: N802
        return "Feature2D.HyNet"


def _grey(image: Array) -> Array:
    """(H, W), (H, W, 1), (H, W, 3) BGR or (H, W, 4) BGRA, uint8 -> (H, W)."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim not in (2, 3) or not image.size:
        told = f"{image.shape} {image.dtype}" if isinstance(image, np.ndarray) else type(image).__name__
        raise BadInput(f"the image must be uint8, grey or BGR, as cv2.imread gives it; got {told}.")
    channels = 1 if image.ndim == 2 else image.shape[2]
    if channels not in (1, 3, 4):
        raise BadInput(f"the image must have 1, 3 or 4 channels, got {channels}.")
    if channels == 1:
        return image.reshape(image.shape[:2])
    return cv2.cvtColor(image, cv2.COLOR_BGR2GRAY if channels == 3 else cv2.COLOR_BGRA2GRAY)
