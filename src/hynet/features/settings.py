"""How features are made, as plain values that can be saved, and sent to another process."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..errors import BadInput
from .extractors import MAX_KEYPOINTS, PhotoExtractor, open_extractor
from .extractors.patchwise import LONGEST, Extractor

# Settings that only "patchwise" understands -> the command's option
PATCHWISE = {
    "detector": "detector",
    "descriptor": "model",
    "upright": "upright",
    "orientation": "orientation",
    "shape": "shape",
    "longest": "longest",
    "affine": "affine",
    "score_threshold": "score-threshold",
    "spread": "spread",
    "support": "support",
    "device": "device",
}


@dataclass(frozen=True)
class FeatureSettings:
    """How a features file was made; stored in it, so that a second run does not mix two kinds of features."""

    detector: str = "dog"
    descriptor: str = "default"
    max_keypoints: int = MAX_KEYPOINTS
    upright: bool = False
    longest: int = LONGEST
    affine: bool = False
    score_threshold: float | None = None
    spread: bool = True
    mask: str | None = None  # folder of masks, that of a/b.jpg named a/b.jpg.png as in COLMAP
    support: float | None = None  # None: as calibrated, or as the model was trained
    weights: str | None = None  # fingerprint of the weights files; filled in by extract_all
    orientation: str = "auto"  # for auto, extract_all looks at the photos and decides
    shape: str = "none"  # or "baumberg", "affine-network", or the path of a network such as AffNet
    extractor: str | None = None  # name, weights or features file of an extractor, in place of detector and descriptor
    precision: str | None = None  # of the stored descriptors: "float16" or "int8"; None: as they are, float32
    device: str | None = None  # where the descriptor runs; not stored, as it says nothing about the features themselves

    @property
    def patchwise(self) -> bool:
        """Whether the features are made by a detector and a descriptor."""
        return self.extractor in (None, "patchwise")

    def open_extractor(self) -> PhotoExtractor:
        """What makes the features, ready to use."""
        if self.extractor is not None and not self.patchwise:
            self.check_alone(self.extractor)
            return open_extractor(self.extractor, self.max_keypoints)
        return Extractor(
            self.detector,
            self.descriptor,
            self.max_keypoints,
            self.upright,
            longest=self.longest,
            affine=self.affine,
            score_threshold=self.score_threshold,
            spread=self.spread,
            support=self.support,
            orientation=self.orientation,
            shape=self.shape,
            device=self.device,
        )

    def asked_of_patchwise(self) -> list[str]:
        """The options that only a detector and a descriptor understand, if they are not at their defaults."""
        defaults = {each.name: each.default for each in fields(self)}
        return [option for name, option in PATCHWISE.items() if getattr(self, name) != defaults[name]]

    def check_alone(self, extractor: str) -> None:
        """Refuse options that this extractor would ignore."""
        if asked := self.asked_of_patchwise():
            raise BadInput(f"{extractor} finds and describes keypoints by itself; leave out {', '.join(asked)}.")
