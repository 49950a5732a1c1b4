"""Features x Features -> Matches: mutual nearest neighbours that are probably right, by their ratio and neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Features, Matches
from .confidence import LEAST, has_scales
from .nearest import match


@dataclass(frozen=True)
class Consensus:
    """Matcher that keeps probable matches; keypoints without size are matched by the ratio test alone."""

    ratio: float | None = None  # a ratio test besides; None: none
    fginn: float | None = None
    least: float = LEAST
    rounded: bool = False  # by products of whole numbers: faster, and nearly always the same

    def __call__(self, a: Features, b: Features) -> Matches:
        if not has_scales(a, b):
            return match(a, b, self.ratio, fginn=self.fginn, rounded=self.rounded)
        ratio = 1.0 if self.ratio is None else self.ratio
        found = match(a, b, ratio, fginn=self.fginn, rounded=self.rounded)
        assert found.confidence is not None  # they are mutual
        return found[found.confidence >= self.least]
