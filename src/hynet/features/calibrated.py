"""Calibrations of a model with a detector: support width, ratio and inlier thresholds, in a file beside the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import BadData
from ..runtime.files import atomic_write
from ..runtime.machine import settings_folder
from .descriptors import DESCRIPTORS
from .models import FOLDER, own_name


@dataclass(frozen=True)
class Calibration:
    """Values that calibration found for one detector; None and absent geometries stand for the usual ones."""

    support: float | None = None  # full width of a patch in detector sigmas
    ratio: float | None = None  # a match is kept if it is nearer than so many times the runner-up
    thresholds: Mapping[str, float] = field(default_factory=dict)  # geometry -> pixels of the original photo


def places(model: str | Path) -> list[Path]:
    """Files that may hold a model's calibration. New ones go to the first: beside the weights, if the model is a file.

    For a name it is the user's own folder, before what ships with the package.
    """
    path, shipped = Path(own_name(model)), FOLDER / f"{own_name(model)}.onnx"
    if path.exists() and not shipped.is_file() and str(path) not in DESCRIPTORS:  # names come before paths
        return [_beside(path)]
    return [_beside(settings_folder() / path.name), _beside(shipped)]


def saved(model: str | Path, detector: str, *, personal: bool = True) -> Calibration:
    """The calibration of the first place that has one for this detector, or an empty one.

    personal: a user's own folder counts; it does not in benchmarks, whose numbers others compare.
    """
    for path in places(model) if personal else places(model)[-1:]:
        if path.is_file() and detector in (rows := _rows(path)):
            return _calibration(rows[detector], path)
    return Calibration()


def claim(path: str | Path) -> None:
    """Say now that a calibration cannot be kept there, not after minutes of work."""
    path = Path(path)
    rows = _rows(path) if path.is_file() else None
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    if rows is None:
        path.unlink()  # nothing stays of a run that fails


def save(calibration: Calibration, path: str | Path, detector: str) -> None:
    """Into the file, whose rows for other detectors stay; thresholds of other geometries stay too."""
    path = Path(path)
    rows = _rows(path) if path.is_file() else {}
    before = _calibration(rows[detector], path).thresholds if detector in rows else {}
    row = asdict(calibration) | {"thresholds": {**before, **calibration.thresholds}}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(rows | {detector: row}, indent=2) + "\n", encoding="utf-8")


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.calibration.json")


def _rows(path: Path) -> dict[str, Any]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(rows, dict):
            return rows
    except (OSError, ValueError, RecursionError):  # UnicodeDecodeError is one of these
        pass
    raise BadData(f"{path} is not a valid calibration; delete it, or run `hynet tune` again with another --out.")


def _calibration(row: Any, path: Path) -> Calibration:
    try:
        support, ratio = (None if row.get(key) is None else float(row[key]) for key in ("support", "ratio"))
        thresholds = {str(name): float(pixels) for name, pixels in row.get("thresholds", {}).items()}
        usable = all(0 < pixels < 1e6 for pixels in thresholds.values())  # which NaN is not
        usable &= (support is None or 0 < support < 1e4) and (ratio is None or 0 < ratio <= 1)
    except (AttributeError, TypeError, ValueError, OverflowError):
        usable = False
    if not usable:
        raise BadData(f"{path} is not a valid calibration; delete it and run `hynet tune` again.")
    return Calibration(support, ratio, thresholds)
