"""The options of matching photos: what the command line, Python and the page pass on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np

from ..errors import BadInput, choose
from ..features.settings import FeatureOptions, FeatureSettings
from . import Matcher, open_matcher

TAKE_RATIOS = ("consensus", "nearest")
# geometry -> how far from the model a match may be, in pixels of the original photo, where nothing was calibrated
THRESHOLDS = {"fundamental": 1.0, "homography": 3.0, "essential": 1.0, "shared-focal": 1.0}
GEOMETRIES = ("auto", *THRESHOLDS)


class MatchOptions(FeatureOptions, total=False):
    """The fields of MatchSettings and of its FeatureSettings as keyword arguments, some of which also take objects."""

    matcher: str | Path | Matcher
    ratio: float | None
    fginn: float | None
    refine: bool
    geometry: str
    threshold: float | None
    focal: float | Sequence[float] | None


@dataclass(frozen=True)
class MatchSettings:
    """Options for matching photos.

    Args:
        matcher: consensus (keeps matches that are probably correct, given their ratio and neighbours that moved alike),
            nearest (a ratio test alone), or the path to LighterGlue's weights for XFeat features.
        ratio: Keep a match only if its distance is below this times that of the second-nearest; 1 keeps all. By default
            consensus uses none, and nearest the one calibrated for the model.
        fginn: The second-nearest must be more than this many pixels away from the match, 10 is usual; by default it may
            be anywhere.
        refine: Locate the matches of two photos more exactly, by aligning both patches of each; otherwise they stay
            where the keypoints were detected. Many pairs are never refined: hloc's layout has one place per keypoint.
        geometry: What the inliers agree on. auto: essential if both focal lengths are known and fit the matches, one
            unknown focal length (shared-focal) if that fits photos of the same size, else fundamental. none keeps all
            matches.
        threshold: Inlier threshold in pixels of the original photo; by default as calibrated for the model.
        focal: Focal length in pixels, one for both photos or one for each; by default from EXIF, if it is there.
    """

    features: FeatureSettings = field(default_factory=FeatureSettings)
    matcher: str = "consensus"
    ratio: float | None = None
    fginn: float | None = None
    refine: bool = True
    geometry: Literal["auto", "fundamental", "homography", "essential", "shared-focal", "none"] = "auto"
    threshold: float | None = None
    focal: tuple[float, ...] = ()

    def replace(self, **options: Unpack[MatchOptions]) -> MatchSettings:
        """Return the settings with these options in place of their own, those of features among them."""
        names = {each.name for each in fields(self)}
        own: dict[str, Any] = {name: value for name, value in options.items() if name in names}
        others: Any = {name: value for name, value in options.items() if name not in names}
        return replace(self, features=self.features.replace(**others), **own) if options else self

    def for_two_photos(self) -> MatchSettings:
        """Return the settings with all chosen that suits two photos, and options that are for many refused."""
        choose(dict.fromkeys((*GEOMETRIES, "none")), self.geometry, "geometry")
        if isinstance(self.features.mask, str):
            raise BadInput("a folder of masks is for many photos; give a mask for each of the two photos.")
        if self.features.precision != FeatureSettings.precision:
            raise BadInput("precision is for stored features; leave it out for two photos.")
        return replace(self, features=self.features.for_two_photos(self.geometry))

    def focal_of_each(self) -> tuple[float, float] | None:
        """Return the focal lengths that were given for two photos."""
        given = self.focal if isinstance(self.focal, Sequence) else () if self.focal is None else (self.focal,)
        if len(given) > 2 or not all(np.isfinite(each) and each > 0 for each in given):
            raise BadInput("give one focal length of both photos, or one of each, in pixels above 0.")
        return (given[0], given[-1]) if given else None

    def open_matcher(self) -> Matcher:
        """Open the matcher, with its options where it takes those that are given."""
        options = {name: value for name in ("ratio", "fginn") if (value := getattr(self, name)) is not None}
        if not isinstance(self.matcher, str | Path):
            if options:
                raise BadInput("ratio and fginn are options of matchers that are named; leave them out for an object.")
            return self.matcher
        if options and self.matcher not in TAKE_RATIOS:
            raise BadInput(
                f"the matcher {self.matcher} does not take {' or '.join(options)}; consensus and nearest do."
            )
        return open_matcher(self.matcher, **options)
