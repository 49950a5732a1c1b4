"""The note in the folder of a reconstruction: what it was made from and how, so that a run can go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BadData, BadInput
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from .colmap import MODEL_FILES

NOTE = "photos.json"
DATABASE = "database.db"
MADE = ("table.json", "table.md", "points.ply", *MODEL_FILES, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", NOTE)


class RunNote:
    """The note of an earlier run's inputs in a folder; different inputs are refused, or replaced with `overwrite`."""

    def __init__(self, out: Path, overwrite: bool) -> None:
        self._out, self._overwrite = out, overwrite
        self._before = read_note(out)
        if self._before and not self._before.keys() >= {"features", "settings", "contents", "described"}:
            raise BadData(f"{out / NOTE} is of another program or version; choose another folder, or delete it.")

    def check_settings(self, settings: Mapping[str, Any], features: str) -> None:
        """Refuse other settings; of matches their content counts, wherever the file lies."""
        now, before = ({**each, "matches": None} for each in (settings, self._before.get("settings", {})))
        now["features"], before["features"] = features, self._before.get("features")
        if self._before and (changed := fingerprints.difference(before, now)):
            self._refuse(f"was made with other settings ({changed})")

    def check_photos(self, contents: Mapping[str, str | None]) -> None:
        """Refuse other photos: a model keeps what it saw of those that are in it already."""
        for name, before in self._before.get("contents", {}).items():
            if name not in contents:
                self._refuse(f"also holds {name}, which is not in the folder")
            elif contents[name] != before:
                self._refuse(f"was made from another photo {name}, or with another mask")

    def check_described(self, described: Mapping[str, str]) -> None:
        """Refuse other features of the same photos: the matches of a model name their rows."""
        for name, before in self._before.get("described", {}).items():
            if described.get(name, before) != before:
                self._refuse(f"was made of other features of {name}")

    def _refuse(self, why: str) -> None:
        if not self._overwrite:
            raise BadInput(f"{self._out} {why}; choose another --out, or --overwrite.")
        for name in MADE:  # the note goes last
            (self._out / name).unlink(missing_ok=True)
        self._before = {}


def read_note(out: Path) -> dict[str, Any]:
    """Read the note of a run; empty where there is none."""
    try:
        note = json.loads((out / NOTE).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError:
        note = None
    if not isinstance(note, dict):
        raise BadData(f"{out / NOTE} is of another program or version; choose another folder, or delete it.")
    return note


def folder_of_photos(out: Path) -> Path | None:
    """The photos of a model, if its note names their folder and it still is there."""
    try:
        folder = Path(read_note(out)["photos"])
        return folder if folder.is_dir() else None
    except (BadData, OSError, KeyError, TypeError):
        return None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a note or a table, whole or not at all."""
    with atomic_write(path) as file:
        file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
