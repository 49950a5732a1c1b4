"""COLMAP as NumPy: its database, verification, mapping and models. The only folder that touches pycolmap, and the only
one that adds its half pixel: what comes in and goes out is in our pixels, the centre of the first one at (0, 0).

Names that a reconstruction needs are here; `reading`, `pose`, `undistortion` and `programs` have the others.
"""

from __future__ import annotations

from .cameras import Camera, guess_camera, parse_camera, pinhole_text
from .database import Store, Verifiable, colmap_keypoints, opened, verifiable, verify_pair
from .mapping import MAPPERS, MappingTask, adjust, map_photos
from .model import MODEL_FILES, Model, ModelPhoto, as_arrays, move, open_model, registered, write_model
from .package import NotReconstructed, pycolmap
from .tables import Funnel, check_database, read_funnel

__all__ = [
    "MAPPERS",
    "MODEL_FILES",
    "Camera",
    "Funnel",
    "MappingTask",
    "Model",
    "ModelPhoto",
    "NotReconstructed",
    "Store",
    "Verifiable",
    "adjust",
    "as_arrays",
    "check_database",
    "colmap_keypoints",
    "guess_camera",
    "map_photos",
    "move",
    "open_model",
    "opened",
    "parse_camera",
    "pinhole_text",
    "pycolmap",
    "read_funnel",
    "registered",
    "verifiable",
    "verify_pair",
    "write_model",
]
