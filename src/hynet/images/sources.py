"""Photos as people have them -> a path, a file's content, a PIL image or an array, which can be read more than once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..errors import BadInput, DataNotFound, UnreadableImage
from ..types import Array

SUFFIXES = {".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".pnm", ".tif", ".tiff", ".webp", ".bmp", ".gif", ".heic", ".heif"}
URL = re.compile(r"(https?):/{1,2}(?=[^/])", re.IGNORECASE)  # a Path of a URL has one slash
MOST_BYTES = 200_000_000  # of a photo from the network
SECONDS = 30  # without an answer


@dataclass(frozen=True)
class Content:
    """Content of a photo file, with its name for messages."""

    data: bytes
    name: str = "the photo"

    def __str__(self) -> str:
        return self.name


AtHand = Path | Content | Image.Image | Array


def at_hand(source: Any) -> AtHand:
    """Read a file object, fetch a URL, expand ~, turn a tensor into an array; the rest stays as it is."""
    if isinstance(source, np.ndarray | Image.Image | Content):
        return source
    if isinstance(source, str | os.PathLike):
        text = os.fsdecode(source)
        return _fetched(URL.sub(r"\1://", text, count=1)) if is_url(text) else home(text)
    if isinstance(source, bytes | bytearray | memoryview):
        return Content(bytes(source))
    if hasattr(source, "detach") and hasattr(source, "cpu"):  # torch's, on any device; torch itself is not needed here
        return _channels_last(_array(source.detach().cpu()))
    if hasattr(source, "read"):
        return _read_from(source)
    if hasattr(source, "__array__"):
        return np.asarray(source)
    raise BadInput(
        f"a photo is a path, a URL, bytes, an open file, a PIL image, a NumPy array or a tensor, "
        f"got {type(source).__name__}."
    )


def is_url(source: Any) -> bool:
    return isinstance(source, str | os.PathLike) and URL.match(os.fsdecode(source)) is not None


def home(path: str | os.PathLike[str]) -> Path:
    """Expand ~ to the user's folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # nobody is called that
        return Path(path)


def list_photos(folder: str | Path) -> list[Path]:
    """List every photo in the folder and below, sorted, without hidden files and folders."""
    folder = home(folder)
    if not folder.is_dir():
        raise DataNotFound(f"no folder {folder}; give the folder that holds the photos.")
    photos = sorted(path for path in _below(folder) if path.suffix.lower() in SUFFIXES and path.is_file())
    if not photos:
        raise DataNotFound(f"no photos in {folder}; it needs files that end in {', '.join(sorted(SUFFIXES))}.")
    return photos


def _below(folder: Path) -> Iterator[Path]:
    """Files in a folder and below, linked folders too, each folder once."""
    seen: set[tuple[int, int]] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        status = os.stat(here)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()  # a link in a circle, or a second one to the same place
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(here, name) for name in files if not name.startswith("."))


def _read_from(file: Any) -> Content:
    if hasattr(file, "seekable") and file.seekable():
        file.seek(0)  # as Pillow does: who has just written the photo stands at its end
    data = file.read()
    if not isinstance(data, bytes):
        raise BadInput("the photo's file was opened as text; open it in binary mode, open(name, 'rb').")
    name = getattr(file, "name", None)
    return Content(data, name) if isinstance(name, str) else Content(data)


def _fetched(url: str) -> Content:
    """Fetch a photo that the user named by its URL."""
    import urllib.error  # here, since few photos are URLs and all commands start with this module
    import urllib.request
    from http.client import HTTPException

    try:
        request = urllib.request.Request(url, headers={"User-Agent": "hynet"})
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            data = response.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise UnreadableImage(f"{url} answered {error.code} {error.reason}; check the address.") from None
    except (OSError, HTTPException, ValueError) as error:  # URLError among them
        why = getattr(error, "reason", error)
        raise UnreadableImage(
            f"{url} could not be fetched ({why}); is there a network? Or download the photo and give its path."
        ) from None
    if len(data) > MOST_BYTES:
        raise UnreadableImage(f"{url} has more than {MOST_BYTES // 1_000_000} MB; download it and give its path.")
    return Content(data, url)


def _array(tensor: Any) -> Array:
    try:
        return tensor.numpy()
    except TypeError:  # bfloat16, which NumPy does not have
        return tensor.float().numpy()


def _channels_last(pixels: Array) -> Array:
    """torch's (C, H, W), or a batch of one, as (H, W, C); what has its channels last already is left alone."""
    if pixels.ndim == 4 and len(pixels) == 1:
        pixels = pixels[0]
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3, 4):
        pixels = pixels.transpose(1, 2, 0)
    return pixels
