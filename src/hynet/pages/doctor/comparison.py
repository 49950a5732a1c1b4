"""Two models of the same photos beside each other: on the same keypoints, the difference is the descriptor's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...sfm.colmap.tables import read_tables
from .examination import MOST_LISTED, Examination
from .funnel import PairCounts, PhotoCounts, StageCounts

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class ModelComparison:
    """Two examined models side by side, by names; None where one of them does not know the photo or the pair."""

    first: Examination
    second: Examination
    photos: Mapping[str, tuple[PhotoCounts | None, PhotoCounts | None]]
    pairs: Mapping[str, tuple[PairCounts | None, PairCounts | None]]  # "a – b"
    same_keypoints: int  # photos
    other_keypoints: int  # photos in both whose keypoints differ

    @property
    def same_matches(self) -> bool:
        """Whether every pair has as many matches in both, and as many that agree."""
        return all(
            one is not None and two is not None and (one.matched, one.verified) == (two.matched, two.verified)
            for one, two in self.pairs.values()
        )

    @property
    def verdict(self) -> str:
        """Whether the difference is the descriptor's alone."""
        if not self.same_keypoints and not self.other_keypoints:
            return "No photo has keypoints in both databases, so it is open where the differences come from."
        if not self.other_keypoints and self.same_matches:
            return (
                f"All {self.same_keypoints} photos have the same keypoints in both, and all pairs as many matches: "
                "the differences come from mapping alone."
            )
        if not self.other_keypoints:
            return (
                f"All {self.same_keypoints} photos have the same keypoints in both: "
                "the differences come from describing and matching alone."
            )
        return (
            f"{self.other_keypoints} of {self.same_keypoints + self.other_keypoints} photos have other keypoints: "
            "the differences come from detecting as well."
        )

    @property
    def notes(self) -> list[str]:
        """Notes on gaps in the tables of both models, each after the name of its model."""
        return [f"{each.model}: {note}" for each in (self.first, self.second) for note in each.notes]

    def totals(self) -> list[tuple[str, tuple[int | None, int | None], float | None]]:
        """Rows of the totals: name, count in each model, and the ratio of the second count to the first."""
        first, second = self.first.totals(), self.second.totals()
        rows = []
        for name, one in first.items():
            two = second[name]
            rows.append((name, (one, two), two / one if one and two is not None else None))
        return rows

    def text(self) -> str:
        """For the terminal: the totals, and photos that only one of the two has."""
        rows = [("", "first", "second", "second / first")]
        for name, counts, ratio in self.totals():
            cells = ["-" if count is None else f"{count:,}" for count in counts]
            rows.append((name, cells[0], cells[1], "-" if ratio is None else f"{ratio:.2f}"))
        width = max(len(row[0]) for row in rows)
        lines = [
            f"first:  {self.first.model}: {self.first.summary}",
            f"second: {self.second.model}: {self.second.summary}",
        ]
        lines += [
            *self.notes,
            self.verdict,
            "",
            *(row[0].ljust(width) + "".join(cell.rjust(16) for cell in row[1:]) for row in rows),
        ]
        for name, missing in (("first", self.second), ("second", self.first)):
            lost = [finding for finding in missing.findings if self._registered(name, finding.photo)]
            shown = [f"only in the {name}: {finding.photo} ({finding.reason} in the other)" for finding in lost]
            lines += shown[:MOST_LISTED] + [f"... and {len(lost) - MOST_LISTED} more"] * (len(lost) > MOST_LISTED)
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "first": self.first.data(),
            "second": self.second.data(),
            "same_keypoints": self.same_keypoints,
            "other_keypoints": self.other_keypoints,
            "verdict": self.verdict,
        }

    def _registered(self, which: str, name: str) -> bool:
        photo = self.photos.get(name, (None, None))[which == "second"]
        return photo is not None and photo.registered


def compare(first: Examination, second: Examination) -> ModelComparison:
    """Both beside each other, photo by photo and pair by pair."""
    one, two = _keypoints(first.database), _keypoints(second.database)
    both = one.keys() & two.keys()
    same = sum(one[name] == two[name] for name in both)
    photos = _beside(*({photo.name: photo for photo in each.funnel.photos} for each in (first, second)))
    pairs = _beside(_pairs(first.funnel), _pairs(second.funnel))
    return ModelComparison(first, second, photos, pairs, same, len(both) - same)


def _keypoints(database: Path | None) -> dict[str, str]:
    if database is None:
        return {}
    with read_tables(database) as tables:
        return tables.keypoint_digests()


def _pairs(funnel: StageCounts) -> dict[str, PairCounts]:
    names = [photo.name for photo in funnel.photos]
    return {" – ".join(sorted((names[pair.first], names[pair.second]))): pair for pair in funnel.pairs}


def _beside(first: Mapping[Key, Value], second: Mapping[Key, Value]) -> dict[Key, tuple[Value | None, Value | None]]:
    return {name: (first.get(name), second.get(name)) for name in {**first, **second}}
