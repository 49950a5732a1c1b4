"""Features of photos into one HDF5 file, in the layout that hloc reads. Run it again to go on.

New photos are added; those whose photo or mask has changed are extracted again.

Example: hynet extract photos/ --out features.h5
         hynet extract photos/ --out features.h5 --detector keynet --mask masks/
         hynet extract photos/ --out features.h5 --extractor aliked-n16.pth
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..errors import BadInput
from ..extractors.folder import extract_all
from ..extractors.patchwise import LONGEST
from ..extractors.settings import Settings
from ..system.machine import cores
from . import Report
from .choices import Detector, Device, Model
from .progress import bar


def run(
    photos: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PHOTO_OR_DIR...")],
    *,
    out: Path,
    extractor: str | None = None,
    detector: Detector = "dog",
    model: Model = "default",
    max_keypoints: int = 2048,
    upright: bool = False,
    affine: bool = False,
    orientation: Literal["auto", "upright", "gradient"] = "auto",
    shape: str = "none",
    score_threshold: float | None = None,
    spread: bool = True,
    mask: Path | None = None,
    longest: int = LONGEST,
    precision: Literal["float32", "float16", "int8"] = "float32",
    jobs: int = 0,
    overwrite: bool = False,
    device: Device = None,
) -> Report:
    """Extract features.

    Args:
        photos: Photos, or folders of them.
        out: The file that gets one group per photo.
        extractor: What finds and describes keypoints at once, in place of detector and model: the path of the weights
            of ALIKED, R2D2 or XFeat, or a name such as opencv-sift.
        max_keypoints: Keypoints per photo, the strongest.
        upright: Short for --orientation upright.
        affine: Short for --shape baumberg.
        orientation: Whether keypoints are turned to where it gets brighter (gradient) or not (upright); auto looks at
            some of the photos: upright, unless some were turned against others.
        shape: Elliptic regions, for surfaces seen from the side: the path of AffNet's weights, baumberg, or none.
        score_threshold: Leave out keypoints of a lower score; by default as usual for the detector.
        spread: Take keypoints all over the photo; --no-spread: the strongest anywhere.
        mask: A folder of masks, that of photo a/b.jpg named a/b.jpg.png as in COLMAP; where one is black there are no
            keypoints. A photo without a mask is used whole.
        longest: Look for keypoints in a photo of at most this side, in pixels.
        precision: Of the stored descriptors: float16 takes half the disk, int8 a quarter. hloc reads all of them, int8
            as integers that it must scale to unit length itself.
        jobs: Processes at once; 0 means one per core.
        overwrite: Replace what was made with other settings, instead of refusing.
    """
    if not photos:
        raise BadInput("no photos were given; name photos, or the folder that holds them.")
    settings = Settings(
        detector,
        model,
        max_keypoints,
        upright,
        longest,
        affine,
        score_threshold,
        spread,
        None if mask is None else str(mask),
        orientation=orientation,
        shape=shape,
        extractor=extractor,
        precision=None if precision == "float32" else precision,
        device=device,
    )
    with bar() as progress:
        done = extract_all(photos, out, settings, jobs=jobs or len(cores()), overwrite=overwrite, progress=progress)
    lines = [f"{out} holds the features of {done.photos} photos, {done.new} of them new."]
    if done.unreadable:
        lines += [f"{len(done.unreadable)} could not be read:", *(f"  {why}" for why in done.unreadable.values())]
    data = {"out": str(out), "photos": done.photos, "new": done.new, "unreadable": dict(done.unreadable)}
    return Report("\n".join(lines), data)
