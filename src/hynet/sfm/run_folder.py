"""The notes in the folder of a reconstruction: what it was made from and how, so that a run can be taken up again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import BadData, BadInput
from ..system.files import whole


@contextmanager
def says_what_is_kept(out: Path) -> Iterator[None]:
    """An interruption says what is kept."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(f"what is done is kept in {out}, run the same command again to go on")
        raise


def note_of_run(out: Path, photos: Path, features: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What photos.json will say. Matches of an earlier run are taken up only if they were made alike."""
    inside = features.parent == out  # then the folder may be moved
    note = {
        "photos": str(photos.resolve()),
        "features": features.name if inside else str(features.resolve()),
        "settings": dict(settings),
    }
    before = earlier_note(out)
    if before and any(before[key] != note[key] for key in ("features", "settings")):
        made_with = {**before["settings"], "features": before["features"]}
        raise BadInput(f"{out} was made with other settings ({made_with}); choose another folder, or delete it.")
    return note


def earlier_note(out: Path) -> dict[str, Any]:
    """What photos.json says of an earlier run; nothing where there was none."""
    try:
        told = json.loads((out / "photos.json").read_text())
        return {key: told[key] for key in ("features", "settings", "contents")}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise BadData(
            f"{out}/photos.json is of another program or version; choose another folder, or delete it."
        ) from None


def check_photos(out: Path, contents: Mapping[str, str | None]) -> None:
    """Those that are in the model already must still be there, and the same: it keeps what it saw of them."""
    for name, before in earlier_note(out).get("contents", {}).items():
        if name not in contents:
            raise BadInput(f"{out} also holds {name}, which is not in the folder; choose another folder for the model.")
        if contents[name] != before:
            raise BadInput(
                f"{out} was made from another photo {name}, or with another mask; choose another folder for the model."
            )


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    with whole(path) as file:
        file.write_text(json.dumps(value, indent=1) + "\n")
