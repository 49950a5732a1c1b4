"""Everything the matcher takes from the package: when a module there moves, only this file changes."""

from __future__ import annotations

from hynet import images
from hynet.detectors.orientation import peaks
from hynet.detectors.selection import best_rows
from hynet.extractors.patchwise import Extractor
from hynet.geometry import Pose, pose_error, relative_pose
from hynet.matchers.confidence import BY_NEIGHBOURS, BY_RATIO, DISTINCT, LITTLE, NEAR, NEIGHBOURS, STRETCH
from hynet.matchers.nearest import match
from hynet.metrics import auc_credits
from hynet.system.files import whole
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
    "auc_credits",
    "best_rows",
    "images",
    "match",
    "peaks",
    "pose_error",
    "relative_pose",
    "whole",
]
