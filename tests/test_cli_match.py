"""`hynet match` and `hynet extract`, as a user calls them; whatever the photos, one answer or one sentence."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest
from PIL import Image

from hynet import cli, images
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.features.hloc_file import h5_names, read_h5
from hynet.geometry import two_views
from hynet.images.example import example
from hynet.matching import many_pairs, matches_writer
from hynet.matching.consensus import Consensus

FAST = ["--model", "rootsift", "--max-keypoints", "300"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[Path, Path, np.ndarray]:
    """Two photo files and the homography between them."""
    folder = tmp_path_factory.mktemp("pair")
    first, second, second_from_first = synthetic.photo_pair(7, (400, 300))
    cv2.imwrite(str(folder / "a.png"), first)
    cv2.imwrite(str(folder / "b.png"), second)
    return folder / "a.png", folder / "b.png", second_from_first


@pytest.fixture
def matched(tmp_path, capsys):
    """Runs `hynet match --json` and gives its object."""

    def run(*args: str | Path) -> dict:
        assert main(["match", *map(str, args), *FAST, "--out", str(tmp_path / "out.png"), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def complaint(tmp_path, capsys):
    """Runs a command that must fail, and gives the sentence."""

    def run(*args: str | Path) -> str:
        assert main([*map(str, args)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        return captured.err

    return run


def test_two_photos_of_a_plane_give_back_its_homography(pair, matched, tmp_path):
    found = matched(*pair[:2], "--geometry", "homography")
    assert found["keypoints"] == [300, 300]
    assert found["inliers"] == len(found["points"]) > 50
    points = np.array(found["points"])
    assert np.median(two_views.transfer_error(pair[2], points[:, :2], points[:, 2:])) < 0.7
    corners = np.array([[0.0, 0], [399, 0], [399, 299], [0, 299]])
    assert two_views.transfer_error(np.array(found["model"]), corners, two_views.transfer(pair[2], corners)).max() < 3
    assert {"read", "detect", "describe", "match", "verify"} <= set(found["seconds"])
    assert Image.open(tmp_path / "out.png").width == 2 * 400 + 10


@pytest.mark.parametrize("name", ["fundamental", "essential"])
def test_the_same_photos_give_the_same_answer(name, pair, matched):
    answers = [matched(*pair[:2], "--geometry", name) for _ in range(2)]
    for answer in answers:
        answer.pop("seconds")
    assert answers[0] == answers[1]
    assert answers[0]["inliers"] > 50


def test_without_geometry_every_match_is_kept(pair, matched):
    found = matched(*pair[:2], "--geometry", "none")
    assert found["model"] is None
    assert len(found["points"]) == found["inliers"] == found["matches"]


@pytest.mark.parametrize("show", ["matches", "keypoints", "patches"])
def test_a_person_reads_one_sentence_and_sees_a_picture(show, pair, tmp_path, capsys):
    out = tmp_path / f"{show}.jpg"
    assert main(["match", *map(str, pair[:2]), *FAST, "--show", show, "--out", str(out)]) == 0
    assert "matches," in (said := capsys.readouterr().out)
    assert "inliers" in said
    assert images.read(out).std() > 10


def test_without_photos_the_pair_that_ships_is_matched(tmp_path, capsys):
    assert main(["match", *FAST, "--out", str(tmp_path / "out.png")]) == 0
    said = capsys.readouterr().out
    assert "dullhunk and beggs, CC BY 2.0" in said
    assert int(re.search(r"(\d+) inliers", said)[1]) > 20
    assert (images.read_colour(tmp_path / "out.png").std(2) > 20).mean() > 0.2  # in colour
    assert "CC BY 2.0" in example().paths[0].with_name("ATTRIBUTION.md").read_text()


# --- what can be chosen ---


def test_key_net_and_affine_shapes_find_the_homography_too(pair, matched):
    for choice in (["--shape", "baumberg"], ["--detector", "keynet", "--spread"]):
        found = matched(*pair[:2], "--geometry", "homography", *choice)
        points = np.array(found["points"])
        assert len(points) > 30
        assert np.median(two_views.transfer_error(pair[2], points[:, :2], points[:, 2:])) < 1.5


def test_nothing_is_found_where_a_mask_is_black(pair, matched, tmp_path):
    mask = np.zeros((300, 400), np.uint8)
    mask[:, :200] = 255
    cv2.imwrite(str(tmp_path / "half.png"), mask)
    cv2.imwrite(str(tmp_path / "all.png"), np.full((300, 400), 255, np.uint8))
    found = matched(*pair[:2], "--mask", tmp_path / "half.png", tmp_path / "all.png", "--geometry", "homography")
    points = np.array(found["points"])
    assert len(points) > 20
    assert points[:, 0].max() < 200.5 < points[:, 2].max()


def test_a_score_threshold_leaves_fewer_keypoints(pair, matched):
    assert max(matched(*pair[:2], "--score-threshold", "0.08")["keypoints"]) < 300


# --- whatever the photos ---


def odd_photo(kind: str, folder: Path, photo: np.ndarray) -> Path:
    """The photo as a file that is unusual, but right."""
    picture = Image.fromarray(photo)
    if kind == "16-bit":
        cv2.imwrite(str(folder / "odd.png"), photo.astype(np.uint16) * 257)
    elif kind == "CMYK":
        picture.convert("RGB").convert("CMYK").save(folder / "odd.tif")
        return folder / "odd.tif"
    elif kind == "animated":
        picture.convert("RGB").save(
            folder / "odd.webp", save_all=True, append_images=[Image.new("RGB", picture.size)], lossless=True
        )
        return folder / "odd.webp"
    elif kind == "alpha":
        picture.convert("RGBA").save(folder / "odd.png")
    elif kind == "turned":
        exif = Image.Exif()
        exif[0x0112] = 3
        picture.rotate(180).save(folder / "odd.png", exif=exif)
    return folder / "odd.png"


@pytest.mark.parametrize("kind", ["16-bit", "CMYK", "animated", "alpha", "turned"])
def test_an_odd_photo_matches_like_any_other(kind, pair, matched, tmp_path):
    odd = odd_photo(kind, tmp_path, images.read(pair[0]))
    points = np.array(matched(odd, pair[1], "--geometry", "homography")["points"])
    assert len(points) > 50
    assert np.median(two_views.transfer_error(pair[2], points[:, :2], points[:, 2:])) < 0.7


def test_the_same_photo_twice_agrees_with_itself(pair, matched):
    found = matched(pair[0], pair[0])
    assert found["inliers"] == found["matches"] > 200
    points = np.array(found["points"])
    assert np.abs(points[:, :2] - points[:, 2:]).max() < 0.01


def test_two_photos_that_share_nothing_agree_on_nothing(pair, matched, tmp_path):
    cv2.imwrite(str(tmp_path / "other.png"), synthetic.texture((400, 300), seed=99))
    for name in ("fundamental", "homography", "essential"):
        found = matched(pair[0], tmp_path / "other.png", "--geometry", name)
        assert found["inliers"] == 0
        assert found["model"] is None


@pytest.mark.parametrize("size", [(1, 1), (300, 200), (5000, 2)])
def test_an_empty_or_tiny_photo_has_no_matches(size, pair, matched, tmp_path):
    Image.new("L", size).save(tmp_path / "black.png")
    found = matched(pair[0], tmp_path / "black.png")
    assert (found["matches"], found["inliers"], found["points"], found["model"]) == (0, 0, [], None)


def test_what_cannot_be_matched_gets_one_sentence(pair, complaint, tmp_path):
    good = str(pair[0])
    content = pair[0].read_bytes()
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("not a photo")
    (tmp_path / "cut.png").write_bytes(content[: len(content) // 2])
    Image.new("1", (30_000, 20_000)).save(tmp_path / "huge.png")
    for name, reason in {
        "empty.jpg": "is empty",
        "text.jpg": "not a photo",
        "cut.png": "cut short",
        "huge.png": "30000 x 20000",
        "absent.jpg": "no photo",
        "": "is a folder",
    }.items():
        assert reason in complaint("match", good, tmp_path / name, *FAST)
    assert "give two photos" in complaint("match", good)
    assert "detector" in complaint("match", good, good, "--detector", "dig")
    assert "no model" in complaint("match", good, good, "--model", "nobody")
    assert "at least 1" in complaint("match", good, good, "--model", "rootsift", "--max-keypoints", "0")
    assert "cannot write" in complaint("match", good, good, *FAST, "--out", tmp_path / "text.jpg" / "out.png")
    assert ".png" in complaint("match", good, good, *FAST, "--out", tmp_path / "out.txt")
    Image.new("L", (30, 20)).save(tmp_path / "small.png")
    assert "for each of the two" in complaint("match", good, good, *FAST, "--mask", good)
    masks = ["--mask", tmp_path / "small.png", tmp_path / "small.png"]
    assert "30 x 20 pixels and its photo 400 x 300" in complaint("match", good, good, *FAST, *masks)
    assert "fginn" in complaint("match", good, good, *FAST, "--fginn", "-1")
    assert "threshold" in complaint("match", good, good, *FAST, "--threshold", "0")
    for detector in ("dog", "keynet"):
        for wrong in ("-0.1", "nan", "inf"):
            asked = ["--detector", detector, "--score-threshold", wrong]
            assert f"score threshold must be 0 or more, got {wrong}" in complaint("match", good, good, *FAST, *asked)


# --- extract ---


def test_extract_writes_what_it_can_and_lists_the_rest(pair, tmp_path, capsys):
    photos = tmp_path / "photos"
    photos.mkdir()
    for name, source in {"a.png": pair[0], "b.png": pair[1]}.items():
        (photos / name).write_bytes(source.read_bytes())
    (photos / "empty.jpg").touch()
    command = ["extract", str(photos), "--out", str(tmp_path / "f.h5"), *FAST, "--jobs", "1"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["photos"], report["new"], list(report["unreadable"])) == (2, 2, ["empty.jpg"])
    assert h5_names(tmp_path / "f.h5") == ["a.png", "b.png"]
    assert main(command) == 0
    assert "0 of them new" in (said := capsys.readouterr().out)
    assert "empty.jpg is empty" in said


def test_extract_takes_key_net_and_masks_named_as_colmap_names_them(pair, tmp_path, capsys):
    photos, masks = tmp_path / "photos", tmp_path / "masks"
    for folder in (photos / "day", masks / "day"):
        folder.mkdir(parents=True)
    for name in ("a.png", "b.png", "c.png"):
        (photos / "day" / name).write_bytes(pair[0].read_bytes())
    mask = np.zeros((300, 400), np.uint8)
    mask[150:] = 255
    cv2.imwrite(str(masks / "day" / "a.png.png"), mask)
    cv2.imwrite(str(masks / "day" / "c.png.png"), mask[:10])
    out = tmp_path / "f.h5"
    choice = ["--detector", "keynet", "--model", "rootsift", "--mask", str(masks), "--jobs", "1", "--json"]
    assert main(["extract", str(photos), "--out", str(out), *choice]) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report["unreadable"]) == ["day/c.png"]
    assert "400 x 10 pixels" in report["unreadable"]["day/c.png"]
    hidden, whole = (read_h5(out, f"day/{name}").keypoints.xy[:, 1] for name in ("a.png", "b.png"))
    assert len(hidden) > 150
    assert hidden.min() > 149 > whole.min()
    assert read_h5(out, "day/a.png").ratio == 0.9  # RootSIFT's


def test_extract_says_that_no_mask_belongs_to_a_photo(pair, complaint, tmp_path):
    command = ["extract", pair[0], "--out", tmp_path / "f.h5", *FAST, "--mask", tmp_path]
    assert "no mask in" in complaint(*command)
    assert not (tmp_path / "f.h5").exists()


def test_extract_without_photos_gets_one_sentence(complaint, tmp_path):
    assert "no photos" in complaint("extract", tmp_path, "--out", tmp_path / "f.h5", *FAST)
    assert "no photos" in complaint("extract", "--out", tmp_path / "f.h5")


# --- many pairs ---


@pytest.fixture(scope="module")
def photos(pair, tmp_path_factory) -> Path:
    """Three photos in a folder, one of them below."""
    folder = tmp_path_factory.mktemp("many") / "photos"
    (folder / "day").mkdir(parents=True)
    for name, photo in {"a.png": pair[0], "b.png": pair[1], "day/c.png": pair[0]}.items():
        (folder / name).write_bytes(photo.read_bytes())
    return folder


def test_many_pairs_go_into_one_file_as_hloc_reads_it(photos, pair, tmp_path, capsys):
    (tmp_path / "pairs.txt").write_text("a.png b.png\na.png day/c.png\n")
    out = tmp_path / "matches.h5"
    command = ["match", str(photos), "--pairs", str(tmp_path / "pairs.txt"), "--out", str(out), *FAST, "--json"]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["names"] for row in report["pairs"]] == [["a.png", "b.png"], ["a.png", "day/c.png"]]
    features = tmp_path / "matches-features.h5"
    with h5py.File(out) as file:  # as hloc.utils.io.get_matches does
        group = file["a.png/b.png"]
        matches0, scores0 = group["matches0"][()], group["matching_scores0"][()]
        assert matches0.dtype == np.int16
        assert file["a.png/day-c.png/matches0"].shape == (300,)
        assert group["inliers0"][()].sum() == report["pairs"][0]["inliers"] > 50
    rows = np.flatnonzero(matches0 != -1)
    a, b = read_h5(features, "a.png"), read_h5(features, "b.png")
    np.testing.assert_array_equal(np.stack([rows, matches0[rows]], 1), Consensus()(a, b).indices)
    cosine = (a.descriptors[rows] * b.descriptors[matches0[rows]]).sum(1)
    np.testing.assert_allclose(scores0[rows], (1 + cosine) / 2, atol=1e-3)

    # Again costs nothing; another pair is added; a photo that has changed is matched again.
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["new"] == 0
    assert main(["match", str(photos), "--out", str(out), *FAST, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["new"], len(report["pairs"])) == (1, 3)
    # Other settings are refused by their names alone, or replace what is there.
    assert main([*command, "--ratio", "0.7"]) == 2
    assert "other settings (ratio was None, now 0.7); choose another --out, or --overwrite." in capsys.readouterr().err
    assert main([*command, "--ratio", "0.7", "--overwrite"]) == 0
    fewer = json.loads(capsys.readouterr().out)
    assert fewer["new"] == 2
    assert 0 < fewer["matches"] < report["matches"]
    # Matches name rows of the features, so that other features of the same photos are matched again.
    other = [*command, "--ratio", "0.7", "--max-keypoints", "50", "--overwrite"]
    assert main(other) == 0
    assert json.loads(capsys.readouterr().out)["new"] == 2
    with h5py.File(out) as file:
        assert file["a.png/b.png/matches0"].shape == (50,)


def interrupted_at(monkeypatch, pair: int) -> list[tuple]:
    """Ctrl-C at that pair; the calls of all that were verified."""
    real, calls = many_pairs.verify, []

    def interrupted(*args, **options):
        calls.append(args)
        if len(calls) == pair:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(many_pairs, "verify", interrupted)
    return calls


def test_pairs_of_a_features_file_name_its_rows_and_an_interrupted_run_goes_on(photos, tmp_path, capsys, monkeypatch):
    features, out = tmp_path / "f.h5", tmp_path / "m.h5"
    assert main(["extract", str(photos), "--out", str(features), *FAST, "--jobs", "1"]) == 0
    (tmp_path / "pairs.txt").write_text("b.png a.png\na.png day/c.png\na.png absent.png\n")
    command = ["match", "--pairs", str(tmp_path / "pairs.txt"), "--extractor", str(features), "--out", str(out)]
    calls = interrupted_at(monkeypatch, 2)
    capsys.readouterr()
    assert main(command) == 130
    assert "are kept" in capsys.readouterr().err
    assert not out.exists()
    before = features.read_bytes()
    assert main([*command, "--overwrite", "--out", str(features)]) == 2  # they would be lost
    assert "holds the features that are to be matched" in capsys.readouterr().err
    assert features.read_bytes() == before
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["new"] == 1
    assert len(report["pairs"]) == 2
    assert list(report["unreadable"]) == ["absent.png"]
    assert len(calls) == 3


def test_what_is_wrong_with_many_pairs_is_one_sentence(photos, complaint, tmp_path):
    (tmp_path / "pairs.txt").write_text("a.png strange.png\n")
    pairs = ["--pairs", tmp_path / "pairs.txt", *FAST]
    assert "'strange.png'" in complaint("match", photos, *pairs, "--out", tmp_path / "m.h5")
    assert "end in .h5" in complaint("match", photos, *pairs, "--out", tmp_path / "m.png")
    assert "--focal is for two photos" in complaint("match", photos, *pairs, "--focal", "500")
    (tmp_path / "alike.txt").write_text("day/c.png a.png\nday-c.png a.png\n")
    alike = complaint("match", "--pairs", tmp_path / "alike.txt", *FAST, "--out", tmp_path / "n.h5")
    assert "day/c.png and day-c.png have one name in hloc's matches" in alike
    (tmp_path / "empty.txt").touch()
    assert "no pair" in complaint("match", photos, "--pairs", tmp_path / "empty.txt", *FAST)
    (tmp_path / "m.h5").write_bytes((photos / "a.png").read_bytes())
    (tmp_path / "pairs.txt").write_text("a.png b.png\n")
    assert "not a features file" in complaint("match", photos, *pairs, "--out", tmp_path / "m.h5")


def test_features_of_other_settings_are_replaced_only_when_asked_to(pair, tmp_path, capsys):
    command = ["extract", str(pair[0]), "--out", str(tmp_path / "f.h5"), "--model", "rootsift", "--max-keypoints"]
    assert main([*command, "100"]) == 0
    assert main([*command, "50"]) == 2
    assert "other settings (max-keypoints was 100, now 50); choose another name, or --overwrite." in (
        capsys.readouterr().err
    )
    assert len(read_h5(tmp_path / "f.h5", "a.png")) == 100
    assert main([*command, "50", "--overwrite"]) == 0
    assert len(read_h5(tmp_path / "f.h5", "a.png")) == 50


def test_a_photo_that_is_not_there_is_told_by_the_exit_code_and_costs_the_other_pairs_nothing(photos, tmp_path, capsys):
    given = [str(photos / name) for name in ("a.png", "b.png", "no.png")]
    assert main(["match", *given, *FAST, "--out", str(tmp_path / "m.h5")]) == 2
    told = capsys.readouterr()
    assert "no.png is not there; correct the path" in told.err
    assert "1 pairs, 1 of them new" in told.out


def test_parts_that_a_power_cut_left_are_matched_again(photos, tmp_path, capsys, monkeypatch):
    out = tmp_path / "m.h5"
    command = ["match", str(photos), "--out", str(out), *FAST, "--json"]
    interrupted_at(monkeypatch, 3)
    monkeypatch.setattr(matches_writer, "TOGETHER", 1)
    assert main(command) == 130
    first, _ = sorted((tmp_path / "m.h5.parts").glob("*.npz"))
    first.write_bytes(first.read_bytes()[:100])
    capsys.readouterr()
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["new"], len(report["pairs"])) == (2, 3)
    assert all(pair["matches"] for pair in report["pairs"])


def test_features_are_found_by_where_a_photo_lies_and_not_by_where_a_link_leads(photos, tmp_path, capsys):
    linked = tmp_path / "linked"
    linked.mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / f"object-{name[0]}").write_bytes((photos / name).read_bytes())
        (linked / name).symlink_to(tmp_path / f"object-{name[0]}")
    assert main(["extract", str(linked), "--out", str(tmp_path / "f.h5"), *FAST, "--jobs", "1"]) == 0
    pair = [str(linked / name) for name in ("a.png", "b.png")]
    assert main(["match", *pair, "--extractor", str(tmp_path / "f.h5"), "--out", str(tmp_path / "m.png")]) == 0


def test_a_name_that_is_not_text_is_printed_with_backslashes(monkeypatch):
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", written)
    cli._say("written: m\udcff.png")
    written.flush()
    assert written.buffer.getvalue() == b"written: m\\udcff.png\n"
