"""Writing an HDF5 file of matches pair by pair, so that a run that was stopped or killed goes on."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..errors import BadInput
from ..features.hloc_file import open_features
from ..runtime import fingerprints
from ..runtime.files import atomic_write
from ..types import Array, Pair
from .hloc_matches import group_name

TOGETHER = 100  # pairs in one file of parts: what a power cut can cost


class MatchesWriter:
    """Stores pairs as they are matched, in files beside `out`: HDF5 does not survive a crash while it is written."""

    def __init__(self, out: Path, settings: Mapping[str, Any], overwrite: bool) -> None:
        self.out, self.settings = out, json.dumps(dict(settings))
        self.folder = out.with_name(f"{out.name}.parts")
        self._waiting: dict[str, Array] = {}
        note = self.folder / "settings.json"
        wrong = {
            out: self._problem(out, self._in_file()) if out.exists() else None,
            self.folder: self._problem(self.folder, note.read_text(encoding="utf-8")) if note.exists() else None,
        }
        for problem in wrong.values():
            if problem and not overwrite:
                raise problem
        if wrong[self.folder]:
            shutil.rmtree(self.folder)
        self._goes_on = out.exists() and not wrong[out]  # what is in the file is kept

    def add(self, pair: Pair, made_from: str, found: Mapping[str, Array]) -> None:
        name = group_name(*pair)
        self._waiting |= {f"{name}/{key}": column for key, column in found.items()}
        self._waiting[f"{name}/made_from"] = np.array(made_from)
        if len(self._waiting) >= 4 * TOGETHER:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            with atomic_write(self.folder / "settings.json") as temporary:  # first: it says what the others are
                temporary.write_text(self.settings, encoding="utf-8")
            number = 1 + max((int(file.stem) for file in self._files()), default=-1)
            with atomic_write(self.folder / f"{number:06d}.npz") as temporary, temporary.open("wb") as file:
                np.savez(file, **self._waiting)  # type: ignore[arg-type]
            self._waiting = {}

    def done(self) -> dict[str, str]:
        """Return fingerprints of what matches were made from, by group, of the file and of the parts."""
        found: dict[str, str] = {}
        if self._goes_on:
            with open_features(self.out) as file:
                file.visititems(
                    lambda name, item: (
                        found.update({name: str(item.attrs.get("made_from"))})
                        if "matches0" in getattr(item, "keys", dict)()
                        else None
                    )
                )
        for part in self._files():
            try:
                with np.load(part) as stored:
                    found |= {
                        key.removesuffix("/made_from"): str(stored[key]) for key in stored if key.endswith("/made_from")
                    }
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                part.unlink()  # as a power cut leaves it
        return found

    def assemble(self, asked: Sequence[Pair]) -> dict[Pair, tuple[int, int]]:
        """Write one file of what was there and of all parts, which go; return matches and inliers of the pairs."""
        self.flush()
        with atomic_write(self.out) as temporary, h5py.File(temporary, "w") as file:
            if self._goes_on:
                with open_features(self.out) as earlier:
                    for name in earlier:
                        earlier.copy(name, file)
            for part in self._files():
                with np.load(part) as stored:
                    for key, column in stored.items():
                        name, _, kind = key.rpartition("/")
                        if kind == "made_from":
                            file.require_group(name).attrs[kind] = str(column)
                            continue
                        if key in file:
                            del file[key]
                        file.create_dataset(key, data=column)
            file.attrs["settings"] = self.settings
            counts = {}
            for pair in asked:
                group = file[group_name(*pair)]
                counts[pair] = int((group["matches0"][()] >= 0).sum()), int(group["inliers0"][()].sum())
        shutil.rmtree(self.folder, ignore_errors=True)  # not there where no pair was new
        return counts

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.npz"))

    def _in_file(self) -> object:
        with open_features(self.out) as file:
            return file.attrs.get("settings")

    def _problem(self, place: Path, written: object) -> BadInput | None:
        """Say why a run cannot go on with the matches there."""
        try:
            before = json.loads(written) if isinstance(written, str) else None
        except ValueError:
            before = None
        if not isinstance(before, dict):
            return BadInput(f"{place} was not made by `hynet match`; choose another --out, or --overwrite.")
        changed = fingerprints.difference(before, json.loads(self.settings))
        if not changed:
            return None
        return BadInput(f"{place} was made with other settings ({changed}); choose another --out, or --overwrite.")
