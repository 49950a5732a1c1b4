"""Funnel -> why each missing photo is missing, and what to try."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from .funnel import PhotoCounts, StageCounts

# COLMAP's defaults for incremental mapping.
POSE_POINTS = 30  # 3-D points that must agree on the pose of a photo
START_MATCHES = 100  # of the pair that a model starts from, which must also see points under 16 degrees

AGAIN = "hynet reconstruct {photos} --out {other_model}"  # another folder: one holds features of one kind
SEE = "hynet match {photo} {partner}"
# reason -> what to try
ADVICE: Mapping[str, tuple[str, ...]] = {
    "unreadable": ("convert the file to JPEG or PNG, or take it out of the folder",),
    "no features": ("add them to the features file, in a group named like the photo's path below the folder",),
    "no keypoints": (
        "look at the photo: black, white and blurred ones have no corners",
        f"another detector may find some: {AGAIN} --detector keynet",
    ),
    "not compared": ("compare all with all, or name its pairs in a file: {again_here} --pairs exhaustive",),
    "no matches": (
        f"see whether both show the same place: {SEE} --show keypoints",
        f"more keypoints: {AGAIN} --max-keypoints 8000",
    ),
    "not verified": (
        f"see which matches are wrong: {SEE}",
        f"more keypoints: {AGAIN} --max-keypoints 8000",
        "take photos between it and its neighbours, at most 30 degrees apart",
    ),
    "never verified": (
        "whoever wrote this database left out the two-view geometries, without which COLMAP sees no matches",
        f"match and verify anew: {AGAIN}",
    ),
    "outside the model": (
        "if they are of another place, reconstruct them by themselves, from a folder of their own",
        "take photos that overlap with both groups",
        "compare all with all, if that was not done: {again_here} --pairs exhaustive",
        f"more keypoints may link them: {AGAIN} --max-keypoints 8000",
        "start elsewhere: {again_here} --mapper global",
    ),
    "too few points": (
        "start elsewhere: {again_here} --mapper global",
        f"more keypoints: {AGAIN} --max-keypoints 8000",
        "take photos between it and its neighbours: what it shows must be seen by two others",
    ),
    "no pose": (
        f"its focal length may be wrong (cropped, edited, no EXIF): {AGAIN} --camera shared",
        f"twin facades and rows of windows look alike: {SEE}",
    ),
    "no start": (
        "go on where it was cut off: {again_here}",
        "move between photos: from one spot, only turned, they show no depth",
        "start elsewhere: {again_here} --mapper global",
        f"more keypoints: {AGAIN} --max-keypoints 8000",
    ),
}
UNKNOWN = ("unreadable", "no features")  # reasons of photos that never reached the database


@dataclass(frozen=True)
class Finding:
    """The reason that one photo is missing: a key of ADVICE, a sentence with the numbers, and what to try."""

    photo: str
    reason: str
    sentence: str
    advice: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """The photos and options that a model was made from, so far as they are known."""

    photos: str  # the folder
    unreadable: Mapping[str, str] = field(default_factory=dict)  # photos that never reached the database -> why
    options: Mapping[str, str] = field(default_factory=dict)  # of `hynet reconstruct`

    def again(self, model: str) -> str:
        """The command that takes this model up: other options would be refused."""
        options = [f"--{name.replace('_', '-')} {quote(value)}" for name, value in self.options.items()]
        return " ".join(["hynet reconstruct", quote(self.photos), "--out", quote(model), *options])


def findings(funnel: StageCounts, source: Source, model: str) -> list[Finding]:
    """One finding a missing photo; `model`: the folder."""
    lost = "no features" if "features" in source.options else "unreadable"
    found = [Finding(name, lost, why, ADVICE[lost]) for name, why in source.unreadable.items()]
    groups, links = _groups(funnel), _links(funnel)
    for row, photo in enumerate(funnel.photos):
        if not photo.registered:
            reason, sentence = _reason(funnel, photo, links[row], groups[row])
            partner = links[row][0].partner.name if links[row] else "ANOTHER"
            words = {
                "photos": quote(source.photos),
                "other_model": quote(f"{model.rstrip('/')}-again"),
                "again_here": source.again(model),
                "photo": quote(str(Path(source.photos) / photo.name)),
                "partner": quote(str(Path(source.photos) / partner)),
            }
            found.append(Finding(photo.name, reason, sentence, tuple(line.format(**words) for line in ADVICE[reason])))
    return found


@dataclass(frozen=True)
class _Link:
    """A pair as one of its photos sees it."""

    partner: PhotoCounts
    matched: int
    verified: int

    def __str__(self) -> str:
        if self.verified:
            return f"best with {self.partner.name}, {self.verified:,} verified matches"
        return f"best with {self.partner.name}, {self.matched:,} matches"


def _reason(funnel: StageCounts, photo: PhotoCounts, links: Sequence[_Link], group: frozenset[int]) -> tuple[str, str]:
    """The first step that lost the photo. `links`: the strongest first."""
    if not photo.detected:
        return "no keypoints", "Nothing was detected."
    if not links:
        return "not compared", f"{photo.detected:,} keypoints were detected, but compared with no other photo."
    if not photo.matched:
        return "no matches", f"Of {photo.detected:,} keypoints none matches in the {len(links)} photos tried."
    if not any(pair.geometry for pair in funnel.pairs):
        return "never verified", f"{photo.matched:,} keypoints match ({links[0]}), but no pair at all was verified."
    if not photo.verified:
        return "not verified", f"{photo.matched:,} keypoints match ({links[0]}), but agree on no geometry."
    if not any(other.registered for other in funnel.photos):
        return "no start", (
            f"{photo.verified:,} keypoints are verified ({links[0]}), but no model was begun: COLMAP wants a pair with "
            f"{START_MATCHES} verified matches that sees points from two sides, or the run was cut off before."
        )
    partners = [link.partner for link in links if link.verified]
    if not any(partner.registered for partner in partners):
        if any(funnel.photos[row].registered for row in group):
            return "outside the model", f"The {len(partners)} photos it is verified with are missing too ({links[0]})."
        first = funnel.photos[min(group)].name  # the sentence is the same for all of a group, and for no other
        return "outside the model", (
            f"Nothing links the group of {len(group)} photos around {first} to the model: "
            "they seem to be of another place."
        )
    if photo.seen < POSE_POINTS:
        few = f"only {photo.seen}" if photo.seen else "none"
        return "too few points", (
            f"{photo.verified:,} keypoints are verified ({links[0]}), but {few} with a 3-D point of the model; COLMAP "
            f"wants {POSE_POINTS} that agree."
        )
    return "no pose", (
        f"It sees {photo.seen:,} 3-D points of the model ({links[0]}), but too few of them agree on its pose; COLMAP "
        f"wants {POSE_POINTS}, and a quarter."
    )


def _links(funnel: StageCounts) -> Mapping[int, list[_Link]]:
    """Collect the links of each photo to its partners, the strongest first."""
    links = defaultdict(list)
    for pair in funnel.pairs:
        for row, partner in ((pair.first, pair.second), (pair.second, pair.first)):
            links[row].append(_Link(funnel.photos[partner], pair.matched or 0, pair.verified or 0))
    for of_photo in links.values():
        of_photo.sort(key=lambda link: (link.verified, link.matched), reverse=True)
    return links


def _groups(funnel: StageCounts) -> list[frozenset[int]]:
    """Find the connected group of each photo: the rows that verified pairs lead to from it, its own among them."""
    neighbours = defaultdict(set)
    for pair in funnel.pairs:
        if pair.verified:
            neighbours[pair.first].add(pair.second)
            neighbours[pair.second].add(pair.first)
    group: dict[int, frozenset[int]] = {}
    for row in range(len(funnel.photos)):
        if row not in group:
            members, border = {row}, [row]
            while border:
                new = neighbours[border.pop()] - members
                members |= new
                border += new
            group |= dict.fromkeys(members, frozenset(members))
    return [group[row] for row in range(len(funnel.photos))]
