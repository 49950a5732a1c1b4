"""Localising new photos in an existing reconstruction: similar photos, the points that are seen, the pose.

here = Map("model/")                    # loaded once
for photo in queries:
    found = here.locate(photo)          # .located, .cam_from_world, .inliers, .confidence
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import images
from ..errors import BadData, BadInput, DataNotFound, UnreadableImage
from ..features.addresses import name_photos
from ..features.collection import known_by
from ..features.extractors import PhotoExtractor, open_extractor
from ..features.extractors.patchwise import Extractor
from ..features.hloc_file import are_features, h5_names, open_features, read_h5, unit_features
from ..features.settings import from_stored
from ..features.shards import weights_of
from ..images import drawing
from ..matching.consensus import Consensus
from ..runtime import fingerprints
from ..runtime.files import atomic_write, make_folder
from ..runtime.locks import exclusive_lock
from ..types import Array, Features, Progress, silent
from . import colmap
from .colmap import Camera, ModelPhoto
from .colmap.pose import AbsolutePose, absolute_pose
from .colmap.reading import read_model
from .retrieval import learn_vectors

NEIGHBOURS = 10  # photos of the map that a query is matched with
INLIER_PIXELS = 0.005  # of the longer side: 8 pixels of 1600
BY_CHANCE = 8  # inliers; photos of other places reached 5 at most: docs/reconstruction.md
CERTAIN = 3.0  # each so many inliers more halve the doubt
SAME_FOCAL = 0.03  # of the focal length: EXIF rounds
MODEL = ("cameras", "images", "points3D")  # the files of a model, as .bin or .txt
IN_MEMORY = 64  # photos of the map whose features are kept


@dataclass(frozen=True)
class Located:
    """Pose of a photo, or the finding that it was not taken here."""

    located: bool
    inliers: int  # points of the map seen where they should be
    confidence: float  # 0 to 1
    matches: int  # points of the map that were recognised, rightly or not
    alike: tuple[str, ...]  # photos of the map, the most alike first
    camera: Camera | None = None
    cam_from_world: Array | None = None  # (3, 4)
    covariance: Array | None = None  # (6, 6) of turn (radians) and shift
    xy: Array | None = None  # (inliers, 2) keypoints
    projected: Array | None = None  # (inliers, 2) where their points are seen from the pose

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        camera = self.camera
        return {
            "located": self.located,
            "cam_from_world": None if self.cam_from_world is None else self.cam_from_world.tolist(),
            "inliers": self.inliers,
            "confidence": round(self.confidence, 4),
            "matches": self.matches,
            "alike": list(self.alike),
            "covariance": None if self.covariance is None else self.covariance.tolist(),
            "camera": None
            if camera is None
            else {"model": camera.model, "size": list(camera.size), "params": list(camera.params)},
        }

    def draw(self, photo: str | Path | Array) -> Array:
        """Draw the photo with the recognised keypoints and the map's points as seen from the pose. (H, W, 3)."""
        nothing = np.zeros((0, 2))
        said = f"{self.inliers} inliers, confidence {self.confidence:.2f}" if self.located else "not of this place"
        return drawing.reprojections(
            images.read(photo),
            nothing if self.xy is None else self.xy,
            nothing if self.projected is None else self.projected,
            [(said, drawing.INK)],
        )


class Map:
    """A reconstruction to look photos up in. Memory stays bounded, however many photos it has and are looked up.

    features: its features file in hloc's layout, where `hynet reconstruct` did not make it.
    extractor: what describes queries, where the features are of others: weights, a features file of the queries, or an
        object of one's own.
    camera: "auto" (by EXIF, else of the photos that look alike, else estimated), or known as "PINHOLE,fx,fy,cx,cy".
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        features: str | Path | None = None,
        extractor: str | Path | PhotoExtractor | None = None,
        camera: str = "auto",
        neighbours: int = NEIGHBOURS,
    ) -> None:
        folder = Path(folder)
        if neighbours < 1:
            raise BadInput(f"the neighbours must be at least 1, got {neighbours}.")
        if not folder.is_dir():
            raise DataNotFound(
                f"no map {folder}; give the folder of a reconstruction, as `hynet reconstruct` makes it."
            )
        model = read_model(folder)
        self._file = _features_file(folder, features)
        known = set(h5_names(self._file))
        self._photos: dict[str, ModelPhoto] = {photo.name: photo for photo in model.photos if photo.name in known}
        if not self._photos:
            raise BadData(
                f"{self._file} holds features of no photo in the map {folder}; give those that it was made of."
            )
        self._xyz = model.xyz
        self._camera, self._neighbours = camera, neighbours
        if camera != "auto":
            colmap.parse_camera(camera, (1, 1))
        self._extract = _query_extractor(self._file, extractor)
        files = [fingerprints.content(path) for path in sorted(folder.iterdir()) if path.stem in MODEL]
        files += [fingerprints.content(path) for path in known_by(self._file)]
        weights = fingerprints.weights(Path(extractor)) if isinstance(extractor, str | Path) else None
        self.fingerprint = fingerprints.values([files, str(extractor), weights, camera, neighbours])
        names = list(self._photos)
        self._vectors, self._rows = learn_vectors(names, lambda name: self._read(name).descriptors)
        self._features = lru_cache(maxsize=IN_MEMORY)(self._read)

    def locate(self, photo: str | Path | Array, camera: str | None = None) -> Located:
        """Localise one photo. camera: its own, in place of the map's rule."""
        features = self._extract(photo)
        alike = self.alike(features)
        rows, points = self._recognised(features, alike)
        xy = features.keypoints.xy[rows]
        if (camera or self._camera) == "auto":
            seen_with = self._likely_camera(photo, features.image_size, alike)
        else:
            seen_with = colmap.parse_camera(camera or self._camera, features.image_size)
        found = absolute_pose(seen_with, xy, self._xyz[points], INLIER_PIXELS * max(features.image_size))
        if found is None:
            return Located(False, 0, 0.0, len(rows), alike)
        # A keypoint may be matched with several points, and a point with several keypoints: each counts once.
        inliers = min(len(np.unique(rows[found.inliers])), len(np.unique(points[found.inliers])))
        confidence = 1 - 2 ** (-max(0, inliers - BY_CHANCE) / CERTAIN)
        if confidence < 0.5:
            return Located(False, inliers, confidence, len(rows), alike)
        kept = xy[found.inliers], _projected(found, self._xyz[points[found.inliers]])
        pose = found.camera, found.cam_from_world, found.covariance
        return Located(True, inliers, confidence, len(rows), alike, *pose, *kept)

    def alike(self, features: Features) -> tuple[str, ...]:
        """Return photos of the map, the most similar first."""
        if not len(features):
            return ()
        similar = np.argsort(-self._rows @ self._vectors(features.descriptors), kind="stable")[: self._neighbours]
        names = list(self._photos)
        return tuple(names[row] for row in similar)

    def _recognised(self, features: Features, alike: tuple[str, ...]) -> tuple[Array, Array]:
        """Match with similar photos: keypoints and points of the map, each pair once: (K,) and (K,)."""
        pairs = [np.zeros((0, 2), np.int64)]
        for name in alike:
            indices = Consensus()(features, self._features(name)).indices
            points = self._photos[name].points[indices[:, 1]]
            pairs.append(np.column_stack([indices[:, 0], points])[points >= 0])
        rows, points = np.unique(np.concatenate(pairs), axis=0).T
        return rows, points

    def _likely_camera(self, photo: str | Path | Array, size: tuple[int, int], alike: tuple[str, ...]) -> Camera:
        guess = colmap.guess_camera(size, images.home(photo) if isinstance(photo, str | Path) else None)
        of_size = [photo.camera for photo in self._photos.values() if photo.camera.size == size]
        if guess.known_focal:  # of the same camera, the map knows the distortion, too
            same = [camera for camera in of_size if abs(camera.focal / guess.focal - 1) < SAME_FOCAL]
            return replace(same[0], known_focal=True) if same else guess
        # One camera took all of that size; else the one that took the most alike is where to begin.
        likely = [self._photos[name].camera for name in alike if self._photos[name].camera.size == size]
        return replace(likely[0], known_focal=len(set(of_size)) == 1) if likely else guess

    def _read(self, name: str) -> Features:
        found = read_h5(self._file, name)
        if len(found) != len(self._photos[name].points):
            raise BadData(
                f"{self._file} holds other features of {name} than the map was made of; reconstruct it again."
            )
        return unit_features(found)


def localize(photo: str | Path | Array, map: str | Path | Map) -> Located:
    """Localise a photo in the reconstruction in a folder; a Map that is open already serves many photos."""
    return (map if isinstance(map, Map) else Map(map)).locate(photo)


def locate_all(
    photos: Sequence[str | Path], here: Map, out: str | Path | None = None, *, progress: Progress = silent
) -> dict[str, dict[str, Any]]:
    """Localise photos and folders of them: name -> `Located.to_dict()`, with `why` for those that cannot be read.

    out: a folder for NAME.json and a picture of each; what is there, of the same photo and map, is taken from there.
    """
    named = name_photos(photos)
    poses = {}
    with exclusive_lock(make_folder(out)) if out is not None else nullcontext():
        for done, (name, photo) in enumerate(named.items(), start=1):
            note = None if out is None else Path(out) / f"{name}.json"
            try:
                poses[name] = _noted(here, photo, note)
            except UnreadableImage as error:
                poses[name] = Located(False, 0, 0.0, 0, ()).to_dict() | {"why": str(error)}
            progress(done, len(named), name)
    if poses and all("why" in each for each in poses.values()):
        raise BadInput(f"none of the {len(poses)} photos could be read: {next(iter(poses.values()))['why']}")
    return poses


def _noted(here: Map, photo: Path, note: Path | None) -> dict[str, Any]:
    """Read the note if it is of this photo and map; otherwise localise the photo and write it."""
    made_from = fingerprints.values([here.fingerprint, fingerprints.photo(photo)])
    if note is not None and note.is_file():
        with suppress(OSError, ValueError, AttributeError):
            before = json.loads(note.read_text(encoding="utf-8"))
            if before.pop("made_from", None) == made_from:
                return before
    found = here.locate(photo)
    pose = found.to_dict()
    if note is not None:
        drawing.save(found.draw(photo), note.with_suffix(".jpg"))
        with atomic_write(note) as file:  # last: it vouches for the picture
            file.write_text(json.dumps({**pose, "made_from": made_from}) + "\n", encoding="utf-8")
    return pose


def _projected(found: AbsolutePose, xyz: Array) -> Array:
    """Project points (K, 3) in the world to (K, 2) in our pixels."""
    in_camera = xyz @ found.cam_from_world[:, :3].T + found.cam_from_world[:, 3]
    return found.camera.pixels(in_camera[:, :2] / in_camera[:, 2:])


def _features_file(folder: Path, features: str | Path | None) -> Path:
    """Find the features file as given, or as the note of the model says: a name in the folder, or a path."""
    if features is None:
        try:
            features = folder / json.loads((folder / "photos.json").read_text(encoding="utf-8"))["features"]
        except (OSError, ValueError, KeyError, TypeError):
            raise DataNotFound(
                f"{folder} does not say which features it was made of; give their file, in hloc's layout, as well."
            ) from None
    if not are_features(features):
        raise DataNotFound(f"no features file {features}; the map was made of it.")
    return Path(features)


def _query_extractor(file: Path, extractor: str | Path | PhotoExtractor | None) -> PhotoExtractor:
    """Open the extractor that was asked for, or the one that made the map's features."""
    if extractor is not None:
        return open_extractor(extractor) if isinstance(extractor, str | Path) else extractor
    with open_features(file) as stored:
        written = stored.attrs.get("settings")
    if written is None:
        raise BadInput(
            f"{file} was not made by `hynet extract`; give what describes the queries in the same way as the extractor."
        )
    try:
        settings, made_with = from_stored(written)
    except ValueError:
        raise BadInput(f"{file} was made by another version; extract it again, or give the extractor.") from None
    weights = weights_of(settings)
    if weights is None and made_with is not None:
        raise DataNotFound(
            f"{file} was made with weights that are not here, {settings.extractor or settings.model}; run this "
            "from the folder that the map was made in."
        )
    if made_with != weights:
        raise BadInput(f"the weights that {file} was made with have changed since; reconstruct the map again.")
    extract = settings.open_extractor()
    if isinstance(extract, Extractor) and extract.orientation == "auto":
        return extract.turned_as("gradient")
    return extract
