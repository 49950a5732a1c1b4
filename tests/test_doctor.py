"""Synthetic COLMAP databases, broken on purpose: the reason is known by construction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hynet.cli import main
from hynet.datasets import synthetic
from hynet.pages.doctor import graph
from hynet.pages.doctor.comparison import compare
from hynet.pages.doctor.examination import examine
from hynet.pages.doctor.funnel import PairCounts
from hynet.sfm.colmap.tables import GEOMETRIES, LARGEST_ID

pycolmap = pytest.importorskip("pycolmap")

POINTS, STRAY = 60, 10  # 3-D points that every photo sees, and keypoints of nothing


def made(folder: Path, photos: int, out_of_model: tuple[int, ...] = (), **options: object) -> Path:
    """A database, and a model without some photos (numbered from 1), both by pycolmap's own synthesis."""
    asked = pycolmap.SyntheticDatasetOptions()
    asked.num_rigs, asked.num_frames_per_rig = 1, photos
    asked.num_points3D, asked.num_points2D_without_point3D = POINTS, STRAY
    for name, value in options.items():
        setattr(asked, name, value)
    folder.mkdir(parents=True, exist_ok=True)
    pycolmap.set_random_seed(1)
    with pycolmap.Database.open(folder / "database.db") as database:
        model = pycolmap.synthesize_dataset(asked, database)
    for number in out_of_model:
        model.deregister_frame(model.images[number].frame_id)
    model.write(folder)
    change(folder, lambda tables: tables.execute("UPDATE images SET name = 'p' || image_id || '.jpg'"))
    renamed = pycolmap.Reconstruction(folder)
    for number, image in renamed.images.items():
        image.name = f"p{number}.jpg"
    renamed.write(folder)
    return folder


def change(folder: Path, edit: Callable[[sqlite3.Connection], object]) -> None:
    with sqlite3.connect(folder / "database.db") as tables:
        edit(tables)
    tables.close()


def pairs_of(tables: sqlite3.Connection, photo: int) -> list[int]:
    numbers = [number for (number,) in tables.execute("SELECT pair_id FROM two_view_geometries")]
    return [number for number in numbers if photo in divmod(number, LARGEST_ID)]


def keep(tables: sqlite3.Connection, table: str, pair: int, matches: int) -> None:
    """At most the first so many matches of a pair."""
    (data,) = tables.execute(f"SELECT data FROM {table} WHERE pair_id = {pair}").fetchone()
    matches = min(matches, len(data) // 8)
    tables.execute(f"UPDATE {table} SET rows = {matches}, data = ? WHERE pair_id = {pair}", [data[: 8 * matches]])


def test_a_whole_model_has_a_whole_funnel(tmp_path):
    found = examine(made(tmp_path, 5))
    assert found.findings == []
    assert len(found.funnel.photos) == 5
    assert found.funnel.points == POINTS
    for photo in found.funnel.photos:
        counts = (photo.detected, photo.matched, photo.verified, photo.triangulated)
        assert counts == (POINTS + STRAY, POINTS, POINTS, POINTS)
    assert [(pair.matched, pair.verified, pair.triangulated) for pair in found.funnel.pairs] == [(POINTS,) * 3] * 10


def test_every_reason_is_found_where_it_was_made(tmp_path):
    folder = made(tmp_path, 11, out_of_model=(4, 5, 6, 7, 8, 9, 10, 11))

    def damage(tables: sqlite3.Connection) -> None:
        tables.execute("UPDATE keypoints SET rows = 0, data = NULL WHERE image_id = 4")
        for pair in pairs_of(tables, 4):
            keep(tables, "matches", pair, 0)
            keep(tables, "two_view_geometries", pair, 0)
        for pair in pairs_of(tables, 5):
            tables.execute(f"DELETE FROM matches WHERE pair_id = {pair}")
            tables.execute(f"DELETE FROM two_view_geometries WHERE pair_id = {pair}")
        for pair in pairs_of(tables, 6):
            keep(tables, "matches", pair, 0)
            keep(tables, "two_view_geometries", pair, 0)
        for pair in pairs_of(tables, 7):
            keep(tables, "two_view_geometries", pair, 0)
        for pair in {*pairs_of(tables, 8), *pairs_of(tables, 9)} - {8 * LARGEST_ID + 9}:
            keep(tables, "two_view_geometries", pair, 0)  # 8 and 9 have only each other
        for pair in pairs_of(tables, 10):
            keep(tables, "two_view_geometries", pair, 12 if pair == 1 * LARGEST_ID + 10 else 0)

    change(folder, damage)
    (folder / "photos.json").write_text(
        json.dumps(
            {
                "photos": "/my/photos",
                "features": "features.h5",
                "settings": {"model": "sift", "max_keypoints": 900, "ratio": None},
                "unreadable": {"z.jpg": "z.jpg is no photo."},
            }
        )
    )
    found = {finding.photo: finding for finding in examine(folder).findings}
    assert {name: finding.reason for name, finding in found.items()} == {
        "z.jpg": "unreadable",
        "p4.jpg": "no keypoints",
        "p5.jpg": "not compared",
        "p6.jpg": "no matches",
        "p7.jpg": "not verified",
        "p8.jpg": "outside the model",
        "p9.jpg": "outside the model",
        "p10.jpg": "too few points",
        "p11.jpg": "no pose",
    }
    assert "group of 2" in found["p8.jpg"].sentence
    assert "only 12 with" in found["p10.jpg"].sentence
    assert f"sees {POINTS} 3-D points" in found["p11.jpg"].sentence
    commands = " ".join(line for finding in found.values() for line in finding.advice)
    assert "hynet match /my/photos/p7.jpg" in commands
    # Without the options that it was made with, the folder would be refused.
    assert f"hynet reconstruct /my/photos --out {folder} --model sift --max-keypoints 900 --mapper global" in commands
    assert "{" not in commands


def test_a_chain_of_missing_photos_is_told_from_a_separate_group(tmp_path):
    folder = made(tmp_path, 5, out_of_model=(4, 5))

    def damage(tables: sqlite3.Connection) -> None:
        for pair in pairs_of(tables, 5):
            if pair != 4 * LARGEST_ID + 5:
                keep(tables, "two_view_geometries", pair, 0)

    change(folder, damage)
    found = {finding.photo: finding for finding in examine(folder).findings}
    assert found["p5.jpg"].reason == "outside the model"
    assert "missing too" in found["p5.jpg"].sentence
    assert found["p4.jpg"].reason == "no pose"


def test_photos_of_another_place_are_told_once_and_what_to_do_with_them(tmp_path):
    elsewhere = range(4, 10)
    folder = made(tmp_path, 9, out_of_model=tuple(elsewhere))

    def part(tables: sqlite3.Connection) -> None:
        for pair in (number for here in (1, 2, 3) for number in pairs_of(tables, here)):
            if any(photo in elsewhere for photo in divmod(pair, LARGEST_ID)):
                keep(tables, "two_view_geometries", pair, 0)

    change(folder, part)
    text = examine(folder).text()
    _, told = text.split("p4.jpg, p5.jpg, p6.jpg and 3 more are missing, outside the model: ")
    sentence, first, *_ = told.splitlines()
    around = "Nothing links the group of 6 photos around p4.jpg to the model"
    assert sentence == f"{around}: they seem to be of another place."
    assert "reconstruct them by themselves" in first
    assert "missing, " not in told


def test_matches_that_nobody_verified_are_told_from_matches_that_failed(tmp_path):
    folder = made(tmp_path, 3, out_of_model=(3,))
    change(folder, lambda tables: tables.execute("UPDATE two_view_geometries SET rows = 0, data = NULL, config = 1"))
    assert [finding.reason for finding in examine(folder).findings] == ["not verified"]
    change(folder, lambda tables: tables.execute("DELETE FROM two_view_geometries"))
    assert [finding.reason for finding in examine(folder).findings] == ["never verified"]


def test_hundreds_of_missing_photos_are_summed_up(tmp_path):
    folder = made(tmp_path, 60, out_of_model=tuple(range(1, 59)), num_points3D=5)
    found = examine(folder)
    assert len(found.findings) == 58
    assert "All 58 missing photos: 58 by too few points" in found.text()
    assert " more are missing, too few points" in found.text()
    each_its_own = [replace(finding, sentence=finding.photo) for finding in found.findings]
    assert replace(found, findings=each_its_own).text().count("is missing") == 40


def test_a_database_without_a_model_has_no_start(tmp_path):
    folder = made(tmp_path, 3)
    for file in folder.glob("*.bin"):
        file.unlink()
    found = examine(folder)
    assert {finding.reason for finding in found.findings} == {"no start"}
    assert "no model yet" in found.notes[0]


def test_a_workspace_as_colmap_lays_it_out_is_understood(tmp_path):
    made(tmp_path / "sparse" / "0", 4, out_of_model=(2, 3, 4))
    made(tmp_path / "sparse" / "1", 4)
    (tmp_path / "sparse" / "0" / "database.db").unlink()
    (tmp_path / "sparse" / "1" / "database.db").rename(tmp_path / "database.db")
    found = examine(tmp_path)
    assert found.funnel.registered == 4
    assert f"The model is {tmp_path / 'sparse' / '1'}, the largest of 2" in found.notes[0]
    part = examine(tmp_path / "sparse" / "0")
    assert part.database == tmp_path / "database.db"
    assert part.funnel.registered == 1


def test_geometries_are_called_what_colmap_calls_them():
    names = pycolmap.TwoViewGeometryConfiguration.__members__
    told = {int(value): name.lower().replace("_", " ") for name, value in names.items()}
    assert told == {number: name for number, name in enumerate(GEOMETRIES) if number in told}


def test_a_database_without_photos_is_nothing_wrong(tmp_path, capsys):
    pycolmap.Database.open(tmp_path / "database.db").close()
    assert main(["doctor", str(tmp_path), "--out", str(tmp_path / "a.html")]) == 0
    assert "0 photos" in capsys.readouterr().out
    assert main(["doctor", str(tmp_path), "--compare", str(tmp_path), "--out", str(tmp_path / "b.html")]) == 0


def test_flat_scenes_are_told(tmp_path):
    folder = made(tmp_path, 4, out_of_model=(4,))
    assert examine(folder).notes == []
    change(folder, lambda tables: tables.execute("UPDATE two_view_geometries SET config = 6"))
    assert "6 of 6 verified pairs are planar or panoramic" in examine(folder).notes[0]


def test_a_model_alone_shows_who_sees_the_same_points(tmp_path):
    folder = made(tmp_path, 4, track_length=2)
    (folder / "database.db").unlink()
    found = examine(folder)
    model = pycolmap.Reconstruction(folder)
    sees = {
        image.name: {point.point3D_id for point in image.points2D if point.has_point3D()}
        for image in model.images.values()
    }
    names = [photo.name for photo in found.funnel.photos]
    shared = {(names[pair.first], names[pair.second]): pair.triangulated for pair in found.funnel.pairs}
    assert shared == {
        (a, b): len(sees[a] & sees[b]) for k, a in enumerate(names) for b in names[k + 1 :] if sees[a] & sees[b]
    }
    assert "no database" in found.notes[0]
    assert all(photo.matched is None for photo in found.funnel.photos)


def test_a_database_of_other_photos_is_noticed(tmp_path):
    folder = made(tmp_path, 3)
    change(folder, lambda tables: tables.execute("UPDATE images SET name = 'other-' || name"))
    found = examine(folder)
    assert "not the one that the model was made from" in found.notes[0]
    assert sum(photo.registered for photo in found.funnel.photos) == 3


def test_looking_changes_no_byte_of_the_database(tmp_path):
    folder = made(tmp_path, 3)
    before = (folder / "database.db").read_bytes()
    folder.chmod(0o555)
    try:
        examine(folder)
    finally:
        folder.chmod(0o755)
    assert (folder / "database.db").read_bytes() == before


def test_two_descriptors_on_the_same_keypoints_are_compared(tmp_path):
    full, poor = made(tmp_path / "full", 4), made(tmp_path / "poor", 4, out_of_model=(4,))
    assert "mapping alone" in compare(examine(full), examine(poor)).verdict

    def halve(tables: sqlite3.Connection) -> None:
        for pair in pairs_of(tables, 4):
            keep(tables, "two_view_geometries", pair, POINTS // 2)

    change(poor, halve)
    beside = compare(examine(full), examine(poor))
    assert (beside.same_keypoints, beside.other_keypoints) == (4, 0)
    assert "describing and matching alone" in beside.verdict
    totals = {name: (counts, ratio) for name, counts, ratio in beside.totals()}
    assert totals["photos in the model"] == ((4, 3), 0.75)
    assert totals["matches verified"] == ((6 * POINTS, 3 * POINTS + 3 * POINTS // 2), 0.75)
    assert "only in the first: p4.jpg" in beside.text()

    change(poor, lambda tables: tables.execute("UPDATE keypoints SET data = zeroblob(length(data)) WHERE image_id = 2"))
    beside = compare(examine(full), examine(poor))
    assert (beside.same_keypoints, beside.other_keypoints) == (3, 1)
    assert "detecting as well" in beside.verdict


def test_the_command_line_tells_it_in_text_json_and_a_page(tmp_path, capsys):
    folder = made(tmp_path / "model", 4, out_of_model=(2,))
    change(folder, lambda tables: tables.execute("UPDATE images SET name = '<i>&2.jpg' WHERE image_id = 2"))
    page = tmp_path / "doctor.html"
    assert main(["doctor", str(folder), "--out", str(page)]) == 0
    assert "<i>&2.jpg is missing, no pose" in capsys.readouterr().out
    text = page.read_text()
    assert "&lt;i&gt;&amp;2.jpg" in text
    assert "<i>&2.jpg" not in text
    assert text.count('class="missing"') == 2  # its ring and its name
    assert "http" not in text  # nothing from the network

    assert main(["doctor", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["registered"] == 3
    assert [missing["photo"] for missing in told["missing"]] == ["<i>&2.jpg"]
    assert told["photos"]["p1.jpg"]["triangulated"] == POINTS
    assert len(told["pairs"]) == 6

    assert main(["doctor", str(folder), "--compare", str(made(tmp_path / "other", 4)), "--out", str(page)]) == 0
    assert "second / first" in capsys.readouterr().out
    assert "Missing in the first" in page.read_text()


@pytest.mark.parametrize("broken", ["missing", "empty", "text", "foreign", "cut", "stray"])
def test_what_cannot_be_examined_is_told_in_one_sentence(broken, tmp_path, capsys):
    folder = made(tmp_path, 3)
    database = folder / "database.db"
    if broken == "missing":
        folder = tmp_path / "nowhere"
    elif broken == "empty":
        folder = tmp_path / "a" / "b" / "c"
        folder.mkdir(parents=True)
    elif broken == "text":
        database.write_text("no database " * 100)
    elif broken == "foreign":
        database.unlink()
        change(folder, lambda tables: tables.execute("CREATE TABLE songs (name TEXT)"))
    elif broken == "cut":
        change(folder, lambda tables: tables.execute("UPDATE matches SET data = x'00'"))
    elif broken == "stray":
        change(folder, lambda tables: tables.execute("UPDATE keypoints SET rows = 5"))
    assert main(["doctor", str(folder)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@settings(max_examples=20)
@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_photos_in_the_graph_stand_apart_and_inside(photos, random):
    pairs = tuple(
        PairCounts(a, b, 9, random.randrange(1000), 0)
        for a in range(photos)
        for b in range(a + 1, photos)
        if random.random() < 0.3
    )
    at = graph.layout(photos, pairs)
    assert at.shape == (photos, 2)
    assert (at >= 0).all()
    assert (at <= graph.SIZE).all()
    apart = np.linalg.norm(at[:, None] - at[None], axis=2) + np.eye(photos) * 99
    assert apart.min() > 1


def test_linked_photos_stand_nearer_than_strangers():
    pairs = tuple(
        PairCounts(a, b, 100, 100, 0) for group in (range(5), range(5, 10)) for a in group for b in group if a < b
    )
    at = graph.layout(10, pairs)
    apart = np.linalg.norm(at[:, None] - at[None], axis=2)
    assert apart[:5, 5:].min() > apart[:5, :5].max() / 2
    assert apart[:5, 5:].mean() > 2 * apart[:5, :5].mean()


def test_a_reconstruction_with_a_black_and_a_broken_photo_is_explained(tmp_path, capsys):
    photos, model = tmp_path / "photos", tmp_path / "model"
    photos.mkdir()
    for number, photo in enumerate(synthetic.scene(seed=1, photos=3, size=(400, 300)).photos):
        cv2.imwrite(str(photos / f"{number}.png"), photo)
    cv2.imwrite(str(photos / "black.png"), np.zeros((360, 480), np.uint8))
    (photos / "broken.jpg").write_bytes(b"\xff\xd8 not a photo")
    assert main(["reconstruct", str(photos), "--out", str(model), "--max-keypoints", "600", "--model", "rootsift"]) == 0
    capsys.readouterr()
    assert main(["doctor", str(model), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    reasons = {missing["photo"]: missing["reason"] for missing in told["missing"]}
    assert reasons == {"black.png": "no keypoints", "broken.jpg": "unreadable"}
    assert told["registered"] == 3
    assert f"{told['model']}: 5 photos, 3 in the model, 2 missing" in examine(model).text()
    for counts in told["photos"].values():
        assert counts["detected"] >= counts["matched"] >= counts["verified"] >= counts["triangulated"]
