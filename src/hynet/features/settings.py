"""The one list of options for making features: what the command line, Python, the page and a cluster pass on."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from ..errors import BadInput

if TYPE_CHECKING:
    from ..types import Descriptor, Detector
    from .extractors import PhotoExtractor

Documented = TypeVar("Documented", bound=Callable[..., Any])

ORIENTATIONS = ("auto", "upright", "gradient")
# Options that do not say how a detector and a descriptor work together, so that every extractor has them
COMMON = ("max_keypoints", "mask", "extractor", "precision")
RENAMED = {
    "descriptor": "model=...",
    "masks": "mask=...",
    "upright": 'orientation="upright"',
    "affine": 'shape="baumberg"',
}


class FeatureOptions(TypedDict, total=False):
    """The fields of FeatureSettings as keyword arguments, some of which also take paths and ready objects."""

    detector: str | Path | Detector
    model: str | Path | Descriptor
    max_keypoints: int
    orientation: str
    shape: str | Path
    score_threshold: float | None
    spread: bool | None
    mask: str | Path | tuple[str, str] | tuple[Any, Any] | None
    support: float | None
    longest: int
    extractor: str | Path | PhotoExtractor | None
    precision: str
    device: str | None


@dataclass(frozen=True)
class FeatureSettings:
    """Options for making features; stored with them, so that a second run does not mix two kinds.

    Args:
        detector: What finds keypoints: dog, keynet, or the path of your own Key.Net.
        model: What describes keypoints: default, light, rootsift and others, or the path of your own weights.
        max_keypoints: Maximum number of keypoints per photo.
        orientation: Whether keypoints are rotated to the dominant gradient direction (gradient) or not (upright). auto:
            two photos are taken as upright unless rotating every keypoint gives more inliers; many photos, unless some
            are rotated relative to others; a photo alone gets gradient.
        shape: Elliptical regions, for surfaces seen at an angle: affine-network, baumberg, none, or the path of a
            network such as AffNet. auto: affine-network for two photos with DoG keypoints, unless the model is light;
            none otherwise.
        score_threshold: Drop keypoints with a lower score; by default the detector's usual threshold.
        spread: Spread keypoints over the photo instead of taking the strongest anywhere; by default they are spread,
            except those of DoG where two photos are to agree on a homography.
        mask: For two photos, two pictures of the same size as they; for many, a folder of masks, that of photo a/b.jpg
            named a/b.jpg.png as in COLMAP. There are no keypoints where a mask is black; a photo without one is used
            whole.
        support: Full width of a described patch in detector sigmas; by default as calibrated, or as the model was
            trained.
        longest: Detect keypoints in a photo shrunk to at most this many pixels on its longest side.
        extractor: Detects and describes keypoints in one pass, in place of detector and model: the path to weights of
            ALIKED, R2D2 or XFeat, a features file, or a name such as opencv-sift.
        precision: Number format of stored descriptors: float16 takes half the disk space, int8 a quarter. hloc reads
            all of them, int8 as integers that it must scale to unit length itself.
        device: Where the model runs: cpu, cuda, cuda:1, mps. By default a GPU if torch runs it and has one.
    """

    detector: str = "dog"
    model: str = "default"
    max_keypoints: int = 2048
    orientation: Literal["auto", "upright", "gradient"] = "auto"
    shape: str = "auto"
    score_threshold: float | None = None
    spread: bool | None = None
    mask: str | tuple[str, str] | None = None
    support: float | None = None
    longest: int = 1600  # as hloc does for SIFT: time and memory stay bounded
    extractor: str | None = None
    precision: Literal["float32", "float16", "int8"] = "float32"
    device: str | None = None  # never stored, as it says nothing about the features themselves

    def replace(self, **options: Unpack[FeatureOptions]) -> FeatureSettings:
        """Return the settings with these options in place of their own; a renamed option is refused."""
        for name in options.keys() & RENAMED.keys():
            raise BadInput(f"there is no option {name}; give {RENAMED[name]} instead.")
        as_text = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
        return replace(self, **as_text)  # type: ignore[arg-type]

    @property
    def patchwise(self) -> bool:
        """True if a detector and a descriptor of patches make the features."""
        return self.extractor in (None, "patchwise")

    def open_extractor(self) -> PhotoExtractor:
        """Open the networks that these settings name."""
        from .extractors import open_extractor
        from .extractors.patchwise import Extractor

        if self.patchwise:
            return Extractor(self.replace(mask=None, precision="float32"))  # which are for who reads and stores
        assert self.extractor is not None
        if not isinstance(self.extractor, str):  # an object of one's own
            self.check_unused("the extractor")
            if self.max_keypoints != FeatureSettings.max_keypoints:
                raise BadInput("an extractor that is an object has its own max_keypoints; leave max_keypoints out.")
            return self.extractor
        self.check_unused(self.extractor)
        return open_extractor(self.extractor, self.max_keypoints)

    def for_many_photos(self) -> FeatureSettings:
        """Return the settings with everything chosen that does not depend on the photos."""
        return self.replace(shape="none" if self.shape == "auto" else self.shape, spread=self.spread is not False)

    def for_two_photos(self, geometry: str = "auto") -> FeatureSettings:
        """Return the settings with shape and spread chosen as suits a pair of photos and the geometry asked for."""
        if not self.patchwise:
            return self
        shape = usual_shape(self.detector, self.model) if self.shape == "auto" else self.shape
        return self.replace(
            shape=shape, spread=usual_spread(self.detector, geometry) if self.spread is None else self.spread
        )

    def asked_of_patchwise(self) -> list[str]:
        """Options of the command line that only a detector and a descriptor understand and that are not at defaults."""
        usual = [FeatureSettings(), FeatureSettings().for_many_photos()]
        own = [each.name for each in fields(self) if each.name not in COMMON]
        asked = [name for name in own if getattr(self, name) not in [getattr(each, name) for each in usual]]
        return [name.replace("_", "-") for name in asked]

    def check_unused(self, extractor: str) -> None:
        """Refuse options that this extractor would ignore."""
        if asked := self.asked_of_patchwise():
            raise BadInput(f"{extractor} finds and describes keypoints by itself; leave out {', '.join(asked)}.")

    def to_json(self, weights: str | None = None) -> str:
        """Return what is stored with features, with the fingerprint of the weights that made them."""
        stored = {name: value for name, value in asdict(self).items() if name != "device"}
        return json.dumps(stored | {"weights": weights})


def usual_shape(detector: str | Path, model: str | Path) -> str:
    """The shape that two photos are matched with: elliptic regions, but for `light`, which is there to be fast."""
    return "affine-network" if str(detector) == "dog" and str(model) != "light" else "none"


def usual_spread(detector: str | Path, geometry: str) -> bool:
    """False where the strongest keypoints are better than spread ones: DoG's on a plane."""
    return not (geometry == "homography" and str(detector) == "dog")


def stored_settings(text: object) -> dict[str, Any] | None:
    """Stored settings by name, those of earlier versions under the names of now; None for what others wrote."""
    try:
        stored = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(stored, dict):
        return None
    if "descriptor" in stored:
        stored["model"] = stored.pop("descriptor")
    if stored.pop("upright", False):
        stored["orientation"] = "upright"
    if stored.pop("affine", False) and stored.get("shape", "none") == "none":
        stored["shape"] = "baumberg"
    usual = {**json.loads(FeatureSettings().for_many_photos().to_json()), **stored}
    return usual | {"precision": usual["precision"] or "float32"}


def from_stored(text: object) -> tuple[FeatureSettings, str | None]:
    """The settings that features were made with, and the fingerprint of their weights, or ValueError."""
    stored = stored_settings(text)
    if stored is None:
        raise ValueError("not the settings of features")
    weights = stored.pop("weights")
    try:
        return FeatureSettings(**stored), weights
    except TypeError as error:
        raise ValueError(str(error)) from None


def with_options(*settings: type) -> Callable[[Documented], Documented]:
    """Decorator that shows the fields of settings classes in the signature and docstring, in place of **options."""

    def documented(function: Documented) -> Documented:
        own, *options = (inspect.cleandoc(each.__doc__ or "") for each in (function, *settings))
        listed = "".join(each.partition("Args:")[2] for each in options)
        function.__doc__ = f"{own}\n\nOptions:{listed}"
        signature = inspect.signature(function)
        given = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        named = [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in itertools.chain.from_iterable(map(fields, settings))
            if each.default is not MISSING
        ]
        function.__signature__ = signature.replace(parameters=[*given, *named])  # type: ignore[attr-defined]
        return function

    return documented
