"""Photo and mask -> Features, none of them where the mask is black, by any extractor."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import images
from ..types import Features
from .extractors import PhotoExtractor
from .extractors.patchwise import Extractor, check_mask


def extract_unmasked(extract: PhotoExtractor, photo: Any, mask: Any = None) -> Features:
    """Patchwise extraction looks only where it may; the others look everywhere, and what is masked is left out then."""
    if mask is None:
        return extract(photo)
    if isinstance(extract, Extractor):
        return extract(photo, mask)
    found = extract(photo)
    allowed = images.read(mask)
    width, height = found.image_size
    check_mask(allowed, (height, width))
    x, y = np.rint(found.keypoints.xy).astype(int).clip(0, (width - 1, height - 1)).T
    return found[allowed[y, x] > 0]
