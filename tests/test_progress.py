"""Long work shows how far it is, wherever its stderr goes; short work says nothing."""

from __future__ import annotations

import json
import time

import pytest

from hynet.cli import progress as told
from hynet.cli.progress import bar
from hynet.evaluation.tuning import pairs
from hynet.runtime.long_runs import duration


@pytest.fixture(autouse=True)
def for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the command before was asked for."""
    monkeypatch.setattr(told, "_as_json", False)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "NOW_AND_THEN", 0.05)


def wait_for(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What was said until that was."""
    said, deadline = "", time.monotonic() + 10
    while line not in said:
        assert time.monotonic() < deadline, said
        time.sleep(0.01)
        said += capsys.readouterr().err
    return said


@pytest.mark.usefixtures("soon")
def test_without_a_terminal_there_is_a_line_now_and_then_even_while_nothing_is_told(capsys):
    with bar() as progress:
        progress(0, 4950, "matching")
        progress(120, 4950, "matching")
        wait_for(" s: matching, 120 of 4,950, ", capsys)
        progress(0, 1, "mapping")
        for _ in range(2):
            wait_for(" s: mapping\n", capsys)


@pytest.mark.usefixtures("soon")
def test_what_is_done_is_told_once(capsys):
    with bar() as progress:
        progress(5, 5, "decoding")
        assert wait_for(" s: decoding, 5 of 5\n", capsys).count("\n") == 1
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_short_work_says_nothing(capsys):
    with bar() as progress:
        for done in range(1000):
            progress(done, 1000, "matching")
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("soon")
def test_where_json_was_asked_for_every_line_is_json(capsys, monkeypatch):
    monkeypatch.setattr(told, "_as_json", True)
    monkeypatch.setattr(told, "EVERY", 0.0)
    with bar() as progress:
        progress(1, 4, "matching")
        progress(2, 4, "matching")
        time.sleep(0.2)
    out, err = capsys.readouterr()
    assert out == ""
    assert [json.loads(line)["done"] for line in err.splitlines()] == [1, 2]


def test_durations_are_as_people_say_them():
    assert [duration(seconds) for seconds in (5, 89, 125, 7200)] == ["5 s", "89 s", "2 min", "2.0 h"]


def test_photos_whose_geometry_is_sought_show_how_far_their_reconstruction_is(tmp_path, monkeypatch):
    """`hynet tune` spends most of its time on this with photos that it has not seen."""
    (tmp_path / "a.png").touch()
    seen = []

    def reconstruct(photos, work, *, max_keypoints, progress):
        progress(0, 1, "mapping")
        raise pairs.colmap.NotReconstructed("no.")

    monkeypatch.setattr(pairs.sfm, "reconstruct_sift", reconstruct)
    with pytest.raises(pairs.DataNotFound):
        pairs.find_pairs(tmp_path, 6, progress=lambda done, total, what: seen.append(what))
    assert seen == [f"reconstructing {tmp_path.name}", "mapping"]
