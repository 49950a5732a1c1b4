"""Add our features and verified matches to an existing COLMAP database, beside those already in it.

Example: hynet colmap-features photos/ --database db

The database is one made by `colmap feature_extractor --database_path db --image_path photos/`, matched or not;
`colmap mapper` then builds a model from both kinds of features.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..features.settings import FeatureSettings
from ..sfm.additions import add_features
from . import Report
from .progress import bar


def run(
    photos: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTOS")],
    *,
    database: Path,
    features: Path | None = None,
    extractor: str | None = None,
    model: str = "default",
    detector: str = "dog",
    max_keypoints: int = 4096,
    orientation: Literal["auto", "upright", "gradient"] = "auto",
    pairs: str = "auto",
    ratio: float | None = None,
) -> Report:
    """Add features and matches to a database.

    Args:
        photos: The folder of the photos; the database names each photo by its path below this folder.
        database: COLMAP's database.
        features: The file that keeps our features; by default beside the database.
        extractor: Detects and describes keypoints in one pass, in place of detector and model.
        model: What describes keypoints: a name, or a path to weights.
        detector: What detects keypoints: dog, keynet, or the path of your own Key.Net.
        max_keypoints: Maximum number of keypoints per photo, in addition to those already there.
        orientation: Whether keypoints are rotated to the dominant gradient direction (gradient) or not (upright).
        pairs: exhaustive, retrieval, sequence, or a file with two names per line; auto: exhaustive for up to 200
            photos, retrieval beyond.
        ratio: Keep a match only if its distance is below this times that of the second-nearest; by default matches
            are kept by their probability instead, as in `hynet match`.
    """
    settings = FeatureSettings(
        detector=detector, model=model, max_keypoints=max_keypoints, orientation=orientation, extractor=extractor
    )
    with bar() as progress:
        done = add_features(
            photos, database, settings=settings, features=features, pairs=pairs, ratio=ratio, progress=progress
        )
    lines = [
        f"{done.keypoints} keypoints of {done.photos} photos and {done.matches} matches of {done.pairs} pairs were "
        f"added to {database}; with those that were there, {done.inliers} matches are inliers."
    ]
    if done.left:
        lines += [f"{len(done.left)} photos were left as they are:", *(f"  {why}" for why in done.left.values())]
    return Report("\n".join(lines), asdict(done))
