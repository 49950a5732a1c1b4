"""PhotoTour's bitmaps and text tables -> arrays that can be mapped into memory, decoded once."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np
from PIL import Image

from ..errors import BadData, BadInput, DataNotFound
from ..runtime import fingerprints
from ..runtime.files import atomic_write, make_folder
from ..runtime.locks import exclusive_lock
from ..runtime.machine import cache_folder
from ..types import Array, Progress

MOSAIC = 1024  # pixels a side
TILE = 64  # pixels a side of one patch in it
PER_ROW = MOSAIC // TILE
PER_MOSAIC = PER_ROW**2
LAYOUT = 2  # of the cache


def decoded(root: Path, progress: Progress) -> Path:
    """The folder of the cache, made anew when the source files are not those it was made from."""
    mosaics = mosaic_files(root)
    if not mosaics:
        raise DataNotFound(f"no patches*.bmp in {root}; unpack the set there, or `hynet data get` downloads one.")
    info, interest = needed(root, "info.txt"), root / "interest.txt"
    sources = [*mosaics, info, *([interest] if interest.exists() else [])]
    key = json.dumps([LAYOUT, fingerprints.files(*sources)])
    cache = _cache_folder(root)
    if not _is_of(cache, key):
        with exclusive_lock(make_folder(cache), wait=True):
            if not _is_of(cache, key):  # another process may have made it while we waited
                _fill(cache, key, mosaics, info, interest, progress)
    return cache


def cached(cache: Path, size: int) -> tuple[Array, Array, Array | None]:
    """Patches (P, S, S), points (P,), and reference image with x and y (P, 3) where they are known."""
    patches, points = np.load(cache / f"patches{size}.npy", mmap_mode="r"), np.load(cache / "points.npy")
    seen = np.load(cache / "interest.npy") if (cache / "interest.npy").exists() else None
    if patches.shape != (len(points), size, size) or (seen is not None and seen.shape != (len(points), 3)):
        raise ValueError(f"{cache} holds arrays of different lengths")
    return patches, points, seen


def _is_of(cache: Path, key: str) -> bool:
    try:
        return (cache / "key.json").read_text(encoding="utf-8") == key
    except (OSError, UnicodeDecodeError):
        return False


def _fill(cache: Path, key: str, mosaics: Sequence[Path], info: Path, interest: Path, progress: Progress) -> None:
    points = numbers(info, (0,))[:, 0]
    if len(points) > len(mosaics) * PER_MOSAIC:
        raise BadData(
            f"{info} lists {len(points)} patches, but the {len(mosaics)} mosaics hold {len(mosaics) * PER_MOSAIC}; "
            "some patches*.bmp are missing."
        )
    seen = numbers(interest, (0, 1, 2), np.float64) if interest.exists() else None  # image, x, y
    if seen is not None and len(seen) != len(points):
        raise BadData(f"{interest} has {len(seen)} rows, but info.txt has {len(points)}; they must be as many.")
    if seen is not None and not np.isfinite(seen).all():
        raise BadData(f"{interest} holds numbers that are not finite; unpack or make the set again.")
    try:
        (cache / "key.json").unlink(missing_ok=True)  # it vouches for what is now replaced
        _save(cache / "points.npy", points)
        if seen is None:
            (cache / "interest.npy").unlink(missing_ok=True)
        else:
            _save(cache / "interest.npy", seen)
        _decode(mosaics, len(points), cache, progress)
        write_lines(cache / "key.json", [key])  # last: it says that the rest is whole
    except OSError as error:
        raise BadInput(f"cannot cache {info.parent} in {cache}: {error.strerror or error}; make room there.") from None


def _decode(mosaics: Sequence[Path], patches: int, cache: Path, progress: Progress) -> None:
    """One mosaic in memory at a time."""
    used = -(-patches // PER_MOSAIC)
    with (
        atomic_write(cache / "patches64.npy") as full,
        atomic_write(cache / "patches32.npy") as half,
        full.open("wb") as full_file,
        half.open("wb") as half_file,
    ):
        _npy_header(full_file, (patches, TILE, TILE))
        _npy_header(half_file, (patches, TILE // 2, TILE // 2))
        for k, path in enumerate(mosaics[:used]):
            rows = min(PER_MOSAIC, patches - k * PER_MOSAIC)
            mosaic = _read_mosaic(path)
            full_file.write(_tiles(mosaic)[:rows].tobytes())
            # Tiles have an even side, so halving the mosaic halves each of them: OpenCV's 2 x 2 mean, rounded.
            halved = cv2.resize(mosaic, (MOSAIC // 2, MOSAIC // 2), interpolation=cv2.INTER_LINEAR)
            half_file.write(_tiles(halved)[:rows].tobytes())
            progress(k + 1, used, f"decoding {path.parent.name}")


def _read_mosaic(path: Path) -> Array:
    try:
        with Image.open(path, formats=["BMP"]) as image:
            if image.size != (MOSAIC, MOSAIC):
                raise BadData(f"{path} is {image.width} x {image.height} pixels; a mosaic is {MOSAIC} x {MOSAIC}.")
            return np.asarray(image.convert("L"))
    except BadData:
        raise
    except (OSError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError) as error:
        raise BadData(f"{path} is not a whole bitmap; unpack it again ({error}).") from None


def _tiles(mosaic: Array) -> Array:
    """(M, M) -> (256, M/16, M/16), row by row."""
    side = len(mosaic) // PER_ROW
    return mosaic.reshape(PER_ROW, side, PER_ROW, side).swapaxes(1, 2).reshape(PER_MOSAIC, side, side)


def numbers(path: Path, columns: tuple[int, ...], dtype: type = np.int64) -> Array:
    """(rows, columns) of a text table, or a sentence that says why not."""
    try:
        if path.stat().st_size > 0:
            table = np.loadtxt(path, np.float64, usecols=columns, ndmin=2, comments=None)
            if len(table):
                if dtype is np.int64 and not (np.abs(table) < 2**53).all():  # nor is NaN
                    raise BadData(f"{path} holds numbers that are not whole; unpack or make the set again.")
                return table.astype(dtype)
    except BadData:
        raise
    except (ValueError, OverflowError, OSError) as error:
        raise BadData(f"{path} is not a table of numbers: {str(error).rstrip('.')}.") from None
    raise BadData(f"{path} is empty.")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)


def _save(path: Path, column: Array) -> None:
    with atomic_write(path) as temporary:
        np.save(temporary, column)


def _npy_header(file: BinaryIO, shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})


def mosaic_files(root: Path) -> list[Path]:
    return sorted(root.glob("patches*.bmp"))


def needed(root: Path, name: str) -> Path:
    if not (root / name).exists():
        raise DataNotFound(
            f"no {name} in {root}; a PhotoTour set needs it: unpack it again, or make a set of photos, `hynet patches`."
        )
    return root / name


def _cache_folder(root: Path) -> Path:
    if os.access(root, os.W_OK):
        return root / ".hynet"
    return cache_folder() / f"{root.name}-{hashlib.sha256(bytes(root.resolve())).hexdigest()[:16]}"
