"""Photos of a reconstruction, and what their features and matches are made of; checked before any long work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import images
from ..errors import BadInput, DataNotFound
from ..features.addresses import find_masks, name_photos
from ..features.extractors import PhotoExtractor
from ..features.hloc_file import FeaturesFile
from ..features.settings import FeatureSettings
from ..matching.hloc_matches import MatchesFile
from ..matching.nearest import check_ratio
from ..runtime import fingerprints
from ..runtime.files import as_path
from . import colmap
from .colmap import NotReconstructed

KEYPOINTS = 4096  # per photo, by default


@dataclass(frozen=True)
class Inputs:
    """The photos of a run, and what their features and matches are made of; built once, before anything is written."""

    folder: Path
    photos: Mapping[str, Path]
    masks: Mapping[str, Path]
    settings: FeatureSettings
    extract: PhotoExtractor | None  # None where the features are in a file already
    file: Path | None  # that file
    matched: MatchesFile | None
    noted: Mapping[str, Any]  # what matches depend on, by the names of the command's options

    @classmethod
    def read(
        cls,
        folder: str | Path,
        settings: FeatureSettings,
        features: str | Path | None,
        matches: str | Path | None,
        ratio: float | None,
        camera: str | Mapping[str, str],
    ) -> Inputs:
        """List the photos, and open what makes their features."""
        folder = images.home(as_path(folder, "the folder of the photos"))
        if not folder.is_dir():
            raise DataNotFound(f"no folder {folder}; give the folder that holds the photos.")
        check_ratio(ratio)
        photos = name_photos(folder)
        if len(photos) < 2:
            raise NotReconstructed("one photo is not enough; a reconstruction needs two or more that overlap.")
        _check_cameras(camera, photos)
        if features is not None:
            _check_unused(settings, features)
        extract = settings.open_extractor() if features is None else None
        if isinstance(extract, FeaturesFile):
            features, extract = extract.path, None
        noted: dict[str, Any] = {"ratio": ratio, "camera": camera if isinstance(camera, str) else dict(camera)}
        matched = None
        if matches is not None:
            if features is None:
                raise BadInput("matches are pairs of rows of a features file; give that file as the features, too.")
            if ratio is not None:
                raise BadInput("the ratio test is for matches of our own; leave out the ratio, or the matches.")
            matched = MatchesFile(matches, photos.keys())
            noted["matches"] = str(Path(matches).resolve())
            noted["matches_content"] = fingerprints.content(Path(matches))[:16]
        if features is None:
            noted = _made_with(settings) | noted
        masks = {} if features is not None else find_masks(settings.mask, photos)
        return cls(
            folder, photos, masks, settings, extract, None if features is None else Path(features), matched, noted
        )

    def aligned(self, photos: Mapping[str, Path]) -> dict[str, Path]:
        """Return the photos that the model can be refined with.

        Of photos that EXIF turns, other programs may have detected keypoints as they lie.
        """
        return {name: photo for name, photo in photos.items() if self.file is None or not images.is_turned(photo)}


def _check_cameras(camera: str | Mapping[str, str], photos: Mapping[str, Path]) -> None:
    if isinstance(camera, Mapping) and (without := next((name for name in photos if name not in camera), None)):
        raise BadInput(f"no camera of {without} is given; give one of each photo, by its name.")
    for each in camera.values() if isinstance(camera, Mapping) else [camera]:
        if each not in ("auto", "shared"):
            colmap.parse_camera(each, (1, 1))
        elif isinstance(camera, Mapping):
            raise BadInput(
                f"{each!r} is for all photos; give a known camera of each, or {each!r} in place of them all."
            )


def _check_unused(settings: FeatureSettings, features: str | Path) -> None:
    """Refuse options for features that are there already, which would be ignored."""
    if settings.extractor is not None:
        raise BadInput(f"{features} and the extractor {settings.extractor} both give features; leave one of them out.")
    asked = settings.asked_of_patchwise()
    asked += ["max-keypoints"] if settings.max_keypoints not in (KEYPOINTS, FeatureSettings.max_keypoints) else []
    asked += ["mask"] if settings.mask else []
    if asked:
        raise BadInput(f"{features} holds features that are made already; leave out {', '.join(asked)}, or the file.")


def _made_with(settings: FeatureSettings) -> dict[str, Any]:
    """Options of features that a note names, by the names of the command's options, for who runs it again."""
    if not settings.patchwise:
        return {"extractor": settings.extractor, "max_keypoints": settings.max_keypoints}
    own = {"detector": settings.detector, "model": settings.model}
    own |= {} if settings.shape in ("auto", "none") else {"shape": settings.shape}
    own |= {} if settings.orientation == "auto" else {"orientation": settings.orientation}
    return {**own, "max_keypoints": settings.max_keypoints}
