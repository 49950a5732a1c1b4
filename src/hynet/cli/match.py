"""Match two photos and see it: detect, describe, match, verify, draw.

Example: hynet match                            (a pair with the truth about it)
         hynet match a.jpg b.jpg --out matches.png
         hynet match a.jpg b.jpg --geometry homography --show patches
         hynet match a.jpg b.jpg --affine --mask a-mask.png b-mask.png
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from .. import drawing, images
from ..datasets.example import example
from ..errors import BadInput
from ..extractors.patchwise import Extractor
from ..geometry import DEGENSAC
from ..matchers.nearest import match
from ..matchers.verification import Fit, verify
from ..types import Array, Features, Matches
from . import Report

RIGHT = 2.0  # pixels from the truth within which a match counts as right
Photos = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[A B]", help_behavior_hint="")]


def run(
    photos: Photos = (),
    *,
    out: Path = Path("matches.png"),
    detector: str = "dog",
    model: str = "default",
    max_keypoints: int = 2048,
    upright: bool = False,
    affine: bool = False,
    score_threshold: float | None = None,
    spread: bool = False,
    mask: tuple[Path, ...] = (),
    geometry: Literal["fundamental", "homography", "essential", "none"] = "fundamental",
    threshold: float | None = None,
    ratio: float | None = None,
    fginn: float | None = None,
    show: Literal["matches", "keypoints", "patches"] = "matches",
) -> Report:
    """Match two photos.

    Args:
        photos: The two photos; without them an example.
        out: Where the picture goes.
        detector: What finds keypoints.
        model: What describes them: a name, or the path of weights.
        max_keypoints: The strongest so many of each photo.
        upright: The photos were not turned: use no orientation.
        affine: Elliptic regions, for surfaces seen from the side.
        score_threshold: Leave out keypoints of a lower score; by default as usual for the detector.
        spread: Take keypoints evenly over the photo, not the strongest anywhere.
        mask: Two pictures as large as the photos; where they are black there are no keypoints.
        geometry: What the matches must agree on.
        threshold: How many pixels of the original photo a match may be from it; by default as calibrated for the model.
        ratio: Keep a match only if it is nearer than so many times the runner-up; by default as calibrated for the
            model, 1 keeps all.
        fginn: The runner-up must be more than so many pixels from the match, 10 is usual; by default it may be
            anywhere.
        show: What the picture shows.
    """
    if len(photos) not in (0, 2):
        raise BadInput(f"give two photos, or none for the example, not {len(photos)}.")
    if len(mask) not in (0, 2):
        raise BadInput(f"give a mask for each of the two photos, not {len(mask)}.")
    if geometry == "fundamental":
        DEGENSAC.start()  # its process is ready by the time there are matches
    clock = Clock()
    with clock("read"):
        pair = None if photos else example()
        views = pair.photos if pair else (images.read(photos[0]), images.read(photos[1]))  # (H, W) grey each
        masks = [images.read(each) for each in mask] if mask else [None, None]
    with clock("load"):
        extract = Extractor(
            detector, model, max_keypoints, upright, score_threshold=score_threshold, spread=spread, affine=affine
        )
    with clock("detect"), ThreadPoolExecutor(2) as both:
        found = list(both.map(extract.detect, views, masks))
    with clock("describe"):
        first, second = (extract.describe(*each) for each in zip(views, found, strict=True))
    with clock("match"):
        matches = match(first, second, ratio, fginn=fginn)
    with clock("verify"):
        pixels = extract.thresholds.get(geometry) if threshold is None else threshold
        fit = _unverified(matches) if geometry == "none" else verify(first, second, matches, geometry, threshold=pixels)
    points = _points(first, second, matches)  # (K, 4)
    verdict = "not verified" if geometry == "none" else f"{len(fit)} agree on one geometry"
    lines = [f"{len(matches)} matches, {verdict}."]
    truth, green = {}, fit.inliers
    if pair:
        error = pair.error(points[:, :2], points[:, 2:])  # nan where the truth is not known
        known, right = np.isfinite(error[fit.inliers]), error[fit.inliers] < RIGHT
        truth = {"known": int(known.sum()), "right": int(right.sum())}
        green = fit.inliers & ~(error >= RIGHT)
        score = f"of {truth['known']} whose truth is known, {truth['right']} are right (within {RIGHT:g} px)"
        lines = [f"The example is {pair.about}.", *lines, f"{score.capitalize()}."]
        verdict = f"{verdict}; {score}"
    with clock("draw"):
        drawing.save(_picture(show, extract, views, (first, second), matches, green, verdict), out)
    lines += [f"The picture is {out} ({sum(clock.seconds.values()):.1f} s)."]

    data = {
        "keypoints": [len(first), len(second)],
        "matches": len(matches),
        "inliers": len(fit),
        "seconds": {stage: round(seconds, 4) for stage, seconds in clock.seconds.items()},
        "model": None if fit.model is None else fit.model.tolist(),
        "points": points[fit.inliers].round(3).tolist(),
        "picture": str(out),
    }
    return Report("\n".join(lines), data | ({"truth": truth} if pair else {}))


class Clock:
    """with clock("read"): ...  adds up in clock.seconds["read"]."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def _unverified(matches: Matches) -> Fit:
    return Fit(matches, None, np.ones(len(matches), bool))


def _points(first: Features, second: Features, matches: Matches) -> Array:
    """(K, 4): x1, y1, x2, y2."""
    rows, columns = matches.indices.T
    return np.column_stack([first.keypoints.xy[rows], second.keypoints.xy[columns]]).astype(np.float64)


def _picture(
    show: str,
    extract: Extractor,
    photos: tuple[Array, Array],
    features: tuple[Features, Features],
    matches: Matches,
    green: Array,
    verdict: str,
) -> Array:
    keypoints = features[0].keypoints, features[1].keypoints
    if show == "keypoints":
        counts = " and ".join(str(len(each)) for each in keypoints)
        return drawing.keypoints(photos, keypoints, [(f"{counts} keypoints, the strongest shown", drawing.INK)])
    caption = [(f"{len(matches)} matches, ", drawing.INK), (verdict, drawing.GREEN)]
    if show == "matches":
        return drawing.matches(photos, keypoints, matches, green, caption)
    order = np.argsort(matches.distances, kind="stable")
    # Every so many-th from the nearest to the farthest: the nearest alone would all look alike.
    some = order[np.linspace(0, len(order) - 1, min(len(order), 64)).astype(int)] if len(order) else order
    patches = [
        extract.patches(photo, points[matches.indices[some, side]])
        for side, (photo, points) in enumerate(zip(photos, keypoints, strict=True))
    ]
    return drawing.patches(patches[0], patches[1], green[some], [*caption, ("; from the nearest on", drawing.FAINT)])
