"""Everything the matcher takes from the package: when a module there moves, only this file changes."""

from __future__ import annotations

from hynet import images
from hynet.features.detectors.orientation import peaks
from hynet.features.detectors.selection import best_rows
from hynet.features.extractors.patchwise import Extractor
from hynet.geometry.metrics import auc_credits
from hynet.geometry.two_views import Pose, pose_error
from hynet.matching.confidence import BY_NEIGHBOURS, BY_RATIO, DISTINCT, LITTLE, NEAR, NEIGHBOURS, STRETCH
from hynet.matching.nearest import match
from hynet.runtime.files import atomic_write
from hynet.types import Array, Features, Keypoints

__all__ = [
    "BY_NEIGHBOURS",
    "BY_RATIO",
    "DISTINCT",
    "LITTLE",
    "NEAR",
    "NEIGHBOURS",
    "STRETCH",
    "Array",
    "Extractor",
    "Features",
    "Keypoints",
    "Pose",
    "atomic_write",
    "auc_credits",
    "best_rows",
    "images",
    "match",
    "peaks",
    "pose_error",
]
