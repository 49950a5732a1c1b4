"""The bill of materials of a model: every scene it was trained on, with its photos, source and licence."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import BadInput, DataNotFound

NEEDED = ("scene", "source", "licence")  # columns of the table of sources; others are shown as they are


@dataclass(frozen=True)
class TrainingScene:
    """A scene of a training set; a set that does not name its scenes counts as one, of an unknown number of photos."""

    name: str
    photos: int | None  # that patches were cut from
    patches: int


@dataclass(frozen=True)
class Sources:
    """The table of scenes' sources and licences: scene -> its row, by the names of the columns."""

    path: Path
    columns: tuple[str, ...]
    rows: Mapping[str, Mapping[str, str]]


def read_sources(path: Path) -> Sources:
    """A CSV with the columns scene, source and licence, and any others."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            header, rows = tuple(reader.fieldnames or ()), list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(
            f"{path} cannot be read as a CSV file ({why}); give one with the columns {', '.join(NEEDED)}."
        ) from None
    if missing := [name for name in NEEDED if name not in header]:
        columns = ", ".join(header) or "none"
        raise BadInput(f"{path} has no column {' and no '.join(missing)}; add it. Its columns are: {columns}.")
    return Sources(path, tuple(name for name in header if name != "scene"), {row["scene"]: row for row in rows})


def training_scenes(sets: Mapping[Path, int]) -> list[TrainingScene]:
    """The scenes of patch sets, given with their numbers of patches; a scene of two sets counts once for each."""
    return [scene for root, patches in sets.items() for scene in _scenes_of(root, patches)]


def bill_of_materials(scenes: Iterable[TrainingScene], sources: Sources) -> list[str]:
    """Lines of Markdown: a row for each scene, which must have a source and a licence."""
    ordered = sorted(scenes, key=lambda scene: scene.name)
    if unknown := [scene.name for scene in ordered if scene.name not in sources.rows]:
        raise BadInput(f"{sources.path} has no row of {', '.join(unknown)}, which the model was trained on; add it.")
    if empty := [scene.name for scene in ordered if not all(sources.rows[scene.name][name].strip() for name in NEEDED)]:
        raise BadInput(f"{sources.path} leaves source or licence of {', '.join(empty)} empty; fill it in.")
    photos, patches = sum(scene.photos or 0 for scene in ordered), sum(scene.patches for scene in ordered)
    rows = [
        ("scene", "photos", "patches", *sources.columns),
        ("---",) * (3 + len(sources.columns)),
        *(
            (scene.name, *_counts(scene), *(sources.rows[scene.name][name] for name in sources.columns))
            for scene in ordered
        ),
    ]
    return [
        f"{len(ordered)} scenes, {patches:,} patches from {photos:,} photos; licences as stated at the source.",
        "",
        *(f"| {' | '.join(map(_cell, row))} |" for row in rows),
    ]


def _scenes_of(root: Path, patches: int) -> list[TrainingScene]:
    if not root.is_dir():
        raise DataNotFound(
            f"no folder {root}, which the model was trained on; its scene.json says which scenes it has."
        )
    try:
        told = json.loads((root / "scene.json").read_text(encoding="utf-8"))["scenes"]
        return [TrainingScene(one["name"], one["registered"], one["patches"]) for one in told if one["patches"]]
    except FileNotFoundError:  # a set of others
        return [TrainingScene(root.name, None, patches)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{root / 'scene.json'} does not tell its scenes ({error}); make the set again.") from None


def _counts(scene: TrainingScene) -> tuple[str, str]:
    return "" if scene.photos is None else str(scene.photos), str(scene.patches)


def _cell(text: str) -> str:
    """On one line; a bar would end it."""
    return " ".join(text.split()).replace("|", "\\|")
