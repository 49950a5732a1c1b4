"""Measure which detector, model and number of keypoints suit your own photos and machine.

Example: hynet choose --photos photos/ --budget 200ms
         hynet choose --photos photos/ --models default,runs/mine/best.pt --detectors dog --keypoints 1024,2048
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from ..errors import BadInput
from ..evaluation.tuning import choosing
from ..types import Table
from . import Report, terminal_width
from .progress import bar


def run(
    *,
    photos: Path,
    budget: str | None = None,
    detectors: str = "dog,keynet",
    models: str = "light,default,rootsift",
    extractors: str = "opencv-rootsift",
    keypoints: str = "512,1024,2048,4096",
    pairs: int = 6,
) -> Report:
    """Measure milliseconds per photo and correct matches per pair for every combination.

    Overlapping photos are reconstructed first, to know which matches are correct (with pycolmap; its matches are kept);
    other photos are matched with warped copies of themselves.

    Args:
        photos: A folder of overlapping photos, or of such folders.
        budget: Time limit per photo, such as 200ms or 0.5s.
        detectors: Detectors, separated by commas.
        models: Models, by name or path, separated by commas.
        extractors: Extractors that both detect and describe keypoints, by name or path to weights, separated by commas.
        keypoints: Numbers of keypoints per photo, separated by commas.
        pairs: Number of photo pairs to measure on.
    """
    limit = None if budget is None else _milliseconds(budget)
    asked = choosing.candidates(_listed(detectors), _listed(models), _listed(extractors), _counts(keypoints))
    with TemporaryDirectory() as scratch, bar() as progress:
        known, meaning = choosing.known_pairs(photos, pairs, Path(scratch), progress)
        measured = choosing.measure(known, asked, progress=progress)
    front = choosing.front(measured)
    chosen = front[-1] if limit is None else choosing.within(limit, measured)
    rows = [_row(each) for each in measured]
    cells = {each.candidate.options: {"ms": each.ms, "right": each.right} for each in front}
    table = Table("Worth their time", ["ms", "right"], cells, formats={"ms": ".0f", "right": ".0f"})
    text = [
        table.markdown(terminal_width()),
        f"ms: per photo, median, on all cores. right: matches per pair, mean of {len(known)}, {meaning}.",
    ]
    command = None if chosen is None else f"hynet match A B {chosen.candidate.options}"
    if chosen is None:
        text.append(f"Nothing takes less than {limit:g} ms here; the fastest takes {front[0].ms:.0f}.")
    else:
        text.append(f"Use: {command}")
    data = {
        "rows": rows,
        "front": [_row(each) for each in front],
        "chosen": None if chosen is None else _row(chosen),
        "command": command,
        "pairs": len(known),
        "right_means": meaning,
    }
    return Report("\n\n".join(text), data)


def _row(measured: choosing.Measured) -> dict[str, object]:
    return {**asdict(measured.candidate), "ms": measured.ms, "right": measured.right}


def _milliseconds(budget: str) -> float:
    found = re.fullmatch(r"([0-9.]+) *(ms|s|)", budget.strip())
    try:
        number = float(found[1]) if found else 0.0
    except ValueError:
        number = 0.0
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
