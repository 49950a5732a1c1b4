"""Two photos -> what they have in common, with a picture of it: all that `hynet match` does."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from .. import images
from ..errors import BadInput, choose
from ..features.extractors import PhotoExtractor
from ..features.extractors.patchwise import Extractor
from ..features.masking import extract_unmasked
from ..features.settings import FeatureSettings
from ..geometry import DEGENSAC, Fit, Pose
from ..images import drawing
from ..images.patches import SUPPORT_SIGMAS, cut
from ..types import Array, Features, Keypoints, Matches
from . import Matcher, open_with_ratio
from .confidence import has_scales, same_place
from .refinement import refine as refined
from .refinement import refine_external
from .turning import same_orientation
from .verification import THRESHOLDS, verify

Photo = Any  # whatever `images.read` takes: paths, bytes, open files, URLs, PIL images, arrays, tensors
Shown = Literal["matches", "keypoints", "patches"]
_LOG = logging.getLogger(__name__)

PATCHES_SHOWN = 64
UNCLEAR = 0.1, 0.5  # probabilities between which photos perhaps show one place
PATCH_SIZE = 32  # pixels, of what is shown of features that were not described patch by patch


@dataclass(frozen=True)
class FoundGeometry:
    """What the inliers agree on."""

    name: str  # as for `verify`, where auto is what it chose; none: the matches were not verified
    model: Array | None  # (3, 3), from the first photo to the second; None: there is none
    why: str = ""  # why auto chose it
    pose: Pose | None = None  # of the second camera, where cameras are known or one focal length fits both
    focal: float | None = None  # pixels, that "shared-focal" found


@dataclass(frozen=True, repr=False)
class MatchedPhotos:
    """What two photos have in common. In a notebook it shows itself as a picture."""

    photos: tuple[Array, Array]  # (H, W) grey each
    features: tuple[Features, Features]
    matches: Matches
    inliers: Matches  # those of the matches that agree on the geometry
    is_inlier: Array  # (K,) bool: which of the matches these are
    geometry: FoundGeometry
    overlap: float | None  # probability that the photos show one place; None: not known
    seconds: Mapping[str, float]  # by stage
    patch_size: int  # pixels a side, and ...
    support: float  # ... sigmas a side, of the patches that were described

    def points(self, matches: Matches) -> Array:
        """Where matches are in the two photos, (K, 4): x1, y1, x2, y2."""
        return np.column_stack(matches.places(*self.features)).astype(np.float64)

    def draw(self, show: Shown = "matches", *, right: Array | None = None, note: str = "") -> Array:
        """A picture (H, W, 3) uint8: the matches, the keypoints, or the patches that were matched.

        right: (K,) bool, which matches are drawn as right; None: the inliers. note: what the caption says of them.
        """
        green = self.is_inlier if right is None else right
        keypoints = self.features[0].keypoints, self.features[1].keypoints
        sizes = [each.image_size for each in self.features]
        if show == "keypoints":
            counts = " and ".join(str(len(each)) for each in keypoints)
            words = [(f"{counts} keypoints, the strongest shown", drawing.INK)]
            return drawing.keypoints(self._in_colour(), keypoints, words, sizes=sizes)
        caption = self._caption(f"{self.verdict}; {note}" if note else self.verdict)
        if show == "matches":
            return drawing.matches(self._in_colour(), keypoints, self.matches, green, caption, sizes=sizes)
        if show != "patches":
            raise BadInput(f"cannot show {show!r}; choose matches, keypoints or patches.")
        order = np.argsort(self.matches.distances, kind="stable")
        # Evenly from the nearest to the farthest: the nearest alone would all look alike.
        some = order[np.linspace(0, len(order) - 1, min(len(order), PATCHES_SHOWN)).astype(int)]
        first, second = (
            cut(photo, points[self.matches.indices[some, side]], self.patch_size, self.support)
            for side, (photo, points) in enumerate(zip(self.photos, keypoints, strict=True))
        )
        return drawing.patches(first, second, green[some], [*caption, (", nearest first", drawing.FAINT)])

    def _caption(self, verdict: str) -> drawing.Words:
        """Green only where the photos are known to show one place."""
        counted = f"{len(self.matches)} matches, "
        if self.overlap is None:
            return [(f"{counted}{verdict}; ", drawing.INK), (self.place, drawing.FAINT)]
        if self.overlap < UNCLEAR[1]:
            return [(f"{self.place}: ", drawing.RED), (f"{counted}{verdict}", drawing.FAINT)]
        return [(counted, drawing.INK), (verdict, drawing.GREEN)]

    def _in_colour(self) -> list[Array]:
        with ThreadPoolExecutor(2) as both:
            return list(both.map(drawing.picture_of, self.features))

    def save(self, path: str | Path, show: Shown = "matches") -> None:
        """The picture as PNG, JPEG or WebP, by the ending of the name."""
        drawing.save(self.draw(show), path)

    @property
    def place(self) -> str:
        """In words, whether the photos show one place."""
        if self.overlap is None:
            return "not known whether this is one place"
        if self.overlap < UNCLEAR[0]:
            return "not the same place"
        return "perhaps the same place" if self.overlap < UNCLEAR[1] else "the same place"

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
    max_keypoints: int | None = None,
    orientation: str = "auto",
    shape: str | Path = "auto",
    score_threshold: float | None = None,
    spread: bool | None = None,
    masks: tuple[Photo, Photo] | None = None,
    matcher: str | Path | Matcher = "consensus",
    ratio: float | None = None,
    fginn: float | None = None,
    refine: bool = True,
    geometry: str = "auto",
    threshold: float | None = None,
    focal: float | Sequence[float] | None = None,
    device: str | None = None,
) -> MatchedPhotos:
    """Extract, match, refine, verify.

    extractor: a name, the path of weights or of a features file, or an object, in place of detector and model.
    max_keypoints: per photo; None: 2048, or as an extractor that is an object was made.
    masks: two pictures as large as the photos; where they are black there are no keypoints.
    matcher: "consensus", "nearest", the path of LighterGlue's weights, or an object.
    ratio, fginn: options of the first two, as for `match`; without a ratio, "consensus" asks for none.
    orientation: "auto" takes the photos as upright unless orienting every keypoint gives more inliers.
    shape: elliptic regions: "affine-network", "baumberg", "none", or the path of a network such as AffNet; "auto":
        "affine-network" for DoG keypoints, but not for the model `light`, which is there to be fast.
    spread: keypoints over the photo, instead of the strongest anywhere; None: True, but False for DoG and a homography.
    refine: align the patches of every match, so that it is located more exactly than the detector does.
    geometry: as for `verify`, or "none" to keep all matches.
    focal: focal length in pixels, of both photos or of each; None: by EXIF, where the photos are files that tell it.
    threshold: pixels of the original photo from the geometry, of an inlier; None: as calibrated, else as usual.
    device: where the model runs, as for `hynet.load`.
    """
    choose({"auto": None, **THRESHOLDS, "none": None}, geometry, "geometry")
    settings = FeatureSettings().replace(
        detector=detector,
        model=model,
        max_keypoints=FeatureSettings.max_keypoints if max_keypoints is None else max_keypoints,
        orientation=orientation,
        shape=shape,
        score_threshold=score_threshold,
        spread=spread,
        extractor=str(extractor) if isinstance(extractor, str | Path) else None,
        device=device,
    )
    if geometry in ("auto", "fundamental"):
        DEGENSAC.start()  # its process is ready by the time there are matches
    clock = _Clock()
    with ThreadPoolExecutor(3) as beside:  # networks are opened while both photos are read
        if extractor is None or isinstance(extractor, str | Path):
            opening = beside.submit(settings.for_two_photos(geometry).open_extractor)
        else:
            settings.check_unused("the extractor")
            if max_keypoints is not None:
                raise BadInput("an extractor that is an object has its own max_keypoints; leave max_keypoints out.")
            opening = beside.submit(lambda: extractor)
        with clock("read"):
            first, second = images.at_hand(first), images.at_hand(second)
            grey, other_grey = beside.map(images.read, (first, second))  # (H, W) each
            photos, focals = (grey, other_grey), _focals(focal, first, second)
            pictures = images.remembered(first), images.remembered(second)
            black = (None, None) if masks is None else (images.read(masks[0]), images.read(masks[1]))
        with clock("load"):
            extract = opening.result()
            found_by = _opened(matcher, ratio, fginn)

    def compare(features: Sequence[Features]) -> _Compared:
        a, b = (
            replace(each, focal=each.focal if known is None else known, photo=shown)
            for each, known, shown in zip(features, focals, pictures, strict=True)
        )
        with clock("match"):
            matches = found_by(a, b)
        if refine and has_scales(a, b):
            with clock("refine"):
                if isinstance(extract, Extractor):
                    matches = refined(*photos, a, b, matches)
                else:
                    matches = refine_external(first, second, a, b, matches)
        with clock("verify"):
            asked = "fundamental" if geometry == "none" else geometry
            return _Compared((a, b), matches, verify(a, b, matches, asked, threshold=threshold))

    if isinstance(extract, Extractor):
        found = _compared_as_they_stand(extract, photos, black, compare, clock)
    else:
        with clock("extract"):
            features = extract_unmasked(extract, first, black[0]), extract_unmasked(extract, second, black[1])
        found = compare(features)
    matches, fit = found.matches, found.fit
    overlap = None if matches.confidence is None else same_place(matches.confidence, len(fit))
    _LOG.info("%d matches, %d inliers of geometry %s", len(matches), len(fit), fit.geometry)
    _LOG.info("seconds: %s", ", ".join(f"{stage} {spent:.2f}" for stage, spent in clock.seconds.items()))
    if geometry == "none":
        fit = Fit(matches, None, np.ones(len(matches), bool))
    return MatchedPhotos(
        photos,
        found.features,
        matches,
        inliers=fit.matches,
        is_inlier=fit.inliers,
        geometry=FoundGeometry(fit.geometry, fit.model, fit.why, fit.pose, fit.focal),
        overlap=overlap,
        seconds=clock.seconds,
        patch_size=extract.descriptor.patch_size if isinstance(extract, Extractor) else PATCH_SIZE,
        support=extract.support if isinstance(extract, Extractor) else SUPPORT_SIGMAS,
    )


@dataclass(frozen=True)
class _Compared:
    """What one description of the two photos gave."""

    features: tuple[Features, Features]
    matches: Matches
    fit: Fit


def _compared_as_they_stand(
    extract: Extractor,
    photos: tuple[Array, Array],
    masks: tuple[Array | None, Array | None],
    compare: Callable[[Sequence[Features]], _Compared],
    clock: _Clock,
) -> _Compared:
    """Upright where that gives enough; otherwise with oriented keypoints too, and what has more inliers."""

    def describe(keypoints: Sequence[Keypoints]) -> _Compared:
        with clock("describe"), ThreadPoolExecutor(2) as both:
            features = list(both.map(extract.describe, photos, keypoints))
        return compare(features)

    with clock("detect"), ThreadPoolExecutor(2) as both:
        keypoints = list(both.map(extract.detect_upright, photos, masks))
    found = None
    if extract.orientation != "gradient":
        found = describe(keypoints)
        if extract.orientation == "upright" or same_orientation(*found.features, found.fit.matches):
            return found
    with clock("detect"):
        turned = [extract.orient(*each) for each in zip(photos, keypoints, strict=True)]
    if found is not None and all(each is before for each, before in zip(turned, keypoints, strict=True)):
        return found  # a detector of one's own has its own angles
    oriented = describe(turned)
    return oriented if found is None or len(oriented.fit) > len(found.fit) else found


def _focals(focal: float | Sequence[float] | None, *photos: Photo) -> list[float | None]:
    """Of each photo, as told or by its EXIF."""
    if focal is None:
        return [images.focal(photo) for photo in photos]
    told = [*focal] if isinstance(focal, Sequence) else [focal, focal]
    if len(told) != 2 or not all(np.isfinite(each) and each > 0 for each in told):
        raise BadInput("give one focal length of both photos, or one of each, in pixels above 0.")
    return [*told]


def _opened(matcher: str | Path | Matcher, ratio: float | None, fginn: float | None) -> Matcher:
    if isinstance(matcher, str | Path):
        return open_with_ratio(matcher, ratio, fginn)
    if ratio is not None or fginn is not None:
        raise BadInput("ratio and fginn are options of matchers that are named; leave them out for an object.")
    return matcher


class _Clock:
    """with clock("read"): ...  adds up in clock.seconds["read"]."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
