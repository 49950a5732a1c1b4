"""Add our features and verified matches to an existing COLMAP database, beside those already in it.

Example: hynet colmap-features photos/ --database db

The database is one made by `colmap feature_extractor --database_path db --image_path photos/`, matched or not;
`colmap mapper` then builds a model from both kinds of features.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from ..features.settings import FeatureSettings
from ..sfm.additions import add_features
from . import Report
from .progress import bar

SETTINGS = FeatureSettings(max_keypoints=4096)
COMMON = ("features", "extractor", "detector", "model", "max-keypoints", "pairs")


def run(
    photos: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PHOTOS")],
    *,
    database: Path,
    features: Path | None = None,
    settings: tyro.conf.OmitArgPrefixes[FeatureSettings] = SETTINGS,
    pairs: str = "auto",
    ratio: float | None = None,
) -> Report:
    """Add features and matches to a database.

    Args:
        photos: The folder of the photos; the database names each photo by its path below this folder.
        database: COLMAP's database.
        features: The file that keeps our features; by default beside the database.
        pairs: exhaustive, retrieval, sequence, or a file with two names per line; auto: exhaustive for up to 200
            photos, retrieval beyond.
        ratio: Keep a match only if its distance is below this times that of the second-nearest; by default matches
            are kept by their probability instead, as in `hynet match`.
    """
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
