"""COLMAP as NumPy: its database, verification, mapping and models. The only folder that touches pycolmap, and the only
one that adds its half pixel: what comes in and goes out is in our pixels, the centre of the first one at (0, 0)."""

from __future__ import annotations

from .cameras import Camera, guess_camera, parse_camera, pinhole_text
from .database import Funnel, Store, Verifiable, colmap_keypoints, opened, read_funnel, verifiable, verify_pair
from .dense import dense_points
from .mapping import MAPPERS, MappingTask, adjust, map_photos
from .model import MODEL_FILES, Model, ModelPhoto, as_arrays, move, open_model, read_model, registered, write_model
from .package import NotReconstructed, pycolmap
from .pose import AbsolutePose, absolute_pose
from .sift import extract_sift, match_sift
from .tables import check_database
from .undistortion import bent, pinhole_camera, write_straight_model

__all__ = [
    "MAPPERS",
    "MODEL_FILES",
    "AbsolutePose",
    "Camera",
    "Funnel",
    "MappingTask",
    "Model",
    "ModelPhoto",
    "NotReconstructed",
    "Store",
    "Verifiable",
    "absolute_pose",
    "adjust",
    "as_arrays",
    "bent",
    "check_database",
    "colmap_keypoints",
    "dense_points",
    "extract_sift",
    "guess_camera",
    "map_photos",
    "match_sift",
    "move",
    "open_model",
    "opened",
    "parse_camera",
    "pinhole_camera",
    "pinhole_text",
    "pycolmap",
    "read_funnel",
    "read_model",
    "registered",
    "verifiable",
    "verify_pair",
    "write_model",
    "write_straight_model",
]
