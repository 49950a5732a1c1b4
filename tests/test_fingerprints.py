"""Has it changed? By content, never by name or size alone, and what is missing is told."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from conftest import exchange
from hynet.errors import BadInput, DataNotFound
from hynet.features.descriptors import onnx as engines
from hynet.features.descriptors import resizing as door
from hynet.runtime import fingerprints
from hynet.runtime.machine import cache_folder


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def notes() -> list[Path]:
    return list((cache_folder() / "fingerprints").glob("*.json"))


def package(folder: Path, monkeypatch, **sources: str) -> ModuleType:
    """A package of those files, imported."""
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", **sources}.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder.parent)
    return importlib.import_module(folder.name)


@pytest.mark.parametrize("of", [fingerprints.content, fingerprints.files])
def test_content_decides_and_neither_size_nor_time(tmp_path, of):
    path = tmp_path / "a.txt"
    path.write_text("one")
    before = of(path)
    os.utime(path)
    assert of(path) == before
    exchange(path, b"two")
    assert of(path) != before


@pytest.mark.parametrize("of", [fingerprints.content, fingerprints.files])
def test_a_file_that_changes_within_one_tick_of_the_clock_is_noticed(tmp_path, of, monkeypatch):
    now = time.time_ns()
    monkeypatch.setattr(fingerprints, "_stamp", lambda path: [3, now, now, 1])  # as a coarse clock would show both
    path = tmp_path / "a.txt"
    path.write_text("one")
    before = of(path)
    path.write_text("two")
    assert of(path) != before
    assert not notes()


def test_big_data_is_read_again_only_when_its_stamp_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprints, "YOUNG", 0)
    paths = [tmp_path / "a.bmp", tmp_path / "b.bmp"]
    for path in paths:
        path.write_text(path.name)
    time.sleep(0.02)  # older than the clock's tick
    before = fingerprints.files(*paths)
    (note,) = notes()
    known = json.loads(note.read_text())
    known[str(paths[0])][1] = "what was never read"
    note.write_text(json.dumps(known))
    assert fingerprints.files(*paths) != before  # so the note was believed
    os.utime(paths[0])
    assert fingerprints.files(*paths) == before
    note.write_text("{")
    assert fingerprints.files(*paths) == before


def test_data_is_told_apart_where_nothing_can_be_noted(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(fingerprints, "YOUNG", 0)
    assert fingerprints.files(tmp_path / "file") == fingerprints.files(tmp_path / "file")


def test_names_and_order_are_part_of_several_files(tmp_path):
    for name, text in {"a": "1", "b": "2", "c": "1"}.items():
        (tmp_path / name).write_text(text)
    a, b, c = (tmp_path / name for name in "abc")
    assert len({fingerprints.files(*some) for some in [(a, b), (b, a), (c, b), (a,), ()]}) == 5


def test_what_is_missing_is_told_and_never_equal_to_anything(tmp_path, monkeypatch):
    for of in (fingerprints.content, fingerprints.files):
        with pytest.raises(DataNotFound, match=r"no file .*nosuch\.py"):
            of(tmp_path / "nosuch.py")
        with pytest.raises(BadInput, match="cannot be read"):
            of(tmp_path)
    for nothing in ("door.py", None, door.__file__, fingerprints.code):
        with pytest.raises(TypeError, match="takes modules"):
            fingerprints.code(nothing)
    with pytest.raises(TypeError, match="takes modules"):
        fingerprints.code(importlib.import_module("sys"))  # built in: it has no file
    gone = package(tmp_path / "gone", monkeypatch)
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(DataNotFound):
        fingerprints.code(gone)


def test_code_is_told_apart_wherever_its_files_lie(tmp_path, monkeypatch):
    assert fingerprints.code(door) == fingerprints.code(door) != fingerprints.code(engines)
    assert fingerprints.code(door, engines) == fingerprints.code(engines, door)
    whole = package(tmp_path / "parcel", monkeypatch, a="x = 1", b="x = 2")
    a, b = (importlib.import_module(f"parcel.{name}") for name in "ab")
    apart = {fingerprints.code(*some) for some in [(whole,), (a,), (b,), (a, b)]}
    folder = tmp_path / "parcel"
    (folder / "c.py").write_text("x = 1")
    apart.add(fingerprints.code(importlib.import_module("parcel.c")))  # the same text in another module
    (folder / "c.py").unlink()
    text = {name: (folder / name).read_text() for name in ("a.py", "b.py")}
    (folder / "a.py").write_text(text["b.py"])
    (folder / "b.py").write_text(text["a.py"])
    apart |= {fingerprints.code(whole), fingerprints.code(a, b)}  # exchanged
    (folder / "sub").mkdir()
    (folder / "a.py").rename(folder / "sub" / "a.py")
    apart.add(fingerprints.code(whole))  # moved
    (folder / "sub" / "a.py").rename(folder / "z.py")
    apart.add(fingerprints.code(whole))  # renamed
    assert len(apart) == 9


def test_weights_that_lie_beside_code_are_part_of_it_and_documents_are_not(tmp_path, monkeypatch):
    module = package(tmp_path / "found", monkeypatch, net="")
    prints = [fingerprints.code(module)]
    for name in ("net.onnx", "net.md"):
        (tmp_path / "found" / name).write_text("something")
        prints.append(fingerprints.code(module))
    assert prints[0] != prints[1] == prints[2]


def test_a_photo_that_cannot_be_opened_has_no_fingerprint_and_a_mask_is_part_of_it(tmp_path):
    photo, mask = tmp_path / "a.png", tmp_path / "a.png.png"
    assert fingerprints.photo(photo) is None
    photo.write_text("photo")
    assert fingerprints.photo(photo, mask) is None
    mask.write_text("mask")
    assert None is not fingerprints.photo(photo) != fingerprints.photo(photo, mask)


def test_all_of_an_array_counts():
    rows = np.arange(100_000, dtype=np.float32).reshape(-1, 2)
    changed = rows.copy()
    changed[33_333, 1] += 1
    others = [changed, rows.T, rows.reshape(2, -1), rows.view(np.int32), rows[:-1]]
    told = [fingerprints.arrays(each) for each in (rows, *others)]
    told += [fingerprints.arrays(rows, None), fingerprints.arrays(None, rows), fingerprints.arrays()]
    assert len(set(told)) == len(told)
    assert fingerprints.arrays(rows[:, :1]) == fingerprints.arrays(rows[:, :1].copy())  # laid out otherwise, but equal
