"""Find the support width, ratio and inlier threshold that suit a model on your own photos, and save them beside it.

`hynet match`, `hynet extract` and hynet.Extractor then use them automatically.

Example: hynet calibrate --pairs photos/ --model default
         hynet calibrate --pairs sequences/ --model runs/mine/best.pt --detector keynet
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..evaluation.tuning import pairs as truth
from ..evaluation.tuning import tuning
from ..features import calibrated as calibration
from ..runtime.locks import exclusive_lock
from ..types import Table
from . import Report, terminal_width
from .choices import Detector, Device, Model
from .progress import bar


def run(
    *,
    pairs: Path,
    model: Model = "default",
    detector: Detector = "dog",
    max_keypoints: int = 2048,
    upright: bool = False,
    most: int = 60,
    out: Path | None = None,
    device: Device = None,
) -> Report:
    """Calibrate a model.

    Args:
        pairs: Folders of overlapping photos, one folder per scene; or homography sequences (1.jpg ... and H_1_2 ...);
            or a COLMAP model with its photos.
        max_keypoints: Maximum number of keypoints per photo.
        upright: The photos are upright: do not orient keypoints.
        most: Approximate number of pairs to use.
        out: Where to save the calibration; by default beside the weights, or, for a model given by name, in your own
            configuration folder.
    """
    out = calibration.places(model)[0] if out is None else out
    with exclusive_lock(out), bar() as progress:
        calibration.claim(out)
        found = truth.find_pairs(pairs, most, progress=progress)
        tuned = tuning.tune(
            found, detector, model, max_keypoints=max_keypoints, upright=upright, device=device, progress=progress
        )
        calibration.save(tuned.calibration, out, detector)
    chosen = tuned.calibration
    threshold = chosen.thresholds[tuned.geometry]
    tables = [
        _table(
            f"support, sigmas: right matches a pair, of {tuning.SUPPORT_KEYPOINTS} keypoints", tuned.supports, ".1f"
        ),
        _table(
            f"threshold, pixels, at ratio {tuned.own_ratio:g}: accuracy to {tuning.ACCURATE:g} pixels",
            tuned.thresholds,
            ".3f",
        ),
        _table(f"ratio, at {threshold:g} pixels: accuracy to {tuning.ACCURATE:g} pixels", tuned.ratios, ".3f"),
    ]
    sentence = (
        f"{tuned.pairs} pairs: support {chosen.support:g} sigmas, ratio {chosen.ratio:g}, "
        f"{tuned.geometry} within {threshold:g} pixels."
    )
    curves = {name: _keys(getattr(tuned, name)) for name in ("supports", "thresholds", "ratios")}
    data = {
        "support": chosen.support,
        "ratio": chosen.ratio,
        "geometry": tuned.geometry,
        "threshold": threshold,
        "pairs": tuned.pairs,
        "curves": curves,
        "out": str(out),
    }
    return Report("\n\n".join([*tables, f"{sentence}\nSaved in {out}; delete it to go back."]), data)


def _table(title: str, curve: Mapping[float, float], form: str) -> str:
    columns = list(_keys(curve))
    return Table(title, columns, {"": _keys(curve)}, formats=dict.fromkeys(columns, form)).markdown(terminal_width())


def _keys(curve: Mapping[float, float]) -> dict[str, float]:
    return {f"{step:g}": value for step, value in curve.items()}
