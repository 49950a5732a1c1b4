"""Our features and verified matches into a COLMAP database that someone else made, beside those that are in it.

Example: hynet colmap-features photos/ --database db

The database is what `colmap feature_extractor --database_path db --image_path photos/` made, matched or not; then
`colmap mapper` makes a model from both kinds of features.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..extractors.settings import Settings
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
        photos: The folder that holds the photos; the database names them by their path below it.
        database: COLMAP's database.
        features: The file that keeps our features; by default beside the database.
        extractor: What finds and describes keypoints at once, in place of detector and model.
        model: What describes keypoints: a name, or the path of weights.
        detector: What finds them: dog, keynet, or the path of a Key.Net of your own.
        max_keypoints: The most keypoints per photo, beside those that are there.
        orientation: Whether keypoints are turned to where it gets brighter (gradient) or not (upright).
        pairs: exhaustive, retrieval, sequence, or a file with two names a line; auto is exhaustive for up to 200 photos
            and retrieval beyond.
        ratio: Keep a match only if it is nearer than this times the runner-up; by default matches are kept by their
            probability instead, as in `hynet match`.
    """
    settings = Settings(detector, model, max_keypoints, orientation=orientation, extractor=extractor)
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
