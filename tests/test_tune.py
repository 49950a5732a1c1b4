"""`hynet tune`: candidates compared by time and correct matches; a model calibrated, saved, and used from then on."""

from __future__ import annotations

import json
import os
from math import inf
from pathlib import Path

import cv2
import numpy as np
import pytest

import reference
from conftest import exchange
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadData, DataNotFound
from hynet.evaluation.tuning import pairs as truth
from hynet.evaluation.tuning import tune
from hynet.evaluation.tuning.tune import RIGHT, Candidate, Measured, candidates, front, known_pairs, within
from hynet.features import calibrated as calibration
from hynet.features.calibrated import Calibration
from hynet.features.extractors.patchwise import Extractor
from hynet.geometry import two_views
from hynet.types import Features, Keypoints


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """Nobody's own configuration is read or written."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def sequence(tmp_path_factory) -> Path:
    """Two sequences of one pair each."""
    folder = tmp_path_factory.mktemp("sequences")
    for seed in (1, 2):
        first, second, second_from_first = synthetic.photo_pair(seed, (320, 240))
        place = folder / f"s{seed}"
        place.mkdir()
        cv2.imwrite(str(place / "1.png"), first)
        cv2.imwrite(str(place / "2.png"), second)
        np.savetxt(place / "H_1_2", second_from_first)
    return folder


# --- where it is kept ---


def test_what_is_saved_is_what_is_found_and_others_stay(tmp_path):
    weights = tmp_path / "mine.pth"
    weights.touch()
    (place,) = calibration.places(weights)
    assert place == tmp_path / "mine.pth.calibration.json"
    calibration.save(Calibration(20.0, 0.8, {"fundamental": 0.5}), place, "dog")
    calibration.save(Calibration(30.0, 0.9, {"fundamental": 0.7}), place, "keynet")
    calibration.save(Calibration(22.0, 0.85, {"homography": 2.0}), place, "dog")
    expected = Calibration(22.0, 0.85, {"fundamental": 0.5, "homography": 2.0})
    assert calibration.saved(weights, "dog") == expected
    assert calibration.saved(weights, "keynet").support == 30
    assert calibration.saved(tmp_path / "other.pth", "dog") == Calibration()


def test_a_name_is_calibrated_in_the_users_own_folder_before_what_ships(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "FOLDER", tmp_path / "models")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "default.onnx").touch()
    own, shipped = calibration.places("default")
    calibration.save(Calibration(ratio=0.7), shipped, "dog")
    assert calibration.saved("default", "dog").ratio == 0.7
    calibration.save(Calibration(ratio=0.6), own, "dog")
    assert own == tmp_path / "config" / "hynet" / "default.calibration.json"
    assert calibration.saved("default", "dog").ratio == 0.6
    assert calibration.saved("default", "dog", personal=False).ratio == 0.7, "benchmarks are for everyone"


@pytest.mark.parametrize("content", ["not json", "[1]", '{"dog": 3}', '{"dog": {"ratio": "much"}}'])
def test_a_broken_file_is_told(content):
    place = calibration.places("rootsift")[0]
    place.parent.mkdir(parents=True)
    place.write_text(content)
    with pytest.raises(BadData, match=r"rootsift\.calibration\.json"):
        Extractor(model="rootsift")


def test_an_extractor_uses_what_was_saved_unless_told_otherwise():
    before = Extractor(model="rootsift")
    calibration.save(Calibration(19.0, 0.77, {"fundamental": 0.6}), calibration.places("rootsift")[0], "dog")
    after = Extractor(model="rootsift")
    assert (before.support, before.ratio, dict(before.thresholds)) == (12.0, 0.9, {})
    assert (after.support, after.ratio, dict(after.thresholds)) == (19.0, 0.77, {"fundamental": 0.6})
    assert after(np.zeros((50, 50), np.uint8)).ratio == 0.77
    assert Extractor(model="rootsift", support=15.0).support == 15
    assert Extractor(detector="keynet", model="rootsift").support == 12


# --- the truth ---


def test_a_sequence_gives_its_homographies(sequence):
    pairs = truth.find_pairs(sequence, 10)
    assert [pair.second.parent.name for pair in pairs] == ["s1", "s2"]
    known = pairs[0].truth
    H = np.loadtxt(sequence / "s1" / "H_1_2")
    here = np.array([[50.0, 60], [200, 100]])
    assert known.distances(here, two_views.transfer(H, here) + np.array([3, 4])) == pytest.approx(5)
    photo = Features(Keypoints(np.zeros((0, 2, 3)), np.zeros(0)), np.zeros((0, 128)), (320, 240))
    moved = np.array([[1.0, 0, 3], [0, 1, 4], [0, 0, 1]]) @ H
    assert known.error(H, photo) == pytest.approx(0, abs=1e-9)
    assert known.error(moved, photo) == pytest.approx(5)
    assert known.error(None, photo) == inf


def test_a_colmap_model_gives_the_points_that_two_photos_share(tmp_path):
    pycolmap = pytest.importorskip("pycolmap")
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_frames_per_rig, options.num_points3D = 1, 3, 200
    model = pycolmap.synthesize_dataset(options)
    (tmp_path / "sparse" / "0").mkdir(parents=True)
    model.write(tmp_path / "sparse" / "0")
    for image in model.images.values():
        path = tmp_path / "images" / image.name
        path.parent.mkdir(parents=True, exist_ok=True)
        camera = model.cameras[image.camera_id]
        cv2.imwrite(str(path), np.zeros((camera.height, camera.width), np.uint8))
    pairs = truth.find_pairs(tmp_path, 10)
    assert len(pairs) == 3
    shared = pairs[0].truth
    assert len(shared.first) > 100
    assert np.quantile(shared.distances(shared.first, shared.second), 0.9) < 2
    assert shared.error(shared.fundamental, None) < 2
    turned = shared.fundamental[[1, 0, 2]]
    assert shared.error(turned, None) > 20
    for path in (tmp_path / "images").rglob("*.png"):  # another photo of that name, or one that EXIF turns
        cv2.imwrite(str(path), np.zeros((40, 30), np.uint8))
    with pytest.raises(DataNotFound, match="of the size that the model has"):
        truth.find_pairs(tmp_path, 10)
    for path in (tmp_path / "images").rglob("*.png"):
        path.unlink()
    with pytest.raises(DataNotFound, match="put them there"):
        truth.find_pairs(tmp_path, 10)


def test_plain_photos_are_reconstructed_and_then_known(tmp_path):
    pytest.importorskip("pycolmap")
    scene = synthetic.scene(seed=1, photos=4, size=(480, 360))
    for number, photo in enumerate(scene.photos):
        path = tmp_path / "photos" / "wall" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), photo)
    first, *_ = truth.find_pairs(tmp_path / "photos", 3)
    rows = [int(path.stem) for path in (first.first, first.second)]
    a, b = (scene.cam_from_world[row] for row in rows)
    rotation = b[:, :3] @ a[:, :3].T
    pose = two_views.Pose(rotation, b[:, 3] - rotation @ a[:, 3])
    F = reference.fundamental_from_pose(pose, scene.K, scene.K)
    assert first.truth.error(F, None) < 1  # the true cameras agree with the points that were found
    assert two_views.sampson_distance(F, first.truth.first, first.truth.second).mean() < 1


def test_a_reconstruction_is_kept_under_what_its_photos_show(tmp_path):
    photos = [tmp_path / "0.bmp", tmp_path / "1.bmp"]
    for seed, photo in enumerate(photos):
        cv2.imwrite(str(photo), synthetic.texture((64, 48), seed))
    before = truth._cache(photos)
    os.utime(photos[0])
    assert truth._cache(photos) == before
    exchange(photos[0], photos[1].read_bytes())
    assert truth._cache(photos) != before


def test_what_holds_no_truth_is_told(tmp_path):
    with pytest.raises(DataNotFound, match="no folder"):
        truth.find_pairs(tmp_path / "absent", 3)
    pytest.importorskip("pycolmap")
    with pytest.raises(DataNotFound, match="add photos"):
        truth.find_pairs(tmp_path, 3)


# --- the search ---


def test_the_usual_stays_unless_something_else_is_clearly_better():
    pairs = np.random.default_rng(0).uniform(0, 1, 40)
    noise = np.random.default_rng(1).normal(0, 0.2, 40)
    level = {0.5: pairs + noise - noise.mean() + 0.01, 1.0: pairs, 2.0: pairs}
    assert tune.chosen(level, 1.0) == 1.0
    assert tune.chosen(level, 1.9) == 2.0
    assert tune.chosen(level | {3.0: pairs + 0.1}, 1.0) == 3.0
    assert tune.chosen({1.0: pairs}, 7.0) == 1.0


ONE = ["--models", "rootsift", "--detectors", "dog", "--extractors="]  # candidate but for its keypoints


def test_match_uses_what_tune_saved(sequence, tmp_path, capsys):
    assert main(["tune", str(sequence), *ONE, "--keypoints", "150", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["calibration"]
    assert (found["pairs"], found["geometry"]) == (2, "homography")
    curve = {float(step): value for step, value in found["curves"]["ratios"].items()}
    assert curve[found["ratio"]] > max(curve.values()) - 0.1
    assert found["curves"]["supports"][f"{found['support']:g}"] >= found["curves"]["supports"]["12"]

    photos = " ".join(str(sequence / "s1" / name) for name in ("1.png", "2.png"))
    options = "--model rootsift --max-keypoints 150 --matcher nearest --geometry homography"
    command = f"match {photos} {options} --out {tmp_path}/m.png --json".split()
    told = ["--ratio", str(found["ratio"]), "--threshold", str(found["threshold"])]
    answers = []
    for extra in ([], told, ["--ratio", "0.5"]):
        assert main([*command, *extra]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["points"] == answers[1]["points"] != answers[2]["points"]
    assert len(answers[0]["points"]) > 20
    Path(found["out"]).unlink()


def test_a_person_reads_tables_and_where_the_calibration_was_saved(sequence, tmp_path, capsys):
    out = tmp_path / "here.json"
    assert main(["tune", str(sequence / "s1"), *ONE, "--keypoints", "100", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"Saved in {out}" in said
    assert said.count("accuracy") == 2
    assert json.loads(out.read_text())["dog"]["thresholds"].keys() == {"homography"}
    for photos, place, complaint in [
        (tmp_path / "absent", out, "no folder"),
        (sequence, sequence / "s1" / "1.png" / "x.json", "cannot write"),
        (sequence, sequence / "s1" / "1.png", "not a valid calibration"),
    ]:
        assert main(["tune", str(photos), *ONE, "--keypoints", "100", "--out", str(place)]) == 2
        assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"), [("--max-pairs 0", "at least one pair"), ("--device cuda", "runs on the CPU")]
)
def test_a_failed_run_leaves_no_calibration_behind(sequence, tmp_path, capsys, options, complaint):
    out = tmp_path / "new.json"
    assert main(["tune", str(sequence), *ONE, "--keypoints", "50", *options.split(), "--out", str(out)]) == 2
    assert complaint in capsys.readouterr().err
    assert not out.exists()


# --- detector, model and number of keypoints ---


def measured(ms: float, right: float) -> Measured:
    return Measured(Candidate("dog", "default", 100), ms, right)


def test_the_front_holds_candidates_that_no_other_beats_in_both():
    fast, slow, good = measured(10, 50), measured(30, 40), measured(40, 90)
    assert front([good, slow, measured(40, 80), fast]) == [fast, good]


def test_a_budget_selects_the_most_correct_matches_within_it_or_nothing():
    choices = [measured(10, 50), measured(40, 90)]
    assert within(39, choices) == choices[0]
    assert within(40, choices) == choices[1]
    assert within(9, choices) is None


def test_every_detector_is_tried_with_every_model_and_extractors_alone():
    made = candidates(["dog", "keynet"], ["light"], ["opencv-sift"], [10, 20])
    assert len(made) == 6
    assert made[-1].options == "--extractor opencv-sift --max-keypoints 20"
    assert made[0].options == "--detector dog --model light --max-keypoints 10"
    assert (
        Candidate("dog", "my runs/best.pt", 10).options == "--detector dog --model 'my runs/best.pt' --max-keypoints 10"
    )


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with one photo."""
    folder = tmp_path_factory.mktemp("photos")
    cv2.imwrite(str(folder / "one.png"), synthetic.texture((360, 280), seed=3))
    return folder


def test_a_photo_without_others_is_matched_with_a_copy_whose_homography_is_known(photos, tmp_path):
    (pair,), meaning, overlapping = known_pairs(photos, 4, tmp_path)
    assert "known homography" in meaning
    assert not overlapping
    first, second = (cv2.imread(str(path), cv2.IMREAD_GRAYSCALE).astype(float) for path in (pair.first, pair.second))
    corners = np.array([[100.0, 90.0], [250.0, 180.0]])
    for (x, y), (u, v) in zip(corners, np.rint(two_views.transfer(pair.truth.second_from_first, corners)), strict=True):
        here, there = first[int(y), int(x)], second[int(v), int(u)]
        assert there == pytest.approx(0.7 * here, abs=25)


def test_the_command_prints_the_front_what_right_means_and_what_to_run(photos, capsys):
    options = "--detectors dog --models rootsift --extractors opencv-sift --keypoints 60,200 --budget 60s --json"
    assert main(["tune", str(photos), *options.split()]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["rows"]) == 4
    assert all(row.keys() == {"extractor", "model", "keypoints", "ms", "right"} for row in told["rows"])
    assert max(row["right"] for row in told["rows"]) > 10
    assert told["chosen"] == told["front"][-1]
    assert told["command"].startswith("hynet match A B --")
    assert f"within {RIGHT:g} pixels" in told["right_means"]
    assert told["calibration"] is None, "copies of one photo say nothing about its pairs"


def test_a_budget_that_nothing_meets_is_reported(photos, capsys):
    options = "--detectors dog --models rootsift --extractors= --keypoints 60 --budget 0.001ms"
    assert main(["tune", str(photos), *options.split()]) == 0
    assert "Nothing takes less than 0.001 ms here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--budget soon", "not a valid budget"),
        ("--keypoints many", "not a valid list of keypoint numbers"),
        ("--models nobody", "no model 'nobody'"),
    ],
)
def test_wrong_options_get_one_sentence(photos, capsys, options, said):
    assert main(["tune", str(photos), *options.split()]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("old", ["calibrate", "choose"])
def test_the_commands_that_tune_replaces_name_it(capsys, old):
    assert main([old, "--pairs", "photos/"]) == 2
    assert "hynet tune PHOTOS" in capsys.readouterr().err
