"""Our features in a database that COLMAP itself made, beside its SIFT."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from hynet.cli import main
from hynet.datasets import synthetic
from hynet.matching.nearest import Nearest
from hynet.sfm import colmap
from hynet.sfm.colmap.programs import extract_sift, match_sift

pytest.importorskip("pycolmap")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> Path:
    """photos/ and db with COLMAP's SIFT, its matches and their geometries."""
    home = tmp_path_factory.mktemp("theirs")
    (home / "photos").mkdir()
    for k, photo in enumerate(synthetic.scene(seed=1, photos=3, size=(400, 300)).photos):
        cv2.imwrite(str(home / "photos" / f"{k}.png"), photo)
    extract_sift(home / "db", home / "photos", 400)
    match_sift(home / "db")
    return home


@pytest.fixture
def place(theirs, tmp_path) -> Path:
    shutil.copytree(theirs, tmp_path / "place")
    return tmp_path / "place"


def asked(place: Path) -> list[str]:
    words = (
        f"colmap-features {place}/photos --database {place}/db --model rootsift --max-keypoints 500 --ratio 0.85 --json"
    )
    return words.split()


def rows(database: Path, table: str) -> list[tuple]:
    with sqlite3.connect(database) as file:
        return file.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def test_ours_come_after_theirs_and_colmap_maps_both(theirs, place, capsys):
    before, funnel = theirs / "db", colmap.read_funnel(theirs / "db")
    assert main(asked(place)) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["photos"], told["pairs"], told["left"]) == (3, 3, {})
    after = colmap.read_funnel(place / "db")
    assert sum(after.keypoints.values()) == sum(funnel.keypoints.values()) + told["keypoints"]
    assert sum(after.matches.values()) == sum(funnel.matches.values()) + told["matches"]
    assert sum(after.inliers.values()) == told["inliers"]
    assert all(after.inliers[pair] > 1.5 * funnel.inliers[pair] for pair in funnel.matches)
    assert rows(place / "db", "descriptors") == rows(before, "descriptors")  # SIFT's rows are still those of SIFT
    with colmap.opened(before) as old, colmap.opened(place / "db") as new:
        count = funnel.keypoints["0.png"]
        assert np.array_equal(new.stored_keypoints("0.png")[:count], old.stored_keypoints("0.png"))
        first, ours = old.matches("0.png", "1.png"), new.matches("0.png", "1.png")
    assert np.array_equal(ours[: len(first)], first)
    assert ours[len(first) :, 0].min() >= count
    mapped = colmap.as_arrays(colmap.map_photos(place / "db"))
    assert len(mapped.photos) == 3
    seen = mapped.photos[0].points >= 0
    assert seen[:count].any()  # of SIFT's keypoints
    assert seen[count:].any()  # and of ours

    assert main(asked(place)) == 2  # a second time
    assert "already" in capsys.readouterr().err
    assert colmap.read_funnel(place / "db") == after


def test_a_run_that_is_stopped_while_it_matches_leaves_the_database_as_it_was(place, monkeypatch):
    before = {table: rows(place / "db", table) for table in ("keypoints", "matches", "two_view_geometries")}
    pairs = []

    def stopped(self, a, b):
        pairs.append(1)
        if len(pairs) == 2:
            raise KeyboardInterrupt
        return found(self, a, b)

    found = Nearest.__call__
    monkeypatch.setattr(Nearest, "__call__", stopped)
    assert main(asked(place)) == 130
    assert {table: rows(place / "db", table) for table in before} == before


def test_photos_that_do_not_fit_are_left_and_told(place, capsys):
    exif = Image.Exif()
    exif[0x0112] = 3
    with Image.open(place / "photos" / "2.png") as photo:
        photo.save(place / "photos" / "2.png", exif=exif)
    assert main(asked(place)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["photos"] == 2
    assert "turn it upright on disk" in told["left"]["2.png"]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("DELETE FROM cameras", "no camera of 0.png"),
        ("DELETE FROM images WHERE image_id = 2", "lacks photos"),
        ("UPDATE keypoints SET rows = rows + 5", "is broken"),
        ("UPDATE matches SET data = CAST(x'ffffff7f' || substr(data, 5) AS BLOB)", "keypoints that it does not hold"),
    ],
)
def test_a_database_that_colmap_would_stumble_over_is_told(place, capsys, damage, told):
    with sqlite3.connect(place / "db") as tables:
        tables.execute(damage)
    assert main(asked(place)) == 2
    assert told in capsys.readouterr().err
    assert not (place / "db.features.h5").exists()


def test_what_is_no_database_or_another_folder_is_told_and_nothing_is_written(place, tmp_path, capsys):
    tables = ("keypoints", "matches", "two_view_geometries")
    before = [rows(place / "db", table) for table in tables]
    assert main(f"colmap-features {place}/photos --database {tmp_path}/none".split()) == 2
    assert "no database" in capsys.readouterr().err
    (tmp_path / "text").write_text("no")
    assert main(f"colmap-features {place}/photos --database {tmp_path}/text".split()) == 2
    assert "not a COLMAP database" in capsys.readouterr().err
    (tmp_path / "other").mkdir()
    cv2.imwrite(str(tmp_path / "other" / "x.png"), np.zeros((30, 40), np.uint8))
    assert main(f"colmap-features {tmp_path}/other --database {place}/db".split()) == 2
    assert "share 0 photos" in capsys.readouterr().err
    assert main([*asked(place), "--ratio", "7"]) == 2
    assert "got 7" in capsys.readouterr().err
    cv2.imwrite(str(place / "photos" / "1.png"), synthetic.texture((200, 160), 3))
    assert main(asked(place)) == 2
    assert "another size in the database" in capsys.readouterr().err
    assert [rows(place / "db", table) for table in tables] == before
