"""Photos that were left out are found in the model of the others; photos of other places are not."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest
from PIL import Image

import hynet
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadData, BadInput, DataNotFound, MissingExtra
from hynet.features.settings import FeatureSettings
from hynet.sfm import colmap
from hynet.sfm.camera_errors import best_similarity, camera_errors
from hynet.sfm.colmap.reading import read_model
from hynet.sfm.localisation import Located, Map
from hynet.sfm.reconstruct import reconstruct
from hynet.sfm.retrieval import PhotoVectors

pytest.importorskip("pycolmap")

LEFT_OUT = (2, 4)


@pytest.fixture(scope="module")
def truth() -> synthetic.SyntheticScene:
    return synthetic.scene(seed=1, photos=6, size=(400, 300))


@pytest.fixture(scope="module")
def place(truth, tmp_path_factory) -> Path:
    """photos/, queries/ and model/."""
    home = tmp_path_factory.mktemp("place")
    for folder in ("photos", "queries"):
        (home / folder).mkdir()
    for k, photo in enumerate(truth.photos):
        cv2.imwrite(str(home / ("queries" if k in LEFT_OUT else "photos") / f"{k}.png"), photo)
    cv2.imwrite(str(home / "queries" / "elsewhere.png"), synthetic.texture((400, 300), seed=70))
    settings = FeatureSettings(model="rootsift", max_keypoints=700)
    camera = colmap.pinhole_text(truth.K)
    reconstruct(home / "photos", home / "model", settings=settings, ratio=0.85, camera=camera, jobs=1)
    return home


@pytest.fixture(scope="module")
def here(place) -> Map:
    return Map(place / "model")


def errors(place: Path, truth: synthetic.SyntheticScene, pose: np.ndarray, k: int) -> tuple[float, float]:
    """Of photo k: degrees, and parts of the scene."""
    photos = read_model(place / "model").photos
    true = truth.cam_from_world[[int(Path(photo.name).stem) for photo in photos]]
    over = best_similarity(np.stack([photo.cam_from_world for photo in photos]), true)
    degrees, apart = camera_errors(pose[None], truth.cam_from_world[k : k + 1], over)
    return degrees[0], apart[0] / np.linalg.norm(np.ptp(truth.cam_from_world[:, :, 3], axis=0))


@pytest.mark.parametrize("k", LEFT_OUT)
def test_a_photo_that_was_left_out_is_where_it_was_taken(here, place, truth, k):
    found = here.locate(place / "queries" / f"{k}.png")
    assert found.located
    assert found.inliers > 50
    assert found.confidence > 0.99
    degrees, apart = errors(place, truth, found.cam_from_world, k)
    assert degrees < 0.2
    assert apart < 0.02
    assert np.linalg.norm(found.xy - found.projected, axis=1).max() < 4
    assert found.covariance.shape == (6, 6)
    assert 0 < np.sqrt(np.diag(found.covariance)[:3]).max() < 0.01
    picture = found.draw(place / "queries" / f"{k}.png")
    assert (picture == (64, 224, 130)).all(2).sum() > 20  # green dots


def test_a_photo_of_another_place_is_said_to_be_so(here, place):
    found = here.locate(place / "queries" / "elsewhere.png")
    assert not found.located
    assert found.cam_from_world is None
    assert found.confidence < 0.5
    assert here.locate(np.full((80, 120), 128, np.uint8)) == Located(False, 0, 0.0, 0, ())


def test_an_unknown_focal_length_is_estimated(place, truth):
    found = hynet.localize(truth.photos[2][:, 20:-20], map=place / "model")  # of a size that no photo of the map has
    assert found.located
    assert found.camera.focal == pytest.approx(truth.K[0, 0], rel=0.05)


def test_without_pycolmap_poselib_finds_the_same_place(here, place, truth, monkeypatch):
    whole = read_model(place / "model")
    lenses = [photo.camera.K for photo in whole.photos]
    by_colmap = here.locate(place / "queries" / "2.png")
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    read = read_model(place / "model")
    assert [photo.name for photo in read.photos] == [photo.name for photo in whole.photos]
    for ours, theirs in zip(read.photos, whole.photos, strict=True):
        assert ours.cam_from_world == pytest.approx(theirs.cam_from_world, abs=1e-9)
        assert np.array_equal(ours.xy, theirs.xy)
        assert np.array_equal(ours.points, theirs.points)
    np.testing.assert_allclose([photo.camera.K for photo in read.photos], lenses, atol=1e-6)
    assert np.array_equal(read.xyz, whole.xyz)
    found = Map(place / "model").locate(place / "queries" / "2.png")
    assert found.located
    assert found.inliers > 0.9 * by_colmap.inliers
    degrees, _ = errors(place, truth, found.cam_from_world, 2)
    assert degrees < 0.2
    assert np.linalg.norm(found.xy - found.projected, axis=1).max() < 4
    assert found.to_dict()["covariance"] is None  # PoseLib gives none; the confidence is there
    assert not here.locate(place / "queries" / "elsewhere.png").located
    cropped = hynet.localize(truth.photos[2][:, 20:-20], map=place / "model")
    assert cropped.located
    assert cropped.camera.focal == pytest.approx(truth.K[0, 0], rel=0.1)


def test_without_pycolmap_exif_tells_the_focal_length_and_a_model_as_text_is_said_to_need_it(
    place, tmp_path, monkeypatch
):
    colmap.pycolmap().Reconstruction(place / "model").write_text(tmp_path)
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0xA405] = 40  # mm on 35 mm film, 43.27 mm across
    Image.fromarray(np.zeros((300, 400), np.uint8)).save(tmp_path / "photo.jpg", exif=exif)
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    camera = colmap.guess_camera((400, 300), tmp_path / "photo.jpg")
    assert camera.known_focal
    assert camera.params[0] == pytest.approx(40 / 43.27 * 500, rel=1e-3)
    with pytest.raises(MissingExtra, match="pycolmap"):
        read_model(tmp_path)


def test_the_command_gives_poses_pictures_and_goes_on_past_what_is_no_photo(place, tmp_path, capsys):
    queries = tmp_path / "queries"
    shutil.copytree(place / "queries", queries)
    (queries / "broken.png").write_bytes(b"no photo")
    assert main(f"localize {queries} --map {place}/model --out {tmp_path}/poses --json".split()) == 0
    told = json.loads(capsys.readouterr().out)["queries"]
    assert {name: each["located"] for name, each in told.items()} == {
        "2.png": True,
        "4.png": True,
        "broken.png": False,
        "elsewhere.png": False,
    }
    assert "broken.png" in told["broken.png"]["why"]
    assert np.array(told["2.png"]["cam_from_world"]).shape == (3, 4)
    note = tmp_path / "poses" / "2.png.json"
    assert json.loads(note.read_text())["cam_from_world"] == told["2.png"]["cam_from_world"]
    note.write_text(note.read_text().replace('"inliers": ', '"inliers": 1'))
    (tmp_path / "poses" / "4.png.json").write_text("cut sho")
    assert main(f"localize {queries} --map {place}/model --out {tmp_path}/poses --json".split()) == 0
    again = json.loads(capsys.readouterr().out)["queries"]
    assert again["2.png"]["inliers"] > 1000  # taken from the note
    assert again["4.png"] == told["4.png"]
    assert cv2.imread(str(tmp_path / "poses" / "2.png.jpg")) is not None


def test_what_is_no_map_is_told(place, tmp_path, capsys):
    assert main(f"localize {place}/queries/2.png --map {tmp_path}/none".split()) == 2
    assert "no map" in capsys.readouterr().err
    assert main(f"localize {tmp_path}/none.jpg --map {place}/model".split()) == 2
    assert "none of the 1 photos could be read: no photo" in capsys.readouterr().err
    with pytest.raises(BadData, match="holds no COLMAP model"):
        Map(tmp_path)
    other = tmp_path / "model"
    shutil.copytree(place / "model", other)
    (other / "photos.json").unlink()
    with pytest.raises(DataNotFound, match="which features"):
        Map(other)
    theirs = tmp_path / "theirs.h5"
    with h5py.File(place / "model" / "features.h5") as ours, h5py.File(theirs, "w") as file:
        for name in ours:
            ours.copy(name, file)
    with pytest.raises(BadInput, match="give what describes the queries"):
        Map(other, features=theirs)
    with h5py.File(theirs, "a") as file:
        for key in ("keypoints", "descriptors", "scales", "angles", "scores"):
            column = file[f"0.png/{key}"][()]
            del file[f"0.png/{key}"]
            file[f"0.png/{key}"] = column[:, :9] if key == "descriptors" else column[:9]
    with pytest.raises(BadData, match=r"other features of 0\.png"):
        Map(other, features=theirs, extractor="opencv-rootsift")


def test_short_vectors_still_tell_places_apart():
    rng = np.random.default_rng(3)
    photos = {}
    for seen in range(12):
        here = rng.normal(size=(150, 32))
        for k in range(5):
            rows = np.concatenate(
                [here[rng.permutation(150)[:100]] + 0.2 * rng.normal(size=(100, 32)), rng.normal(size=(100, 32))]
            )
            photos[seen, k] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    known = {f"{seen}-{k}": rows for (seen, k), rows in photos.items() if k}
    vectors = PhotoVectors.learn(list(known), known.__getitem__, numbers=24)
    table = np.stack([vectors(rows) for rows in known.values()])
    assert table.shape == (48, 24)
    assert np.linalg.norm(table, axis=1) == pytest.approx(1, abs=1e-5)
    best = [list(known)[np.argmax(table @ vectors(photos[seen, 0]))] for seen in range(12)]
    assert np.mean([int(name.split("-")[0]) == seen for seen, name in enumerate(best)]) > 0.9


def test_the_benchmark_finds_what_was_left_out_and_refuses_the_other_scene(place, truth, tmp_path, capsys):
    """Two scenes in Strecha's layout; the photos of the second have nothing in common."""
    for name, photos, poses in (
        ("arc", truth.photos, truth.cam_from_world),
        ("noise", [synthetic.texture((400, 300), seed) for seed in range(40, 44)], truth.cam_from_world),
    ):
        for folder in ("images", "cameras"):
            (tmp_path / name / folder).mkdir(parents=True)
        for k, (photo, pose) in enumerate(zip(photos, poses, strict=False)):
            cv2.imwrite(str(tmp_path / name / "images" / f"{name}{k}.png"), photo)
            lines = [*truth.K, np.zeros(3), *pose[:, :3].T, -pose[:, :3].T @ pose[:, 3], (400, 300)]
            text = "\n".join(" ".join(map(str, line)) for line in lines)
            (tmp_path / name / "cameras" / f"{name}{k}.png.camera").write_text(text)
    asked = f"evaluate localization --model rootsift --data {tmp_path} --max-keypoints 600 --json"
    assert main(asked.split()) == 0
    row = json.loads(capsys.readouterr().out)["rows"]["rootsift"]
    assert row["located"] == pytest.approx(100 * 2 / 3)  # two of the arc, and not the one of the noise
    assert row["within"] == row["located"]
    assert row["refused"] == 100
    assert row["rotation_error"] < 0.3
    assert main(f"{asked} --every 1".split()) == 2
    assert "would leave no map" in capsys.readouterr().err
    assert main(f"{asked} --every 50".split()) == 2
    assert "one of 50 is looked up; give more photos, or another --every" in capsys.readouterr().err
