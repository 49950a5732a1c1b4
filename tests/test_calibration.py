"""What suits a model on someone's photos: found by truth, kept beside the model, used by itself."""

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
from hynet import geometry
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadData, DataNotFound
from hynet.evaluation.tuning import pairs as truth
from hynet.evaluation.tuning import tuning
from hynet.features import calibrated as calibration
from hynet.features.calibrated import Calibration
from hynet.features.extractors.patchwise import Extractor
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
    assert known.distances(here, geometry.transfer(H, here) + np.array([3, 4])) == pytest.approx(5)
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
    pose = geometry.Pose(rotation, b[:, 3] - rotation @ a[:, 3])
    F = reference.fundamental_from_pose(pose, scene.K, scene.K)
    assert first.truth.error(F, None) < 1  # the true cameras agree with the points that were found
    assert geometry.sampson_distance(F, first.truth.first, first.truth.second).mean() < 1


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
    assert tuning.chosen(level, 1.0) == 1.0
    assert tuning.chosen(level, 1.9) == 2.0
    assert tuning.chosen(level | {3.0: pairs + 0.1}, 1.0) == 3.0
    assert tuning.chosen({1.0: pairs}, 7.0) == 1.0


def test_what_calibrate_finds_is_what_match_uses(sequence, tmp_path, capsys):
    fast = ["--model", "rootsift", "--max-keypoints", "150"]
    assert main(["calibrate", "--pairs", str(sequence), *fast, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pairs"], found["geometry"]) == (2, "homography")
    curve = {float(step): value for step, value in found["curves"]["ratios"].items()}
    assert curve[found["ratio"]] > max(curve.values()) - 0.1
    assert found["curves"]["supports"][f"{found['support']:g}"] >= found["curves"]["supports"]["12"]

    photos = [str(sequence / "s1" / name) for name in ("1.png", "2.png")]
    command = [
        "match",
        *photos,
        *fast,
        "--matcher",
        "nearest",
        "--geometry",
        "homography",
        "--out",
        str(tmp_path / "m.png"),
        "--json",
    ]
    told = ["--ratio", str(found["ratio"]), "--threshold", str(found["threshold"])]
    answers = []
    for extra in ([], told, ["--ratio", "0.5"]):
        assert main([*command, *extra]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["points"] == answers[1]["points"] != answers[2]["points"]
    assert len(answers[0]["points"]) > 20
    Path(found["out"]).unlink()


def test_a_person_reads_tables_and_where_it_was_saved(sequence, tmp_path, capsys):
    out = tmp_path / "here.json"
    command = ["calibrate", "--pairs", str(sequence / "s1"), "--model", "rootsift", "--max-keypoints", "100"]
    assert main([*command, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"Saved in {out}" in said
    assert said.count("accuracy") == 2
    assert json.loads(out.read_text())["dog"]["thresholds"].keys() == {"homography"}
    for pairs, place, complaint in [
        (tmp_path / "absent", out, "no folder"),
        (sequence, sequence / "s1" / "1.png" / "x.json", "cannot write"),
        (sequence, sequence / "s1" / "1.png", "not a valid calibration"),
    ]:
        assert main(["calibrate", "--pairs", str(pairs), "--model", "rootsift", "--out", str(place)]) == 2
        assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("most", ["0", "-1"])
def test_a_calibration_that_fails_leaves_nothing_behind(sequence, tmp_path, capsys, most):
    out = tmp_path / "new.json"
    assert main(["calibrate", "--pairs", str(sequence), "--most", most, "--out", str(out)]) == 2
    assert "at least one pair" in capsys.readouterr().err
    assert not out.exists()


def test_a_device_that_the_model_does_not_have_is_told_and_leaves_nothing_behind(sequence, tmp_path, capsys):
    out = tmp_path / "new.json"
    command = ["calibrate", "--pairs", str(sequence), "--model", "rootsift", "--device", "cuda", "--out", str(out)]
    assert main(command) == 2
    assert "runs on the CPU" in capsys.readouterr().err
    assert not out.exists()
