"""A model folder -> its funnel, what is missing and why, in words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import DataNotFound
from ...sfm.colmap.reading import read_model
from .diagnosis import UNKNOWN, Finding, Source, findings
from .funnel import STAGES, StageCounts, count

DATABASE = "database.db"
FLAT = ("planar", "panoramic", "planar or panoramic")  # geometries of pairs that show no depth
MOST_LISTED = 40  # in the text, the worst first
NAMED = 3  # of photos that are missing for the same reason


@dataclass(frozen=True)
class Examination:
    """The result of examining one model folder: counts, a finding for each missing photo, notes."""

    model: str
    database: Path | None
    funnel: StageCounts
    findings: list[Finding]
    notes: list[str]

    @property
    def summary(self) -> str:
        """One sentence with the numbers of photos in the model, missing photos, 3-D points and pairs."""
        everyone = len(self.funnel.photos) + sum(finding.reason in UNKNOWN for finding in self.findings)
        matched, verified, both = (
            sum(bool(getattr(pair, stage)) for pair in self.funnel.pairs) for stage in STAGES[1:]
        )
        text = f"{everyone} photos, {everyone - len(self.findings)} in the model, {len(self.findings)} missing"
        if self.database is None:
            return f"{text}; {self.funnel.points:,} 3-D points."
        return (
            f"{text}; {self.funnel.points:,} 3-D points. Of {len(self.funnel.pairs):,} pairs compared, {matched:,} "
            f"have matches, {verified:,} agree on a geometry, {both:,} have 3-D points."
        )

    def totals(self) -> dict[str, int | None]:
        """Photos, points, and how many keypoints and matches got how far; None where no table tells."""
        pairs = self.funnel.pairs
        return {
            "photos in the model": self.funnel.registered,
            "3-D points": self.funnel.points,
            **{f"keypoints {stage}": total for stage, total in self.funnel.totals().items()},
            "matches": sum(pair.matched or 0 for pair in pairs) if self.database else None,
            "matches verified": sum(pair.verified or 0 for pair in pairs) if self.database else None,
            "matches triangulated": sum(pair.triangulated for pair in pairs),
        }

    def text(self) -> str:
        """For the terminal: the funnel, and what is missing."""
        lines = [f"{self.model}: {self.summary}", *self.notes, "", _funnel_table(self.funnel)]
        alike: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            alike.setdefault((finding.reason, finding.sentence), []).append(finding)
        advised = set()
        for (reason, sentence), of_these in list(alike.items())[:MOST_LISTED]:
            lines += ["", f"{_who([finding.photo for finding in of_these])} missing, {reason}: {sentence}"]
            if reason not in advised:  # the same advice again and again would hide the photos
                lines += [f"    try: {line}" for line in of_these[0].advice]
            advised.add(reason)
        if len(self.findings) > MOST_LISTED:
            reasons = Counter(finding.reason for finding in self.findings)
            counts = ", ".join(f"{number} by {reason}" for reason, number in reasons.most_common())
            lines += ["", f"All {len(self.findings)} missing photos: {counts}; --json and --out list them."]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """For machines."""
        names = [photo.name for photo in self.funnel.photos]
        return {
            "model": self.model,
            "database": None if self.database is None else str(self.database),
            "registered": self.funnel.registered,
            "points": self.funnel.points,
            "totals": self.funnel.totals(),
            "missing": [asdict(finding) for finding in self.findings],
            "photos": {
                photo.name: {k: v for k, v in asdict(photo).items() if k != "name"} for photo in self.funnel.photos
            },
            "pairs": [
                {**asdict(pair), "first": names[pair.first], "second": names[pair.second]} for pair in self.funnel.pairs
            ],
            "notes": self.notes,
        }


def examine(folder: Path, database: Path | None = None) -> Examination:
    """A COLMAP model with its database, or what there is of them."""
    if not folder.is_dir():
        raise DataNotFound(f"no folder {folder}; give one that `hynet reconstruct --out` wrote, or a COLMAP model.")
    database, models = database or find_database(folder), find_models(folder)
    if not models and database is None:
        raise DataNotFound(f"neither a COLMAP model nor a {DATABASE} in {folder}; `hynet reconstruct` makes both.")
    photos = read_model(models[0]).photos if models else ()
    funnel = count(database, {photo.name: photo.points for photo in photos})
    source = _source(folder)
    found = findings(funnel, source, str(folder))
    return Examination(str(folder), database, funnel, found, _notes(funnel, folder, models, database))


def find_database(folder: Path) -> Path | None:
    """In the folder, or above it: COLMAP keeps models in sparse/0 beside the database."""
    places = [folder, *list(folder.resolve().parents)[:2]]
    return next((place / DATABASE for place in places if (place / DATABASE).is_file()), None)


def find_models(folder: Path) -> list[Path]:
    """The folder itself, or models in folders below it such as sparse/0 and sparse/1, the largest first."""
    for below in ("", "*/", "*/*/"):
        files = [file for kind in ("bin", "txt") for file in folder.glob(f"{below}images.{kind}")]
        if files:
            return [file.parent for file in sorted(files, key=lambda file: (-file.stat().st_size, file))]
    return []


def _source(folder: Path) -> Source:
    """Read the photos and options that a model was made from, as `hynet reconstruct` noted them."""
    try:
        told = json.loads((folder / "photos.json").read_text(encoding="utf-8"))
        unreadable = {str(name): str(why) for name, why in told["unreadable"].items()}
        options = {str(name): str(value) for name, value in told["settings"].items() if value is not None}
        options.pop("matches_content", None)  # which is no option
        if not {"model", "extractor"} & options.keys():  # somebody else described them
            options["features"] = str(folder / told["features"])
        return Source(str(told["photos"]), unreadable, options)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a model that somebody else made
        return Source("photos/")


def _notes(funnel: StageCounts, folder: Path, models: Sequence[Path], database: Path | None) -> list[str]:
    """Write notes on the whole model: missing tables, photos not in the database, flat scenes."""
    notes = []
    if not models:
        notes.append("Only a database was found, no model yet.")
    elif models[0] != folder:
        notes.append(f"The model is {models[0]}, the largest of {len(models)} below the folder.")
    if database is None:
        notes.append(
            "There is no database: photos that are not in the model cannot be known; name one with --database."
        )
    elif any(photo.matched is None for photo in funnel.photos):
        notes.append(
            "Some photos of the model are not in the database: it is not the one that the model was made from."
        )
    verified = [pair for pair in funnel.pairs if pair.verified]
    flat = sum(pair.geometry in FLAT for pair in verified)
    if funnel.registered < len(funnel.photos) and 2 * flat > len(verified):
        notes.append(
            f"{flat} of {len(verified)} verified pairs are planar or panoramic: a flat wall, or photos taken from one "
            "spot, give no depth to start from."
        )
    return notes


def _who(names: Sequence[str]) -> str:
    """One photo is, several are; of many, a few are named."""
    if len(names) == 1:
        return f"{names[0]} is"
    few = names if len(names) <= NAMED else [*names[:NAMED], f"{len(names) - NAMED} more"]
    return f"{', '.join(few[:-1])} and {few[-1]} are"


def _funnel_table(funnel: StageCounts) -> str:
    """The stages of every photo, as text."""
    rows: list[tuple[str, ...]] = [("keypoints", *STAGES)]
    rows.append(("all photos", *(_count(total) for total in funnel.totals().values())))
    listed = sorted(funnel.photos, key=lambda photo: (photo.registered, photo.triangulated, photo.name))[:MOST_LISTED]
    rows += [
        (("" if photo.registered else "! ") + photo.name, *(_count(getattr(photo, stage)) for stage in STAGES))
        for photo in listed
    ]
    width = max(len(row[0]) for row in rows)
    lines = [row[0].ljust(width) + "".join(cell.rjust(14) for cell in row[1:]) for row in rows]
    if len(listed) < len(funnel.photos):
        lines.append(f"... and {len(funnel.photos) - len(listed)} photos with more; --json and --out list all.")
    return "\n".join(lines)


def _count(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
