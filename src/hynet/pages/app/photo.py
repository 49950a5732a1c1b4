"""Uploaded files -> photos in memory, or one sentence in the page that says why not."""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import Image
from starlette.requests import Request

from ... import images
from ...errors import BadInput, HynetError, UnreadableImage
from ...types import Array

MAX_BYTES = 40_000_000  # of one upload
MAX_PIXELS = 50_000_000  # of one photo
PREVIEW = 1600  # pixels of the longer side, as the page shows it


@dataclass(frozen=True)
class PagePhoto:
    """A photo as the page holds it."""

    name: str  # as its owner calls it; only ever shown as text
    grey: Array  # (H, W) uint8
    preview: bytes  # JPEG in colour
    focal: float | None = None  # pixels, by EXIF
    seconds: float = 0.0  # that reading took


class EndlessUpload(BadInput):
    """It did not say how long it would be, and is too long."""


async def receive(request: Request, file: BinaryIO) -> None:
    """The body of a request into a file; one that is too long is not read to its end."""
    sentence = f"that is more than {MAX_BYTES // 1_000_000} MB; save the photo smaller."
    if int(request.headers.get("content-length", 0)) > MAX_BYTES:
        raise BadInput(sentence)
    length = 0
    async for piece in request.stream():
        length += len(piece)
        if length > MAX_BYTES:
            raise EndlessUpload(sentence)
        file.write(piece)


def open_photo(path: Path, name: str) -> PagePhoto:
    """A file that was uploaded, or one of the example."""
    start = time.perf_counter()
    check_photo(path, name)
    try:
        grey, colour = images.read(path), images.read_colour(path)
    except HynetError as error:
        raise BadInput(str(error).replace(str(path), name)) from None
    return PagePhoto(name, grey, _preview(colour), images.focal(path), time.perf_counter() - start)


def check_photo(path: Path, name: str) -> None:
    """Refuse a photo that is too large by its header, before decoding it. Files that are no photos fail later."""
    try:
        width, height = images.size(path)
    except UnreadableImage:
        return
    if width * height > MAX_PIXELS:
        limit = MAX_PIXELS // 1_000_000
        raise BadInput(f"{name} has {width} x {height} pixels, and the page takes {limit} million; make it smaller.")


def file_name(name: str, taken: set[str]) -> str:
    """A name for the disk: no folders, no markup, nothing hidden, no two alike."""
    stem, _, ending = re.sub(r"[^\w.()+@ -]", "_", name.replace("\\", "/").rpartition("/")[2]).rpartition(".")
    if f".{ending.lower()}" not in images.SUFFIXES:
        kinds = ", ".join(sorted(images.SUFFIXES))
        raise BadInput(f"{name} is not a photo by its name, which should end in one of {kinds}.")
    stem = stem.strip(". -")[:60] or "photo"
    count, free = 1, f"{stem}.{ending}"
    while free.lower() in taken:
        count += 1
        free = f"{stem}-{count}.{ending}"
    return free


def _preview(colour: Array) -> bytes:
    content = io.BytesIO()
    Image.fromarray(images.shrink(colour, PREVIEW)[0]).save(content, "jpeg", quality=88)
    return content.getvalue()
