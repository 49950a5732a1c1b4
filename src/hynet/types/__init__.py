"""The nouns that flow through the package. Read this first.

Pixels everywhere: (x, y), the CENTRE of the top-left pixel is (0, 0), y points down, angles turn from x towards y.
Letters everywhere: N keypoints or pairs, D descriptor size, P patches, S patch side, K matches, H and W pixels.
All values are frozen and checked once, when they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..runtime.arrays import Array as Array
from .features import Features as Features
from .features import need_features as need_features
from .keypoints import LAF_SUPPORT as LAF_SUPPORT
from .keypoints import Keypoints as Keypoints
from .matches import Matches as Matches
from .patches import PatchPairs as PatchPairs
from .patches import PatchSet as PatchSet
from .table import Table as Table

Pair = tuple[str, str]  # the names of two photos

# Points found in one image nearer to each other than this may be one thing, found twice (Winder and Brown, 2007).
DIFFERENT_PIXELS = 10.0

# Long work reports by progress(done, total, what). The library never prints; the command line draws a bar.
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, what: str) -> None:
    """Progress that is not shown: the default."""


class Descriptor(Protocol):
    """Patches to unit vectors. Any square patch size goes in; it is resized once.

    A class of your own that inherits this has the defaults of `support` and `ratio`.
    """

    patch_size: int
    dim: int
    support: float | None = None  # full width of a patch, in detector sigmas, that it was trained with; None: the usual
    ratio: float | None = None  # the ratio test that suits it; None: not known

    def describe(self, patches: Array) -> Array:
        """(N, S, S) uint8 -> (N, dim) float32 unit rows."""
        ...


class Detector(Protocol):
    """Finds keypoints in a photo."""

    def __call__(self, image: Array, mask: Array | None = None) -> Keypoints:
        """(H, W) grey uint8 -> Keypoints, none of them where the mask (H, W) is zero."""
        ...
