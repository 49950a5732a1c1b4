"""Photo -> Features. ADD AN EXTRACTOR: a file in this folder and a row in EXTRACTORS.

Some are ready by name; networks are given by the path of their published weights, and features that were extracted
before by the path of their file. Nothing here downloads, and no weights of others ship with the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import BadInput
from ...runtime.parts import FilePart, find_part, open_part
from ...runtime.plugins import with_plugins

if TYPE_CHECKING:
    from ...types import Features

MAX_KEYPOINTS = 2048  # per photo, by default


class PhotoExtractor(Protocol):
    """Photo (whatever `images.read` takes) to features, in pixels of the original photo, the strongest first."""

    ratio: float | None  # the ratio test that suits it; None: none

    def __call__(self, photo: Any) -> Features: ...


# Each is made by `max_keypoints=...`, and from a file by `from_file(path, max_keypoints=...)`.
EXTRACTORS: dict[str, FilePart[PhotoExtractor]] = with_plugins(
    "extractors",
    {
        "patchwise": FilePart(
            "hynet.features.extractors.patchwise:Extractor",
            "a detector, and a descriptor of patches around what it finds",
        ),
        "opencv-sift": FilePart("hynet.features.extractors.sift:SIFT", "OpenCV's SIFT as it comes"),
        "opencv-rootsift": FilePart("hynet.features.extractors.sift:RootSIFT", "the same under Hellinger's distance"),
        "r2d2": FilePart(
            "hynet.features.extractors.r2d2:R2D2",
            "repeatable and reliable keypoints (Revaud 2019), our own extraction",
            files=("torch",),
            needs_file=True,
        ),
        "aliked": FilePart(
            "hynet.features.extractors.aliked:ALIKED",
            "deformable descriptors (Zhao 2023), by kornia",
            files=("torch",),
            needs_file=True,
        ),
        "xfeat": FilePart(
            "hynet.features.extractors.xfeat:XFeat",
            "light features made for CPUs (Potje 2024)",
            files=("onnx",),
            needs_file=True,
        ),
        "features-file": FilePart(
            "hynet.features.hloc_file:FeaturesFile",
            "features that any program extracted, in hloc's layout",
            files=("hdf5",),
            needs_file=True,
        ),
    },
    FilePart[PhotoExtractor],
)


def open_extractor(name_or_path: str | Path, max_keypoints: int = MAX_KEYPOINTS) -> PhotoExtractor:
    """An extractor by name, or by the path of its weights or of a features file."""
    _check(max_keypoints)
    return open_part(EXTRACTORS, name_or_path, "extractor", max_keypoints=max_keypoints)


def find_extractor(name_or_path: str | Path, max_keypoints: int = MAX_KEYPOINTS) -> PhotoExtractor | None:
    """Open an extractor by name or path; None where it is none, since then it may be a descriptor."""
    _check(max_keypoints)
    return find_part(EXTRACTORS, name_or_path, max_keypoints=max_keypoints)


def _check(max_keypoints: int) -> None:
    if max_keypoints < 1:
        raise BadInput(f"max_keypoints must be at least 1, got {max_keypoints}.")
