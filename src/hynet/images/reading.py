"""Photos -> grey or colour pixels, or one sentence that says why not. The only file that decodes photos."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import cv2
import numpy as np
from PIL import Image

from ..errors import BadInput, MissingExtra, UnreadableImage, need
from ..types import Array
from .exif import TURNS, focal_length, orientation
from .sources import Content, at_hand

# The biggest phone photos have 200 megapixels; a file that claims more than this is refused before it is decoded.
MAX_PIXELS = 250_000_000

# What unpacks to more than so many bytes, and so many times its own size, is an attack: photos shrink to a tenth or so.
BOMB_BYTES, BOMB_RATIO = 256_000_000, 100

# Named, so that Pillow tries no other: its EPS reader, for one, would start another program.
FORMATS = ("JPEG", "PNG", "PPM", "TIFF", "WEBP", "BMP", "GIF")
PHONES = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}  # brands of HEIC


ROUNDING = 1e-3  # outside 0 to 1, as resizing leaves fractions
NO_PHOTO = "no photo"  # how a sentence begins that says that none is there
PICTURE_SIDE = 900  # longest side of a photo in the pictures that are drawn


_LOG = logging.getLogger(__name__)
_OPENING = threading.Lock()


def is_absence(why: str) -> bool:
    """True if this sentence of an UnreadableImage says that there is no such photo, rather than a broken one."""
    return why.startswith(NO_PHOTO)


def read(source: Any) -> Array:
    """Read a photo as (H, W) uint8 grey, upright by its EXIF; without alpha; of an animation the first frame.

    A path (~ too), bytes, an open file, a PIL image, a URL, a NumPy array or a torch tensor. Arrays are (H, W),
    (H, W, 3) RGB or (H, W, 4) RGBA, of tensors (3, H, W) too: uint8, uint16, bool, or float from 0 to 1.
    """
    return _converted(source, _grey)


def read_colour(source: Any) -> Array:
    """Read a photo, as `read` does, as (H, W, 3) uint8 RGB; a grey one has three equal channels."""
    return _converted(source, _rgb)


def thumbnail(source: Any, longest: int) -> Array:
    """Read a photo in colour with its longer side at most `longest`; a large JPEG is decoded small at once."""
    held = at_hand(source)
    if not isinstance(held, Path | Content):
        return shrink(read_colour(held), longest)[0]
    with _opened(held) as photo:
        full = photo.size
        photo.draft("RGB", (longest, longest))
        drafted = photo.size
        pixels = _rgb(_pixels(photo))
        width, height = full if pixels.shape[1::-1] == drafted else full[::-1]  # turned by its EXIF
        scale = min(1.0, longest / max(full))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)


def remembered(source: Any) -> Path | Array:
    """Return what pictures are drawn from later: the photo's path, or a small copy of what is not a file."""
    held = at_hand(source)
    return held.absolute() if isinstance(held, Path) else thumbnail(held, PICTURE_SIDE)


def focal(source: Any) -> float | None:
    """Focal length in pixels by the photo's EXIF; None where it has none, or the photo was cropped."""
    held = at_hand(source)
    if isinstance(held, np.ndarray):
        return None
    try:
        with nullcontext(held) if isinstance(held, Image.Image) else _opened(held) as photo:
            return focal_length(photo)
    except Exception:  # decoders of broken files raise nearly anything; what cannot be read is not known
        return None


def size(path: Path) -> tuple[int, int]:
    """Width and height as `read` gives them, by the header alone."""
    with _opened(path) as photo:
        width, height = photo.size
        return (height, width) if orientation(photo) >= 5 else (width, height)


def is_turned(path: str | Path) -> bool:
    """True if by EXIF the photo has to be turned or mirrored to be upright."""
    try:
        with Path(path).open("rb") as file, _open(file, str(path)) as photo:
            return orientation(photo) in TURNS
    except Exception:  # as above: who reads it says why it cannot be read
        return False


def shrink(image: Array, longest: int) -> tuple[Array, float]:
    """Shrink a photo to `longest` at most; returns it and the scale, small pixels per original pixel."""
    scale = longest / max(image.shape[:2])
    if scale >= 1:
        return image, 1.0
    if min(image.shape[:2]) * scale < 1:  # a thread of a photo: keep one pixel of its width
        width, height = (max(1, round(side * scale)) for side in image.shape[1::-1])
        return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), scale
    # By factor, not by size: rounding the size would give the two axes slightly different scales.
    return cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), scale


def unshrink(xy: Array, scale: float) -> Array:
    """Convert pixels of the shrunken photo to pixels of the original: (N, 2) -> (N, 2)."""
    return (xy + 0.5) / scale - 0.5  # what scales about the corner of the photo is not the centre of its first pixel


def _converted(source: Any, convert: Callable[[Array], Array]) -> Array:
    held = at_hand(source)
    if isinstance(held, np.ndarray):
        return convert(held)
    if isinstance(held, Image.Image):
        return convert(_pixels(held))
    with _opened(held) as photo:
        if convert is _grey:
            photo.draft("L", None)  # a JPEG stores grey apart: decoding it alone takes half the time
        return convert(_pixels(photo))


@contextmanager
def _opened(held: Path | Content) -> Iterator[Image.Image]:
    """Open the photo; whatever goes wrong with it, in here or in the block, becomes one sentence."""
    try:
        if isinstance(held, Path) and held.is_dir():
            raise UnreadableImage(f"{held} is a folder; give one photo.")
        if isinstance(held, Path) and held.exists() and not held.is_file():
            raise UnreadableImage(f"{held} is a device or a pipe; give a photo.")
        with held.open("rb") if isinstance(held, Path) else io.BytesIO(held.data) as file:
            if not file.read(1):
                raise UnreadableImage(f"{held} is empty; copy the photo again.")
            with _open(file, str(held)) as photo:
                _LOG.info("read %s, %d x %d pixels", held, *photo.size)
                yield photo
    except UnreadableImage:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableImage(f"{NO_PHOTO} {held}; check the name.") from None
    except PermissionError:
        raise UnreadableImage(f"{held} may not be read; ask its owner for permission.") from None
    except BadInput as error:
        raise UnreadableImage(f"{held}: {error}") from None
    except MemoryError:
        raise UnreadableImage(f"{held} does not fit into memory; make it smaller.") from None
    except Exception as error:  # decoders of broken files raise nearly anything: OSError, SyntaxError, struct.error ...
        raise UnreadableImage(f"{held} is broken or cut short ({error}); copy the photo again.") from None


def _open(file: BinaryIO, name: str) -> Image.Image:
    """Read the photo's header. Pillow's own limit is lifted meanwhile, since ours is checked right here."""
    formats = _formats(file, name)
    with _OPENING:
        theirs, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            photo = Image.open(file, formats=formats)
        except Image.UnidentifiedImageError:
            kinds = ", ".join([*FORMATS, "HEIC"])
            raise UnreadableImage(f"{name} is not a photo that can be read; convert it to one of {kinds}.") from None
        finally:
            Image.MAX_IMAGE_PIXELS = theirs
    width, height = photo.size
    if width * height > MAX_PIXELS:
        limit = MAX_PIXELS // 1_000_000
        raise UnreadableImage(
            f"{name} says it has {width} x {height} pixels, over the limit of {limit} million; make it smaller."
        )
    unpacked, packed = width * height * len(photo.getbands()), file.seek(0, io.SEEK_END)
    file.seek(0)
    if unpacked > BOMB_BYTES and unpacked > BOMB_RATIO * packed:
        raise UnreadableImage(
            f"{name} has {packed / 1e6:.1f} MB that unpack to {unpacked / 1e9:.1f} GB, which no photo does; "
            "save it in another format."
        )
    return photo


def _formats(file: BinaryIO, name: str) -> tuple[str, ...]:
    """Names of the formats that Pillow may try; photos of phones need a package of their own."""
    file.seek(0)
    head = file.read(12)
    file.seek(0)
    if head[4:8] != b"ftyp" or head[8:] not in PHONES:
        return FORMATS
    try:
        need("pillow_heif", "heic", "HEIC").register_heif_opener()
    except MissingExtra as error:
        raise UnreadableImage(f"{name} is a HEIC photo: {error}, or convert it to JPEG.") from None
    return ("HEIF",)


def _pixels(photo: Image.Image) -> Array:
    photo.load()
    way = TURNS.get(orientation(photo))
    upright = photo if way is None else photo.transpose(way)
    if upright.mode in ("1", "LA", "La"):
        upright = upright.convert("L")
    elif upright.mode not in ("L", "RGB", "RGBA", "F") and not upright.mode.startswith("I"):
        upright = upright.convert("RGB")  # palette, CMYK and the like
    pixels = np.asarray(upright)
    if pixels.dtype == np.int32:  # Pillow's "I": 16 bits in a wider word
        pixels = pixels.clip(0, 65535).astype(np.uint16)
    return pixels


def _grey(pixels: Array) -> Array:
    """Convert any array of a photo to (H, W) uint8 by the weights of BT.601."""
    levels = _eight_bit(pixels)
    if levels.ndim == 2:
        return np.ascontiguousarray(levels)
    return cv2.cvtColor(np.ascontiguousarray(levels[:, :, :3]), cv2.COLOR_RGB2GRAY)


def _rgb(pixels: Array) -> Array:
    """Convert any array of a photo to (H, W, 3) uint8."""
    levels = _eight_bit(pixels)
    return np.ascontiguousarray(np.stack([levels] * 3, 2) if levels.ndim == 2 else levels[:, :, :3])


def _eight_bit(pixels: Array) -> Array:
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4)) or pixels.size == 0:
        channels_first = pixels.ndim == 3 and pixels.shape[0] in (1, 3, 4)
        hint = "; array.transpose(1, 2, 0) puts the channels last" if channels_first else ""
        raise BadInput(f"an image array must be (H, W) or (H, W, 3), got {pixels.shape}{hint}.")
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype == np.bool_:  # masks
        return pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype.newbyteorder("=") == np.uint16:
        return ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 is 255
    if pixels.dtype.kind == "f":
        low, high = float(pixels.min()), float(pixels.max())
        if not (low >= -ROUNDING and high <= 1 + ROUNDING):
            raise BadInput(f"grey values as fractions must be from 0 to 1, got {low:g} to {high:g}; scale them first.")
        return np.rint(pixels.clip(0, 1) * 255).astype(np.uint8)
    raise BadInput(f"grey values must be uint8, uint16 or fractions, got {pixels.dtype}; convert them first.")
