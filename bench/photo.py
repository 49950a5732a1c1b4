"""Whole photos -> features, by each method with keypoints of its own: ours against OpenCV's SIFT and other peers.

The photos of the folder in HYNET_PHOTOS, or rendered ones. Peers whose weights lie in the folder HYNET_WEIGHTS (ALIKED,
R2D2, XFeat) get rows too; those that are not installed get none. Reading the files is counted, for everybody.

Photos come one after the other; only pycolmap takes several at once. Ours detects on one core, so that `hynet extract`,
which takes a photo on every core, is faster than its rows here: what all cores spend has rows too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import cv2

from bench import Measurement, milliseconds
from bench.reconstruct import bench_photos
from hynet import images
from hynet.errors import HynetError, MissingExtra, need
from hynet.features.descriptors.weights import network
from hynet.features.detectors.dog import DoG, octaves
from hynet.features.extractors import PhotoExtractor, find_extractor, open_extractor
from hynet.features.extractors.patchwise import Extractor
from hynet.sfm import colmap
from hynet.sfm.colmap.programs import extract_sift

PHOTOS = 4
KEYPOINTS = 2048
LONGEST_SIDE = 1120
ROUNDS = 5

Work = Callable[[], int]  # extracts all photos, and says how many keypoints that were


def measure(
    *, count: int = PHOTOS, max_keypoints: int = KEYPOINTS, longest_side: int = LONGEST_SIDE, rounds: int = ROUNDS
) -> list[Measurement]:
    with TemporaryDirectory() as scratch:
        folder = bench_photos(Path(scratch) / "photos", count, longest_side)
        photos = images.list_photos(folder)
        extractors: dict[str, PhotoExtractor] = {
            "OpenCV's SIFT": open_extractor("opencv-sift", max_keypoints),
            "hynet, light": Extractor(model="light", max_keypoints=max_keypoints, orientation="upright"),
            "hynet, default": Extractor(max_keypoints=max_keypoints, orientation="upright"),
            "hynet, default, oriented": Extractor(max_keypoints=max_keypoints, orientation="gradient"),
            **_with_weights(max_keypoints),
        }
        works: dict[str, Work] = {name: partial(_by, extract, photos) for name, extract in extractors.items()}
        works["OpenCV's SIFT keypoints, BEBLID"] = partial(_by_beblid, photos, max_keypoints)
        works |= _parts_of_ours(photos, max_keypoints)
        for name, make in {"kornia's DoG and HyNet": _kornia, "pycolmap's SIFT": _pycolmap}.items():
            try:
                works[name] = make(folder, photos, max_keypoints)
            except MissingExtra:
                continue  # a peer that is not installed
        found = {name: work() / len(photos) for name, work in works.items()}  # warms up
        spent: dict[str, list[float]] = {name: [] for name in works}
        times = milliseconds({name: partial(_noted, work, spent[name]) for name, work in works.items()}, rounds, False)
    per_photo = {name: taken / len(photos) for name, taken in times.items()}
    methods = [name for name in works if not name.startswith(" ")]
    return [
        *(Measurement(name, taken, "ms") for name, taken in per_photo.items()),
        *(Measurement(f"{name}: all cores", median(each) / len(photos), "core ms") for name, each in spent.items()),
        *(Measurement(f"{name}: keypoints a photo", found[name], "keypoints") for name in methods),
        *(Measurement(f"{name}: a keypoint", 1e3 * per_photo[name] / max(1, found[name]), "us") for name in methods),
    ]


def _noted(work: Work, spent: list[float]) -> None:
    """Does the work and notes the milliseconds that all cores spent on it."""
    start = time.process_time()
    work()
    spent.append(1e3 * (time.process_time() - start))


def _parts_of_ours(photos: list[Path], max_keypoints: int) -> dict[str, Work]:
    """What light leaves to gain: reading and detecting, and of that the Gaussians alone."""
    greys = [images.read(photo) for photo in photos]
    detect = DoG(max_keypoints, upright=True)
    return {
        "  of ours, detecting": lambda: sum(len(detect(grey)) for grey in greys),
        "  of that, the pyramid of Gaussians": lambda: sum(1 for grey in greys for _ in octaves(grey)),
    }


def _by(extract: PhotoExtractor, photos: list[Path]) -> int:
    return sum(len(extract(photo)) for photo in photos)


def _with_weights(max_keypoints: int) -> dict[str, PhotoExtractor]:
    """What lies in HYNET_WEIGHTS and is an extractor's."""
    given = os.environ.get("HYNET_WEIGHTS")
    found: dict[str, PhotoExtractor] = {}
    for path in sorted(Path(given).iterdir()) if given else []:
        try:
            extract = find_extractor(path, max_keypoints)
        except HynetError:
            continue  # other files may lie there
        if extract is not None:
            found[path.stem] = extract
    return found


def _by_beblid(photos: list[Path], max_keypoints: int) -> int:
    """As its authors advise for SIFT's keypoints: 512 bits of windows of 6.75 sizes."""
    sift, beblid = cv2.SIFT.create(nfeatures=max_keypoints), cv2.xfeatures2d.BEBLID.create(6.75)
    total = 0
    for photo in photos:
        grey = images.read(photo)
        total += len(beblid.compute(grey, sift.detect(grey))[0])
    return total


def _kornia(folder: Path, photos: list[Path], max_keypoints: int) -> Work:
    """Its own way to the same: scale-space blobs, patches from a pyramid, HyNet with our weights."""
    torch = need("torch", "baselines", "the bench of photos")
    kornia = need("kornia.feature", "baselines", "the bench of photos")
    hynet = kornia.HyNet(pretrained=False).eval()
    hynet.load_state_dict(network("default").state_dict())
    blobs = kornia.ScaleSpaceDetector(max_keypoints, resp_module=kornia.BlobDoG(), scale_space_response=True)
    feature = kornia.LocalFeature(blobs, kornia.LAFDescriptor(hynet, 32))

    @torch.inference_mode()
    def work() -> int:
        greys = (torch.tensor(images.read(photo))[None, None].float() / 255 for photo in photos)
        return sum(feature(grey)[0].shape[1] for grey in greys)

    return work


def _pycolmap(folder: Path, photos: list[Path], max_keypoints: int) -> Work:
    colmap.pycolmap()

    def work() -> int:
        with TemporaryDirectory() as scratch:
            database = Path(scratch) / "sift.db"
            with colmap.opened(database):
                pass  # made empty
            extract_sift(database, folder, max_keypoints)
            with colmap.opened(database) as store:
                return sum(len(store.stored_keypoints(name)) for name in store.names)

    return work
