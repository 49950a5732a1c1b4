"""Find what suits your own photos and machine: detector, model and number of keypoints, then that model's thresholds.

The support width, ratio and inlier threshold are saved beside the model, and later commands use them automatically.

Example: hynet tune photos/ --budget 200ms
         hynet tune photos/ --models default,runs/mine/best.pt --detectors dog --keypoints 1024,2048
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from ..errors import BadInput
from ..evaluation.tuning.tune import ACCURATE, SUPPORT_KEYPOINTS, Found, Measured, Tuned, candidates, front, tune
from ..types import Table
from . import Report, terminal_width
from .choices import Device
from .progress import bar


def run(
    photos: Annotated[Path, tyro.conf.Positional],
    *,
    budget: str | None = None,
    out: Path | None = None,
    detectors: str = "dog,keynet",
    models: str = "light,default,rootsift",
    extractors: str = "opencv-rootsift",
    keypoints: str = "512,1024,2048,4096",
    max_pairs: int = 60,
    device: Device = None,
) -> Report:
    """Measure milliseconds per photo and correct matches per pair for every combination, then calibrate the best one.

    Overlapping photos are reconstructed first, to know which matches are correct (with pycolmap; its matches are kept);
    other photos are matched with warped copies of themselves, which do not suffice to calibrate.

    Args:
        photos: A folder of overlapping photos, or of such folders; homography sequences (1.jpg ... and H_1_2 ...); or a
            COLMAP model with its photos.
        budget: Time limit per photo, such as 200ms or 0.5s.
        out: Where to save the calibration; by default beside the weights, or, for a model given by name, in your own
            configuration folder.
        detectors: Detectors, separated by commas.
        models: Models, by name or path, separated by commas.
        extractors: Extractors that both detect and describe keypoints, by name or path to weights, separated by commas.
        keypoints: Numbers of keypoints per photo, separated by commas.
        max_pairs: Maximum number of photo pairs to calibrate on; time and matches are measured on six of them.
    """
    limit = None if budget is None else _milliseconds(budget)
    asked = candidates(_listed(detectors), _listed(models), _listed(extractors), _counts(keypoints))
    with bar() as progress:
        found = tune(photos, asked, budget=limit, out=out, max_pairs=max_pairs, device=device, progress=progress)
    command = None if found.best is None else f"hynet match A B {found.best.candidate.options}"
    data = {
        "rows": [_row(each) for each in found.measured],
        "front": [_row(each) for each in front(found.measured)],
        "chosen": None if found.best is None else _row(found.best),
        "command": command,
        "pairs": found.pairs,
        "right_means": found.meaning,
        "calibration": None if found.tuned is None else _calibration(found.tuned) | {"out": str(found.saved)},
    }
    return Report(_text(found, limit, command), data)


def _text(found: Found, limit: float | None, command: str | None) -> str:
    best = front(found.measured)
    cells = {each.candidate.options: {"ms": each.ms, "right": each.right} for each in best}
    parts = [
        _table("Not beaten in both time and correct matches", cells, ".0f"),
        f"ms: per photo, median, on all cores. right: matches per pair, mean of {found.pairs}, {found.meaning}.",
    ]
    if found.tuned is not None:
        parts += [*_curves(found.tuned), f"{_sentence(found.tuned)}\nSaved in {found.saved}; delete it to go back."]
    elif not found.overlapping:
        parts.append("No thresholds were tuned: that needs photos of one place.")
    fastest = f"Nothing takes less than {limit or 0:g} ms here; the fastest takes {best[0].ms:.0f}."
    return "\n\n".join([*parts, f"Use: {command}" if command else fastest])


def _row(measured: Measured) -> dict[str, Any]:
    return {**asdict(measured.candidate), "ms": measured.ms, "right": measured.right}


def _calibration(tuned: Tuned) -> dict[str, Any]:
    found = tuned.calibration
    return {
        "support": found.support,
        "ratio": found.ratio,
        "geometry": tuned.geometry,
        "threshold": found.thresholds[tuned.geometry],
        "pairs": tuned.pairs,
        "curves": {name: _keys(getattr(tuned, name)) for name in ("supports", "thresholds", "ratios")},
    }


def _curves(tuned: Tuned) -> list[str]:
    threshold = tuned.calibration.thresholds[tuned.geometry]
    accuracy = f"accuracy to {ACCURATE:g} pixels"
    return [
        _table(
            f"support, sigmas: correct matches a pair, of {SUPPORT_KEYPOINTS} keypoints",
            {"": _keys(tuned.supports)},
            ".1f",
        ),
        _table(f"threshold, pixels, at ratio {tuned.own_ratio:g}: {accuracy}", {"": _keys(tuned.thresholds)}, ".3f"),
        _table(f"ratio, at {threshold:g} pixels: {accuracy}", {"": _keys(tuned.ratios)}, ".3f"),
    ]


def _sentence(tuned: Tuned) -> str:
    found = tuned.calibration
    return (
        f"{tuned.pairs} pairs: support {found.support:g} sigmas, ratio {found.ratio:g}, "
        f"{tuned.geometry} within {found.thresholds[tuned.geometry]:g} pixels."
    )


def _table(title: str, rows: Mapping[str, Mapping[str, float]], form: str) -> str:
    columns = list(next(iter(rows.values())))
    return Table(title, columns, rows, formats=dict.fromkeys(columns, form)).markdown(terminal_width())


def _keys(curve: Mapping[float, float]) -> dict[str, float]:
    return {f"{step:g}": value for step, value in curve.items()}


def _milliseconds(budget: str) -> float:
    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+) *(ms|s|)", budget.strip())
    number = float(found[1]) if found else 0.0
    if not number > 0:
        raise BadInput(f"{budget!r} is not a valid budget; give milliseconds such as 200ms, or seconds such as 0.5s.")
    return 1e3 * number if found and found[2] == "s" else number


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _counts(numbers: str) -> list[int]:
    try:
        counts = [int(each) for each in _listed(numbers)]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise BadInput(f"{numbers!r} is not a valid list of keypoint numbers; give some such as 512,2048.")
    return counts
