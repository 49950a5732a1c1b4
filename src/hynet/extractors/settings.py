"""How features are made, as plain values: they can be written down, and sent to another process."""

from __future__ import annotations

from dataclasses import dataclass

from .patchwise import LONGEST, Extractor


@dataclass(frozen=True)
class Settings:
    """How a features file was made; kept in it, so that a second run does not mix two kinds."""

    detector: str = "dog"
    descriptor: str = "default"
    max_keypoints: int = 2048
    upright: bool = False
    longest: int = LONGEST
    affine: bool = False
    score_threshold: float | None = None
    spread: bool = False
    mask: str | None = None  # folder of masks, that of a/b.jpg named a/b.jpg.png as in COLMAP
    support: float | None = None  # None: as calibrated, or as the model was trained
    weights: str | None = None  # fingerprint of the files of weights; filled in by extract_all

    def extractor(self) -> Extractor:
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
        )
