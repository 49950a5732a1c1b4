"""Two photos -> what they have in common, with a picture of it: all that `hynet match` does."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from .. import drawing, images
from ..errors import BadInput, choose
from ..extractors import MAX_KEYPOINTS, PhotoExtractor
from ..extractors.masking import extract_unmasked
from ..extractors.patchwise import Extractor
from ..extractors.settings import Settings
from ..geometry import DEGENSAC
from ..patches import SUPPORT_SIGMAS, cut
from ..types import Array, Features, Matches
from . import Matcher, open_matcher
from .verification import THRESHOLDS, verify

Photo = str | Path | Array
Shown = Literal["matches", "keypoints", "patches"]
PATCHES_SHOWN = 64
PATCH_SIZE = 32  # pixels, of what is shown of features that were not described patch by patch


@dataclass(frozen=True)
class FoundGeometry:
    """What the inliers agree on."""

    name: str  # fundamental, homography or essential; none: the matches were not verified
    model: Array | None  # (3, 3), from the first photo to the second; None: there is none


@dataclass(frozen=True, repr=False)
class MatchedPhotos:
    """What two photos have in common. In a notebook it shows itself as a picture."""

    photos: tuple[Array, Array]  # (H, W) grey each
    features: tuple[Features, Features]
    matches: Matches
    inliers: Matches  # those of the matches that agree on the geometry
    is_inlier: Array  # (K,) bool: which of the matches these are
    geometry: FoundGeometry
    seconds: Mapping[str, float]  # by stage
    patch_size: int  # pixels a side, and ...
    support: float  # ... sigmas a side, of the patches that were described

    def points(self, matches: Matches) -> Array:
        """Where matches are in the two photos, (K, 4): x1, y1, x2, y2."""
        rows, columns = matches.indices.T
        first, second = self.features
        return np.column_stack([first.keypoints.xy[rows], second.keypoints.xy[columns]]).astype(np.float64)

    def draw(self, show: Shown = "matches", *, right: Array | None = None, note: str = "") -> Array:
        """A picture (H, W, 3) uint8: the matches, the keypoints, or the patches that were matched.

        right: (K,) bool, which matches are drawn as right; None: the inliers. note: what the caption says of them.
        """
        green = self.is_inlier if right is None else right
        keypoints = self.features[0].keypoints, self.features[1].keypoints
        if show == "keypoints":
            counts = " and ".join(str(len(each)) for each in keypoints)
            return drawing.keypoints(
                self.photos, keypoints, [(f"{counts} keypoints, the strongest shown", drawing.INK)]
            )
        verdict = f"{self.verdict}; {note}" if note else self.verdict
        caption = [(f"{len(self.matches)} matches, ", drawing.INK), (verdict, drawing.GREEN)]
        if show == "matches":
            return drawing.matches(self.photos, keypoints, self.matches, green, caption)
        if show != "patches":
            raise BadInput(f"cannot show {show!r}; choose matches, keypoints or patches.")
        order = np.argsort(self.matches.distances, kind="stable")
        # Evenly from the nearest to the farthest: the nearest alone would all look alike.
        some = order[np.linspace(0, len(order) - 1, min(len(order), PATCHES_SHOWN)).astype(int)]
        first, second = (
            cut(photo, points[self.matches.indices[some, side]], self.patch_size, self.support)
            for side, (photo, points) in enumerate(zip(self.photos, keypoints, strict=True))
        )
        return drawing.patches(first, second, green[some], [*caption, ("; from the nearest on", drawing.FAINT)])

    def save(self, path: str | Path, show: Shown = "matches") -> None:
        """The picture as PNG, JPEG or WebP, by the ending of the name."""
        drawing.save(self.draw(show), path)

    @property
    def verdict(self) -> str:
        return "not verified" if self.geometry.name == "none" else f"{len(self.inliers)} inliers"

    def __repr__(self) -> str:
        return f"<{len(self.matches)} matches, {self.verdict}>"

    def _repr_png_(self) -> bytes:
        """For notebooks."""
        content = io.BytesIO()
        Image.fromarray(self.draw()).save(content, "png")
        return content.getvalue()


def match_photos(
    first: Photo,
    second: Photo,
    *,
    extractor: str | Path | PhotoExtractor | None = None,
    detector: str | Path = "dog",
    model: str | Path = "default",
    max_keypoints: int = MAX_KEYPOINTS,
    upright: bool = False,
    affine: bool = False,
    score_threshold: float | None = None,
    spread: bool = False,
    masks: tuple[Photo, Photo] | None = None,
    matcher: str | Path | Matcher = "nearest",
    ratio: float | None = None,
    fginn: float | None = None,
    geometry: str = "fundamental",
    threshold: float | None = None,
) -> MatchedPhotos:
    """Extract, match, verify.

    extractor: a name, the path of weights or of a features file, or an object, in place of detector and model.
    masks: two pictures as large as the photos; where they are black there are no keypoints.
    matcher: "nearest", the path of LighterGlue's weights, or an object; ratio and fginn are options of "nearest".
    geometry: "fundamental", "homography", "essential", or "none" to keep all matches.
    threshold: pixels of the original photo from the geometry, of an inlier; None: as calibrated, else as usual.
    """
    if geometry != "none":
        choose({**THRESHOLDS, "none": None}, geometry, "geometry")
    settings = Settings(
        str(detector),
        str(model),
        max_keypoints,
        upright,
        affine=affine,
        score_threshold=score_threshold,
        spread=spread,
        extractor=str(extractor) if isinstance(extractor, str | Path) else None,
    )
    if geometry == "fundamental":
        DEGENSAC.start()  # its process is ready by the time there are matches
    clock = _Clock()
    with clock("read"):
        photos = images.read(first), images.read(second)  # (H, W) grey each
        black = (None, None) if masks is None else (images.read(masks[0]), images.read(masks[1]))
    with clock("load"):
        if extractor is None or isinstance(extractor, str | Path):
            extract = settings.open_extractor()
        else:
            settings.check_alone("the extractor")
            extract = extractor
        found_by = _opened(matcher, ratio, fginn)
    if isinstance(extract, Extractor):
        with clock("detect"), ThreadPoolExecutor(2) as both:
            keypoints = list(both.map(extract.detect, photos, black))
        with clock("describe"):
            features = extract.describe(photos[0], keypoints[0]), extract.describe(photos[1], keypoints[1])
    else:
        with clock("extract"):
            features = extract_unmasked(extract, first, black[0]), extract_unmasked(extract, second, black[1])
    with clock("match"):
        matches = found_by(*features)
    with clock("verify"):
        if geometry == "none":
            inliers, fitted = np.ones(len(matches), bool), None
        else:
            fit = verify(*features, matches, geometry, threshold=threshold)
            inliers, fitted = fit.inliers, fit.model
    return MatchedPhotos(
        photos,
        features,
        matches,
        inliers=matches[inliers],
        is_inlier=inliers,
        geometry=FoundGeometry(geometry, fitted),
        seconds=clock.seconds,
        patch_size=extract.descriptor.patch_size if isinstance(extract, Extractor) else PATCH_SIZE,
        support=extract.support if isinstance(extract, Extractor) else SUPPORT_SIGMAS,
    )


def _opened(matcher: str | Path | Matcher, ratio: float | None, fginn: float | None) -> Matcher:
    asked = {"ratio": ratio, "fginn": fginn}
    options = {name: value for name, value in asked.items() if value is not None}
    if options and matcher != "nearest":
        raise BadInput(f"{' and '.join(options)} belong to the matcher nearest; leave them out for another.")
    return open_matcher(matcher, **options) if isinstance(matcher, str | Path) else matcher


class _Clock:
    """with clock("read"): ...  adds up in clock.seconds["read"]."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
