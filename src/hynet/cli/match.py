"""Match two photos and see the result: detect, describe, match, refine, verify, draw. Or many pairs, into one file.

Example: hynet match                            (an example pair)
         hynet match a.jpg b.jpg --out matches.png
         hynet match a.jpg b.jpg --geometry homography --show patches
         hynet match a.jpg b.jpg --shape baumberg --mask a-mask.png b-mask.png
         hynet match a.jpg b.jpg --focal 1200 --shape affine-network
         hynet match a.jpg b.jpg --extractor aliked-n16.pth
         hynet match a.jpg b.jpg --extractor xfeat.onnx --matcher lighterglue.onnx
         hynet match photos/ --pairs pairs.txt --out matches.h5      (in hloc's layout; run it again to continue)
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ..errors import BadInput
from ..images import drawing
from ..images.example import example
from ..matching.settings import MatchSettings
from ..matching.two_photos import match_photos
from . import Report
from .choices import Detector, Device, Model

COMMON = ("out", "pairs", "extractor", "detector", "model", "max-keypoints", "matcher", "geometry")
Photos = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[A B]", help_behavior_hint="")]


def run(
    photos: Photos = (),
    *,
    pairs: Path | None = None,
    out: Path | None = None,
    extractor: str | None = None,
    detector: Detector = "dog",
    model: Model = "default",
    max_keypoints: int = 2048,
    orientation: Literal["auto", "upright", "gradient"] = "auto",
    shape: str = "auto",
    score_threshold: float | None = None,
    spread: bool = True,
    mask: tuple[Path, ...] = (),
    matcher: str = "consensus",
    geometry: Literal["auto", "fundamental", "homography", "essential", "shared-focal", "none"] = "auto",
    focal: tuple[float, ...] = (),
    threshold: float | None = None,
    ratio: float | None = None,
    fginn: float | None = None,
    refine: bool = True,
    show: Literal["matches", "keypoints", "patches"] = "matches",
    overwrite: bool = False,
    device: Device = None,
) -> Report:
    """Match two photos, or many pairs.

    Args:
        photos: The two photos; if none are given, an example. For more photos, or a folder: all pairs, or those of
            --pairs.
        pairs: A file with the names of two photos per line; all their matches go into one file.
        out: The picture to write, matches.png; for many pairs, the file of matches in hloc's layout, matches.h5.
        extractor: Detects and describes keypoints in one pass, in place of detector and model: the path to weights of
            ALIKED, R2D2 or XFeat, a features file of both photos (.h5), or a name such as opencv-sift.
        max_keypoints: Maximum number of keypoints per photo.
        orientation: Whether keypoints are rotated to the dominant gradient direction (gradient) or not (upright); auto
            takes the photos as upright, unless orienting every keypoint gives more inliers.
        shape: Elliptical regions, for surfaces seen at an angle: affine-network, baumberg, none, or the path of a
            network. auto: affine-network for two photos with DoG keypoints, except for the model light; none for many.
        score_threshold: Drop keypoints with a lower score; by default the detector's usual threshold.
        spread: Spread keypoints over the photo; --no-spread takes the strongest anywhere, as DoG always does for
            two photos with --geometry homography.
        mask: Two pictures of the same size as the photos; there are no keypoints where they are black. For many photos,
            a folder of masks, that of a/b.jpg named a/b.jpg.png as in COLMAP.
        matcher: consensus (keeps matches that are probably correct, given their ratio and neighbours that moved alike),
            nearest (a ratio test alone), or the path to LighterGlue's weights for XFeat features.
        geometry: What the inliers agree on. auto: essential if both focal lengths are known and fit the matches, one
            unknown focal length (shared-focal) if that fits photos of the same size, else fundamental.
        focal: Focal length in pixels, one for both photos or one for each; by default from EXIF, if it is there.
        threshold: Inlier threshold in pixels of the original photo; by default as calibrated for the model.
        ratio: Keep a match only if its distance is below this times that of the second-nearest; 1 keeps all. By default
            consensus uses none, and nearest the one calibrated for the model.
        fginn: The second-nearest must be more than this many pixels away from the match, 10 is usual; by default it may
            be anywhere.
        refine: Locate the matches of two photos more exactly, by aligning both patches of each; --no-refine leaves them
            where the keypoints were detected. Many pairs are never refined: hloc's layout has one place per keypoint.
        show: What the picture shows.
        overwrite: Replace matches of many pairs that were made with other settings, instead of refusing.
    """
    one_folder = len(photos) == 1 and Path(photos[0]).is_dir()
    many = pairs or len(photos) > 2 or one_folder or (photos and out is not None and out.suffix == ".h5")
    if not many and len(mask) not in (0, 2):
        raise BadInput(f"give a mask for each of the two photos, not {len(mask)}.")
    settings = MatchSettings().replace(
        extractor=extractor,
        detector=detector,
        model=model,
        max_keypoints=max_keypoints,
        orientation=orientation,
        shape=shape,
        score_threshold=score_threshold,
        spread=None if spread else False,  # a flag has no third state, so --spread leaves it as usual
        mask=mask[0] if mask and many else None,
        masks=(mask[0], mask[1]) if mask and not many else None,
        matcher=matcher,
        ratio=ratio,
        fginn=fginn,
        refine=refine,
        geometry=geometry,
        threshold=threshold,
        focal=focal,
        device=device,
    )
    if many:
        for given, name in (
            (focal, "--focal"),
            (mask[1:], "a second --mask"),
            (show != "matches", "--show"),
            (not refine, "--no-refine"),
        ):
            if given:
                raise BadInput(f"{name} is for two photos; leave it out for many.")
        from .many_pairs import run_many  # brings h5py, which two photos do not need

        return run_many(photos, pairs, out or Path("matches.h5"), settings, overwrite)
    out = out or Path("matches.png")
    if len(photos) not in (0, 2):
        raise BadInput(f"give two photos, or none for the example, not {len(photos)}.")
    pair = None if photos else example()
    first, second = pair.paths if pair else photos
    found = match_photos(first, second, settings)
    pose = found.geometry.pose
    lines = [f"{len(found.matches)} matches, {found.verdict}."]
    if found.overlap is None:
        lines += [f"It is {found.place}."]
    else:
        lines += [f"This is {found.place} (probability that it is: {found.overlap:.2f})."]
    if found.geometry.why:
        lines += [f"Geometry: {found.geometry.name}, since {found.geometry.why}."]
    data = {
        "keypoints": [len(each) for each in found.features],
        "matches": len(found.matches),
        "inliers": len(found.inliers),
        "geometry": found.geometry.name,
        "model": None if found.geometry.model is None else found.geometry.model.tolist(),
        "why": found.geometry.why,
        "pose": None
        if pose is None
        else {"rotation": pose.rotation.tolist(), "translation": pose.translation.tolist()},
        "focal": found.geometry.focal,
        "overlap": None if found.overlap is None else round(found.overlap, 4),
        "points": found.points(found.inliers).round(3).tolist(),
        "indices": found.inliers.indices.tolist(),
        "confidence": None if found.inliers.confidence is None else found.inliers.confidence.round(4).tolist(),
        "picture": str(out),
    }
    if pair:
        lines = [f"The example is {pair.about}.", *lines]
    start = time.perf_counter()
    drawing.save(found.draw(show), out)
    seconds = {**found.seconds, "draw": time.perf_counter() - start}
    lines += [f"The picture is {out} ({sum(seconds.values()):.1f} s)."]
    return Report("\n".join(lines), data | {"seconds": {stage: round(spent, 4) for stage, spent in seconds.items()}})
