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
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ..errors import BadInput
from ..images import drawing
from ..images.example import example
from ..matching.settings import MatchSettings
from ..matching.two_photos import match_photos
from . import Report, absence
from .progress import bar

Shown = Literal["matches", "keypoints", "patches"]
LISTED = 20  # pairs
COMMON = ("out", "pairs", "extractor", "detector", "model", "max-keypoints", "matcher", "geometry")
Photos = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[A B]", help_behavior_hint="")]


def run(
    photos: Photos = (),
    *,
    settings: tyro.conf.OmitArgPrefixes[MatchSettings],
    pairs: Path | None = None,
    out: Path | None = None,
    show: Shown = "matches",
    overwrite: bool = False,
) -> Report:
    """Match two photos, or many pairs.

    Args:
        photos: The two photos; if none are given, an example. For more photos, or a folder: all pairs, or those of
            --pairs.
        pairs: A file with the names of two photos per line; all their matches go into one file.
        out: The picture to write, matches.png; for many pairs, the file of matches in hloc's layout, matches.h5.
        show: What the picture shows.
        overwrite: Replace matches of many pairs that were made with other settings, instead of refusing.
    """
    one_folder = len(photos) == 1 and Path(photos[0]).is_dir()
    if pairs or len(photos) > 2 or one_folder or (photos and out is not None and out.suffix == ".h5"):
        two = {"--focal": settings.focal, "--show": show != "matches", "--no-refine": not settings.refine}
        for name, given in two.items():
            if given:
                raise BadInput(f"{name} is for two photos; leave it out for many.")
        return _match_many(photos, pairs, out or Path("matches.h5"), settings, overwrite)
    if overwrite:
        raise BadInput("--overwrite is for many pairs; the picture of two photos is always written anew.")
    if len(photos) not in (0, 2):
        raise BadInput(f"give two photos, or none for the example, not {len(photos)}.")
    return _match_two(photos, out or Path("matches.png"), settings, show)


def _match_two(photos: tuple[str, ...], out: Path, settings: MatchSettings, show: Shown) -> Report:
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


def _match_many(
    photos: Sequence[str | Path], pairs: Path | None, out: Path, settings: MatchSettings, overwrite: bool
) -> Report:
    """Match each pair of the file, or each photo with each."""
    from ..matching.many_pairs import match_many  # brings h5py, which two photos do not need

    with bar() as progress:
        done = match_many(photos, out, settings, pairs=pairs, overwrite=overwrite, progress=progress)
    each = [
        f"  {first} {second}: {found} matches, {good} inliers" for (first, second), (found, good) in done.counts.items()
    ]
    matches, inliers = (sum(counts[k] for counts in done.counts.values()) for k in range(2))
    lines = [f"{len(done.counts)} pairs, {done.new} of them new: {matches:,} matches, {inliers:,} inliers."]
    lines += each[:LISTED] + ([f"  and {len(each) - LISTED} more"] if len(each) > LISTED else [])
    read = "" if done.features.is_dir() else "; hloc reads both"  # of a collection, it reads single shards
    lines += [f"{out} holds the matches, {done.features} the features whose rows they name{read}."]
    if done.unreadable:
        lines += [
            f"{len(done.unreadable)} photos could not be used:",
            *(f"  {why}" for why in done.unreadable.values()),
        ]
    rows = [{"names": list(pair), "matches": found, "inliers": good} for pair, (found, good) in done.counts.items()]
    data: dict[str, Any] = {"out": str(out), "features": str(done.features), "pairs": rows, "new": done.new}
    data |= {"matches": matches, "inliers": inliers, "unreadable": dict(done.unreadable)}
    return Report("\n".join(lines), data, absence(done.unreadable))
