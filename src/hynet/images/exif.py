"""Facts in a photo's EXIF: how it is turned, and its focal length."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import ExifTags, Image

# EXIF's orientation -> what makes the photo upright
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

FILM_DIAGONAL = 43.2666  # mm of 36 x 24: the angle across it is what EXIF's 35 mm field keeps
FOCAL_PLANE_MM = {2: 25.4, 3: 10.0, 4: 1.0, 5: 0.001}  # EXIF's unit of pixels on the sensor -> mm
CROPPED = 0.02  # of the shorter side
FOCALS = (0.2, 20.0)  # of the longer side: fish-eyes and the longest telephoto lenses; what is outside is an error


def orientation(photo: Image.Image) -> int:
    """Orientation by EXIF, 1 to 8; 1, upright, where it cannot be read: the pixels may still be whole."""
    try:
        return int(photo.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # broken metadata raises nearly anything
        return 1


def focal_length(photo: Image.Image) -> float | None:
    """Focal length in pixels; None where EXIF has none, or the photo was cropped."""
    size, tags = photo.size, dict(photo.getexif().get_ifd(ExifTags.IFD.Exif))
    taken = [_number(tags.get(tag)) for tag in (ExifTags.Base.ExifImageWidth, ExifTags.Base.ExifImageHeight)]
    scale = max(size) / max(taken) if all(taken) else 1.0  # pixels of the photo for each that the camera took
    if all(taken) and abs(min(taken) * scale - min(size)) > CROPPED * min(size):
        return None
    pixels = _number(tags.get(ExifTags.Base.FocalLengthIn35mmFilm)) * np.hypot(*size) / FILM_DIAGONAL
    if not pixels:
        unit = FOCAL_PLANE_MM.get(int(_number(tags.get(ExifTags.Base.FocalPlaneResolutionUnit)) or 2), np.inf)
        density = _number(tags.get(ExifTags.Base.FocalPlaneXResolution)) / unit  # pixels a millimetre
        pixels = _number(tags.get(ExifTags.Base.FocalLength)) * density * scale
    return float(pixels) if FOCALS[0] < pixels / max(size) < FOCALS[1] else None


def _number(value: Any) -> float:
    """A value of EXIF, which may be missing, a fraction by zero, or anything; 0 stands for none."""
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError):
        return 0.0
    return number if np.isfinite(number) and number > 0 else 0.0
