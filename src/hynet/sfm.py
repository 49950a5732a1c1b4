"""Folder of photos -> cameras, keypoints and 3-D points. The only file that imports pycolmap or adds its half pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np

from . import images
from .errors import HynetError, MissingExtra, UnreadableImage, need
from .files import whole
from .types import Array, Keypoints, Progress, silent

LONGEST_SIDE = 1600  # pixels; larger photos are shrunk, keypoints are in pixels of the shrunken photo
SMALLEST_MODEL = 3  # photos; two cannot check each other
EXHAUSTIVE = 200  # photos; in larger scenes each is matched with its neighbours in the order of their names only
NEIGHBOURS = 20
CONTRAST = 0.02  # half of OpenCV's default: dull walls have corners too
SEED = 1


class NotReconstructed(HynetError, ValueError):
    """The photos do not form one scene; the sentence says how far it got."""


@dataclass(frozen=True)
class Camera:
    """COLMAP's SIMPLE_RADIAL: pixel = focal * ray * (1 + k |ray|^2) + centre."""

    focal: float
    centre: Array  # (2,) in our pixels
    k: float

    def pixels(self, rays: Array) -> Array:
        """(N, 2) points at depth one -> (N, 2) pixels."""
        return self.focal * rays * (1 + self.k * np.sum(rays**2, -1, keepdims=True)) + self.centre

    def rays(self, pixels: Array) -> Array:
        """(N, 2) pixels -> (N, 2) points at depth one."""
        distorted = (pixels - self.centre) / self.focal
        rays = distorted
        for _ in range(20):  # a fixed point: contracts by about 2 k |ray|^2 a step
            rays = distorted / (1 + self.k * np.sum(rays**2, -1, keepdims=True))
        return rays


@dataclass(frozen=True)
class Photo:
    """One registered photo. `path` is the grey copy that the keypoints were detected in."""

    name: str
    path: Path
    camera: Camera
    cam_from_world: Array  # (3, 4)
    keypoints: Keypoints
    points: Array  # (N,) row in Scene.points of each keypoint, -1 where it was not triangulated


@dataclass(frozen=True)
class Scene:
    """The largest reconstruction that a folder of photos gave."""

    photos: tuple[Photo, ...]
    points: Array  # (M, 3) in the world
    matches: Mapping[tuple[int, int], Array]  # (a, b), a < b: what SIFT matching found, (K, 2) keypoints of a and of b
    unreadable: tuple[str, ...]


def reconstruct_sift(
    photos: Sequence[Path], work: Path, *, max_keypoints: int, threads: int = -1, progress: Progress = silent
) -> Scene:
    """SIFT, matching and incremental mapping in the folder `work`; what is done there already is not done again."""
    colmap = pycolmap()
    readable, unreadable = _grey_copies(photos, work / "photos", progress)
    if len(readable) < SMALLEST_MODEL:
        raise NotReconstructed(f"{len(readable)} readable photos; a scene needs at least {SMALLEST_MODEL}.")
    database = work / "database.db"
    colmap.set_random_seed(SEED)
    _extract(colmap, database, work / "photos", readable, max_keypoints, progress)
    progress(0, 1, "matching")
    _match(colmap, database, len(readable), threads)
    progress(0, 1, "mapping")
    model = _map(colmap, database, work / "photos", work / "model", threads)
    return _scene(colmap, model, database, work / "photos", unreadable)


def pycolmap() -> ModuleType:
    """The package, quiet, or the sentence that says how to get it."""
    colmap = need("pycolmap", "sfm", "reconstruction")
    if not hasattr(colmap, "FeatureExtractionOptions"):  # came with 3.13
        raise MissingExtra(f"pycolmap {colmap.__version__} is too old: pip install -U 'hynet-features[sfm]'")
    colmap.logging.minloglevel = colmap.logging.Level.FATAL.value  # the library never prints
    return colmap


def _grey_copies(photos: Sequence[Path], folder: Path, progress: Progress) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Upright grey copies, so that COLMAP and we see the same pixels whatever the format or EXIF turn."""
    readable, unreadable = {}, []
    for number, photo in enumerate(photos):
        progress(number, len(photos), "reading photos")
        name = f"{number:05}.png"  # sorted as the photos are, and no two alike
        try:
            if not (folder / name).exists():
                grey, _ = images.shrink(images.read(photo), LONGEST_SIDE)
                with whole(folder / name) as temporary:
                    cv2.imwrite(str(temporary), grey, [cv2.IMWRITE_PNG_COMPRESSION, 1])
            readable[name] = photo
        except UnreadableImage as error:
            unreadable.append(str(error))
    return readable, tuple(unreadable)


def _extract(
    colmap: ModuleType, database: Path, folder: Path, photos: Mapping[str, Path], max_keypoints: int, progress: Progress
) -> None:
    """OpenCV's SIFT, four times as fast as COLMAP's on a CPU, and the keypoints that `hynet match` will meet."""
    # Without the precise upscale every keypoint is a quarter of a pixel off.
    sift = cv2.SIFT.create(max_keypoints, contrastThreshold=CONTRAST, enable_precise_upscale=True)
    with colmap.Database.open(database) as db:
        imported = db.num_images()
    if imported < len(photos):
        reader = colmap.ImageReaderOptions()
        reader.camera_model = "SIMPLE_RADIAL"
        colmap.import_images(database, folder, image_names=list(photos), options=reader)
    with colmap.Database.open(database) as db:
        for done, image in enumerate(sorted(db.read_all_images(), key=lambda image: image.name)):
            progress(done, len(photos), "finding keypoints")
            if db.exists_descriptors(image.image_id):
                continue
            found, descriptors = sift.detectAndCompute(images.read(folder / image.name), None)
            if not found:
                descriptors = np.zeros((0, 128), np.float32)
            db.update_camera(_with_known_focal(colmap, db.read_camera(image.camera_id), photos[image.name]))
            db.write_keypoints(image.image_id, _colmap_keypoints(found))
            data = colmap.FeatureDescriptors(colmap.FeatureExtractorType.SIFT, _root_sift(descriptors))
            db.write_descriptors(image.image_id, data)


def _with_known_focal(colmap: ModuleType, camera: Any, photo: Path) -> Any:
    """The camera with the focal length of the original's EXIF, if it has one: the grey copy has lost it."""
    try:
        original = colmap.infer_camera_from_image(photo)
    except (ValueError, RuntimeError):  # a format that COLMAP does not read
        return camera
    if original.has_prior_focal_length:
        shrunk = max(camera.width, camera.height) / max(original.width, original.height)
        camera.params = [original.mean_focal_length() * shrunk, *camera.params[1:]]
        camera.has_prior_focal_length = True
    return camera


def _colmap_keypoints(found: Sequence[Any]) -> Array:
    """x y a11 a12 a21 a22, where the centre of the first pixel is (0.5, 0.5). OpenCV's size is two sigma."""
    circles = np.array([(*k.pt, k.size / 2, np.deg2rad(k.angle)) for k in found], np.float64).reshape(-1, 4)
    frames = Keypoints.from_circles(circles[:, :2] + 0.5, circles[:, 2], circles[:, 3], circles[:, 2]).frames
    return np.concatenate([frames[:, :, 2], frames[:, :, :2].reshape(-1, 4)], 1)


def _root_sift(descriptors: Array) -> Array:
    """As COLMAP stores them: the square root of the L1-normalised histogram, times 512, in bytes."""
    total = descriptors.sum(1, keepdims=True) + 1e-9
    return np.clip(np.rint(512 * np.sqrt(descriptors / total)), 0, 255).astype(np.uint8)


def _match(colmap: ModuleType, database: Path, photos: int, threads: int) -> None:
    options = colmap.FeatureMatchingOptions()
    options.use_gpu, options.num_threads = False, threads
    verification = colmap.TwoViewGeometryOptions()
    verification.ransac.random_seed = SEED
    if photos <= EXHAUSTIVE:
        colmap.match_exhaustive(database, options, verification_options=verification)
    else:
        pairing = colmap.SequentialPairingOptions()
        pairing.overlap = NEIGHBOURS
        colmap.match_sequential(database, options, pairing, verification)


def _map(colmap: ModuleType, database: Path, folder: Path, out: Path, threads: int) -> Any:
    """The largest model, from disk where a run that was cut off had finished it."""
    out.mkdir(exist_ok=True)
    options = colmap.IncrementalPipelineOptions()
    options.min_model_size, options.multiple_models = SMALLEST_MODEL, True
    options.max_num_models = 3  # a bad start may strand the first; COLMAP would go on for 50
    options.random_seed, options.num_threads, options.extract_colors = SEED, threads, False
    options.triangulation.ignore_two_view_tracks = False  # depth is needed at as many keypoints as there are
    models = colmap.incremental_mapping(database, folder, out, options).values()
    largest = max(models, key=lambda model: (model.num_reg_images(), model.num_points3D()), default=None)
    if largest is None or largest.num_reg_images() < SMALLEST_MODEL:
        raise NotReconstructed("the photos do not overlap enough to be reconstructed.")
    return largest


def _scene(colmap: ModuleType, model: Any, database: Path, folder: Path, unreadable: tuple[str, ...]) -> Scene:
    rows = {point: row for row, point in enumerate(sorted(model.points3D))}
    points = np.array([model.points3D[point].xyz for point in rows]).reshape(-1, 3)
    registered = sorted((model.images[number] for number in model.reg_image_ids()), key=lambda image: image.name)
    with colmap.Database.open(database) as db:
        photos = tuple(_photo(image, db.read_keypoints(image.image_id), rows, folder) for image in registered)
        matches = {
            (a, b): np.asarray(db.read_matches(registered[a].image_id, registered[b].image_id), np.int64)
            for a, b in combinations(range(len(registered)), 2)
            if db.exists_matches(registered[a].image_id, registered[b].image_id)
        }
    return Scene(photos, points, matches, unreadable)


def _photo(image: Any, keypoints: Array, rows: Mapping[int, int], folder: Path) -> Photo:
    focal, x, y, k = image.camera.params
    frames = np.concatenate([keypoints[:, 2:6].reshape(-1, 2, 2), keypoints[:, :2, None] - 0.5], 2)
    points = np.array([rows.get(point.point3D_id, -1) for point in image.points2D], np.int64)
    return Photo(
        name=image.name,
        path=folder / image.name,
        camera=Camera(focal, np.array([x, y]) - 0.5, k),
        cam_from_world=image.cam_from_world().matrix(),
        keypoints=Keypoints(frames, np.ones(len(frames))),
        points=points,
    )
