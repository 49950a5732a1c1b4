"""Photos without distortion and their model, as 3DGS, gsplat and nerfstudio read them.

OUT/images/NAME                the photos, upright
OUT/masks/STEM.png             white where a pixel is to be used; for nerfstudio's --masks-path
OUT/sparse/0/cameras.bin ...   PINHOLE cameras, poses and points
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from .. import images
from ..errors import BadInput, DataNotFound
from ..features.addresses import find_masks, name_photos
from ..runtime.files import atomic_write, make_folder
from ..runtime.locks import exclusive_lock
from ..types import Array, Progress, silent
from .colmap import ModelPhoto
from .colmap.reading import read_model
from .colmap.undistortion import bent, pinhole_camera, write_straight_model

KEPT_SUFFIXES = (".jpg", ".jpeg", ".png")  # what all three programs read
QUALITY = 95  # of JPEG


def undistort(
    model: str | Path,
    photos: str | Path,
    out: str | Path,
    *,
    masks: str | Path | None = None,
    progress: Progress = silent,
) -> int:
    """Write the undistorted photos of the model in a folder to `out`; return how many.

    masks: a folder of masks as for `hynet extract`; what is black there is black in OUT/masks, too.
    """
    need_apart(photos, out)
    found = read_model(model)
    out = Path(out)
    named = name_photos(photos)
    if missing := next((photo.name for photo in found.photos if photo.name not in named), None):
        raise DataNotFound(f"{missing} of the model is not in {photos}; give the folder that the model was made from.")
    hidden = find_masks(None if masks is None else str(masks), named)
    flat = _flat_names([photo.name for photo in found.photos])
    with exclusive_lock(make_folder(out)):
        shutil.rmtree(out / "sparse", ignore_errors=True)  # it vouches for the photos, and comes last
        for done, photo in enumerate(found.photos, start=1):
            _write_photo(photo, named[photo.name], hidden.get(photo.name), out, flat[photo.name])
            progress(done, len(found.photos), "undistorting")
        unfinished = out / ".sparse"
        shutil.rmtree(unfinished, ignore_errors=True)
        write_straight_model(Path(model), unfinished / "0", flat)
        os.replace(unfinished, out / "sparse")
    return len(found.photos)


def need_apart(photos: str | Path, out: str | Path) -> None:
    """Refuse folders that lie in each other: OUT/images could be the photos themselves, which would be overwritten."""
    taken, written = Path(photos).resolve(), Path(out).resolve()
    if taken.is_relative_to(written) or written.is_relative_to(taken):
        raise BadInput(f"undistorted photos cannot go into {out}, which shares a folder with {photos}; choose another.")


def _flat_names(names: list[str]) -> dict[str, str]:
    """Names without folders, which the first code of 3DGS ignores, as JPEG or PNG; no two share a mask."""
    flat = {}
    for name in names:
        path = Path(name.replace("/", "_"))
        flat[name] = str(path if path.suffix.lower() in KEPT_SUFFIXES else path.with_suffix(".png"))
    stems: dict[str, str] = {}
    for name, other in flat.items():
        if stems.setdefault(Path(other).stem, name) != name:
            raise BadInput(
                f"{stems[Path(other).stem]} and {name} would both be written as {other}; rename one of them."
            )
    return flat


def _write_photo(photo: ModelPhoto, path: Path, mask: Path | None, out: Path, name: str) -> None:
    pixels = images.read_colour(path)
    seen = _seen(photo, pixels, mask)
    straight = pinhole_camera(photo.camera)
    if straight != photo.camera:
        x, y = bent(photo.camera, straight)
        pixels = cv2.remap(pixels, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        seen = cv2.remap(seen, x, y, cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT, borderValue=0)
    with atomic_write(out / "images" / name) as file:
        Image.fromarray(pixels).save(file, quality=QUALITY, compress_level=1)
    with atomic_write(out / "masks" / f"{Path(name).stem}.png") as file:
        Image.fromarray(seen).save(file)


def _seen(photo: ModelPhoto, pixels: Array, mask: Path | None) -> Array:
    """(H, W) uint8: 255 where a pixel of the photo is to be used."""
    height, width = pixels.shape[:2]
    if (width, height) != photo.camera.size:
        raise BadInput(
            f"{photo.name} has {width} x {height} pixels, and the model was made from {photo.camera.size[0]} x "
            f"{photo.camera.size[1]}; give the photos that it was made from."
        )
    seen = np.full((height, width), 255, np.uint8)
    if mask is not None:
        drawn = images.read(mask)
        if drawn.shape != seen.shape:
            raise BadInput(f"{mask} is of another size than its photo; make them equal.")
        seen[drawn == 0] = 0
    return seen
