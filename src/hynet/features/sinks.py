"""Sinks of features: one file, or a collection of files; each knows which settings it was made with."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from ..errors import BadInput
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from .collection import INDEX, SHARD, read_index
from .hloc_file import h5_names, open_features, reading
from .settings import ORIENTATIONS, FeatureSettings, stored_settings
from .shards import Shard

SETTINGS = "settings.json"


class FileSink:
    """One features file, and beside it a folder of parts until it is whole."""

    in_collection = False

    def __init__(self, out: Path) -> None:
        self.out = out
        self.parts = out.with_name(f"{out.name}.parts")
        self.note = self.parts / SETTINGS
        self._keeps = True  # what is in the file

    def stored(self) -> list[tuple[Path, object]]:
        """Return what is there of an earlier run, with the settings that it was made with."""
        found: list[tuple[Path, object]] = []
        if self.out.exists():
            with open_features(self.out) as file, reading(self.out):
                found.append((self.out, file.attrs.get("settings")))
        return found + _noted(self.parts, self.note)

    def clear(self, where: Path) -> None:
        """Forget what is there; the file itself stays until the new one is whole."""
        if where == self.out:
            self._keeps = False
        else:
            shutil.rmtree(self.parts)

    def shards(self, named: Iterable[str]) -> dict[str, Shard]:
        """Return the one shard, with the photos that are in it and those of the list."""
        held = frozenset(h5_names(self.out)) if self._keeps and self.out.exists() else frozenset()
        return {self.out.name: Shard(self.out, self.parts, tuple(sorted({*held, *named})), held)}


class CollectionSink:
    """A folder of features files, and an index of which photo is in which."""

    in_collection = True

    def __init__(self, out: Path) -> None:
        self.out = out
        self.note = out / SETTINGS

    def stored(self) -> list[tuple[Path, object]]:
        """Return what is there of an earlier run, with the settings that it was made with."""
        return _noted(self.out, self.note)

    def clear(self, where: Path) -> None:
        """Remove all features."""
        for folder in ("shards", ".parts", "vectors"):
            shutil.rmtree(self.out / folder, ignore_errors=True)
        (self.out / INDEX).unlink(missing_ok=True)

    def shards(self, named: Iterable[str]) -> dict[str, Shard]:
        """Return the shards by name: those of an earlier run with their photos, then shards of new photos."""
        found: dict[str, list[str]] = {}
        if (self.out / INDEX).exists():
            known = read_index(self.out / INDEX, ["photo", "shard"])
            for photo, shard in zip(known["photo"], known["shard"], strict=True):
                found.setdefault(shard, []).append(photo)
        else:  # it was deleted, but finished shards have their rows beside them
            for file in sorted((self.out / "shards").glob("[0-9]*.h5")):
                found[f"shards/{file.name}"] = read_index(file.with_suffix(".parquet"), ["photo"])["photo"]
        placed = {name for names in found.values() for name in names}
        new = [name for name in named if name not in placed]
        first = 1 + max((int(Path(shard).stem) for shard in found), default=-1)
        for number, start in enumerate(range(0, len(new), SHARD), first):
            found[f"shards/{number:05}.h5"] = new[start : start + SHARD]
        parts = self.out / ".parts"
        return {name: Shard(self.out / name, parts / Path(name).stem, tuple(names)) for name, names in found.items()}


def _noted(where: Path, note: Path) -> list[tuple[Path, object]]:
    return [(where, note.read_text(encoding="utf-8", errors="replace"))] if note.exists() else []


Sink = FileSink | CollectionSink


def claim(sink: Sink, settings: FeatureSettings, weights: str | None, overwrite: bool) -> None:
    """Note the settings, before anything else is written; what is there must have been made with the same."""
    for where, text in sink.stored():
        if wrong := _problem(text, settings, weights, where):
            if not overwrite:
                raise wrong
            sink.clear(where)
    if settings.orientation != "auto" or not sink.note.exists():
        with atomic_write(sink.note) as temporary:
            temporary.write_text(settings.to_json(weights), encoding="utf-8")


def _problem(text: object, settings: FeatureSettings, weights: str | None, where: Path) -> BadInput | None:
    """Return why features there cannot be gone on with: just the settings that are different."""
    before, now = stored_settings(text), stored_settings(settings.to_json(weights)) or {}
    if before is None:
        return BadInput(f"{where} was not made by `hynet extract`, or is damaged; choose another name, or --overwrite.")
    if "auto" in (before["orientation"], now["orientation"]):  # not known yet, then or now
        now["orientation"] = before["orientation"]
    changed = fingerprints.difference(before, now)
    if not changed:
        return None
    return BadInput(f"{where} was made with other settings ({changed}); choose another name, or --overwrite.")


def earlier_orientation(sink: Sink) -> str | None:
    """Return what "auto" was found to be; damaged settings are reported by who checks all of them."""
    for _, text in sink.stored():
        orientation = (stored_settings(text) or {}).get("orientation")
        return orientation if orientation in ORIENTATIONS and orientation != "auto" else None
    return None
