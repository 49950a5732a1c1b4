"""The notes in the folder of a reconstruction: what it was made from and how, so that a run can be taken up again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BadData, BadInput
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from .colmap import MODEL_FILES


def note_of_run(
    out: Path, photos: Path, features: Path, settings: Mapping[str, Any], overwrite: bool
) -> dict[str, Any]:
    """What photos.json will say. Matches of an earlier run are taken up only if they were made alike."""
    inside = features.parent == out  # then the folder may be moved
    note = {
        "photos": str(photos.resolve()),
        "features": features.name if inside else str(features.resolve()),
        "settings": dict(settings),
    }
    before = earlier_note(out)
    if before and (changed := fingerprints.difference(_made_with(before), _made_with(_as_noted(note, before)))):
        if not overwrite:
            raise BadInput(f"{out} was made with other settings ({changed}); choose another folder, or --overwrite.")
        clear(out)
    return note


def _as_noted(note: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """As earlier versions would have put it: without shape and orientation, of which the features file knows."""
    if before["described"]:
        return note
    settings = {name: value for name, value in note["settings"].items() if name not in ("shape", "orientation")}
    return {**note, "settings": settings}


def _made_with(note: Mapping[str, Any]) -> dict[str, Any]:
    """What must stay the same; of matches their content, wherever the file lies."""
    settings = {name: value for name, value in note["settings"].items() if name != "matches"}
    if "matches" in note["settings"]:  # earlier versions noted both in one
        settings.setdefault("matches_content", note["settings"]["matches"].split()[-1])
    return {**settings, "features": note["features"]}


def clear(out: Path) -> None:
    """What an earlier run made of its features, for one that is made otherwise; the note goes last."""
    for name in (
        "table.json",
        "table.md",
        "points.ply",
        *MODEL_FILES,
        *(f"database.db{end}" for end in ("", "-wal", "-shm")),
        "photos.json",
    ):
        (out / name).unlink(missing_ok=True)


def earlier_note(out: Path) -> dict[str, Any]:
    """What photos.json says of an earlier run; nothing where there was none."""
    try:
        told = json.loads((out / "photos.json").read_text(encoding="utf-8"))
        before = {key: told[key] for key in ("features", "settings", "contents")}
        return before | {"described": dict(told.get("described", {}))}  # which earlier versions did not note
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise BadData(
            f"{out}/photos.json is of another program or version; choose another folder, or delete it."
        ) from None


def folder_of_photos(out: Path) -> Path | None:
    """Where the photos of a model are, if photos.json says it and they still are."""
    try:
        folder = Path(json.loads((out / "photos.json").read_text(encoding="utf-8"))["photos"])
        return folder if folder.is_dir() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_photos(out: Path, contents: Mapping[str, str | None], overwrite: bool) -> None:
    """Those that are in the model already must still be there, and the same: it keeps what it saw of them."""
    for name, before in earlier_note(out).get("contents", {}).items():
        if contents.get(name) == before and name in contents:
            continue
        if overwrite:
            clear(out)
            return
        if name not in contents:
            raise BadInput(
                f"{out} also holds {name}, which is not in the folder; choose another --out, or --overwrite."
            )
        raise BadInput(
            f"{out} was made from another photo {name}, or with another mask; choose another --out, or --overwrite."
        )


def check_described(out: Path, described: Mapping[str, str], overwrite: bool) -> None:
    """The features of those that are in the model already must be the same: its matches name their rows."""
    before = earlier_note(out).get("described", {})
    changed = next((name for name, known in before.items() if described.get(name, known) != known), None)
    if changed is None:
        return
    if not overwrite:
        raise BadInput(f"{out} was made of other features of {changed}; choose another --out, or --overwrite.")
    clear(out)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
