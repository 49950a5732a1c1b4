"""Photos -> model: rendered photos whose cameras are known, killed runs, and folders that are no scene."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest

from conftest import exchange
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadData, BadInput, DataNotFound
from hynet.features.folder import extract_all
from hynet.features.hloc_file import read_h5
from hynet.features.settings import FeatureSettings
from hynet.pages.doctor.examination import examine
from hynet.runtime.pool import open_pool
from hynet.sfm import colmap
from hynet.sfm.camera_errors import camera_errors, centres
from hynet.sfm.colmap import NotReconstructed
from hynet.sfm.colmap.mapping import FARTHEST, adjust
from hynet.sfm.colmap.reading import read_model
from hynet.sfm.exact_tracks import move_keypoints
from hynet.sfm.localisation import Map
from hynet.sfm.reconstruct import Reconstructed, reconstruct

pycolmap = pytest.importorskip("pycolmap")
has_global_mapper = pytest.mark.skipif(not hasattr(pycolmap, "global_mapping"), reason="came with pycolmap 4")

SETTINGS = FeatureSettings(model="rootsift", max_keypoints=900)
RATIO = 0.85


@pytest.fixture(scope="module")
def truth() -> synthetic.SyntheticScene:
    return synthetic.scene(seed=1, photos=5, size=(400, 300))


@pytest.fixture(scope="module")
def photos(truth: synthetic.SyntheticScene, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scene") / "photos"
    write(truth, range(5), folder)
    return folder


@pytest.fixture(scope="module")
def done(photos: Path) -> Reconstructed:
    """An undisturbed run."""
    return run(photos, photos.parent / "model")


def write(truth: synthetic.SyntheticScene, which: range, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for k in which:
        cv2.imwrite(str(folder / f"{k}.png"), truth.photos[k])


def run(photos: Path, out: Path, **options) -> Reconstructed:
    made_by = {} if "features" in options else {"settings": SETTINGS}
    return reconstruct(photos, out, **{**made_by, "ratio": RATIO, "jobs": 1, **options})


def model_files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in colmap.MODEL_FILES}


def errors(folder: Path | str, truth: synthetic.SyntheticScene) -> tuple[float, float]:
    """Largest error in degrees, and in parts of the scene."""
    model = read_model(folder)
    rows = [int(Path(photo.name).stem) for photo in model.photos]
    true = truth.cam_from_world[rows]
    degrees, apart = camera_errors(np.stack([photo.cam_from_world for photo in model.photos]), true)
    return degrees.max(), apart.max() / np.linalg.norm(np.ptp(centres(true), axis=0))


def test_rendered_photos_give_their_cameras_back(done: Reconstructed, truth: synthetic.SyntheticScene):
    assert done.registered == done.photos == 5
    degrees, apart = errors(done.model, truth)
    assert degrees < 0.1
    assert apart < 0.01
    assert done.reprojection_error < 0.3


def test_aligned_photos_give_cameras_that_are_nearer_to_the_truth(
    done: Reconstructed, truth: synthetic.SyntheticScene, photos: Path, tmp_path: Path
):
    plain = run(photos, tmp_path / "plain", features=Path(done.model) / "features.h5", refine=False)
    assert done.reprojection_error < 0.8 * plain.reprojection_error
    assert done.points > 0.9 * plain.points
    for refined, detected in zip(errors(done.model, truth), errors(plain.model, truth), strict=True):
        assert refined < detected


def test_keypoints_without_a_size_stay_where_they_were_detected(done: Reconstructed, photos: Path, tmp_path: Path):
    model = pycolmap.Reconstruction(done.model)
    frames = {image.name: np.tile(np.eye(2, 3), (image.num_points2D(), 1, 1)) for image in model.images.values()}
    named = {image.name: photos / image.name for image in model.images.values()}
    assert move_keypoints(model, frames, named, tmp_path) == 0


def test_a_photo_that_has_become_another_size_is_not_aligned(done: Reconstructed, photos: Path, tmp_path: Path):
    model = pycolmap.Reconstruction(done.model)
    with colmap.opened(Path(done.model) / "database.db") as store:
        frames = {image.name: store.frames(image.name).astype(float) for image in model.images.values()}
    named = {image.name: photos / image.name for image in model.images.values()}
    every = move_keypoints(model, frames, named, tmp_path)
    cv2.imwrite(str(tmp_path / "small.png"), np.zeros((30, 40), np.uint8))
    fewer = move_keypoints(model, frames, {**named, "0.png": tmp_path / "small.png"}, tmp_path)
    assert 0 < fewer < every
    assert move_keypoints(model, frames, {"0.png": photos / "0.png"}, tmp_path) == 0  # the others are gone


def test_a_cluster_makes_the_same_model_from_a_collection(done: Reconstructed, photos: Path, tmp_path: Path):
    pytest.importorskip("pyarrow")
    with open_pool("local", workers=2) as cluster:
        again = run(photos, tmp_path / "model", cluster=cluster)
    assert model_files(tmp_path / "model") == model_files(Path(done.model))
    assert replace(again, model=done.model) == done
    assert (tmp_path / "model" / "features" / "index.parquet").exists()
    assert Map(tmp_path / "model").locate(photos / "2.png").located


def test_a_cluster_describes_a_photo_again_that_has_changed(photos: Path, tmp_path: Path):
    pytest.importorskip("pyarrow")
    few = write_two(photos, tmp_path / "few")
    with open_pool("local", workers=1) as cluster:
        run(few, tmp_path / "model", cluster=cluster)
        picture = cv2.imread(str(few / "1.png"))
        cv2.imwrite(str(few / "1.png"), cv2.convertScaleAbs(picture, alpha=0.9))
        with pytest.raises(BadInput, match=r"was made from another photo 1\.png"):
            run(few, tmp_path / "model", cluster=cluster)
        run(few, tmp_path / "model", cluster=cluster, overwrite=True)
        again = model_files(tmp_path / "model")
    run(few, tmp_path / "alone")
    assert again == model_files(tmp_path / "alone")


@pytest.mark.parametrize("options", [{"jobs": -1}, {"mapper_threads": 0}])
def test_too_few_jobs_and_threads_are_told(photos: Path, tmp_path: Path, options):
    with pytest.raises(BadInput, match="at least 1"):
        run(photos, tmp_path / "model", **options)
    assert not (tmp_path / "model").exists()


def write_two(photos: Path, folder: Path) -> Path:
    folder.mkdir()
    for name in ("1.png", "2.png"):
        shutil.copy(photos / name, folder / name)
    return folder


def test_the_points_lie_on_the_surfaces_that_were_rendered(done: Reconstructed, truth: synthetic.SyntheticScene):
    model = read_model(done.model)
    ratios = []
    for photo in model.photos:
        seen = photo.points >= 0
        in_camera = model.xyz[photo.points[seen]] @ photo.cam_from_world[:, :3].T + photo.cam_from_world[:, 3]
        x, y = np.rint(photo.xy[seen]).astype(int).T
        ratios.append(in_camera[:, 2] / truth.depths[int(Path(photo.name).stem)][y, x])
    scale = np.median(np.concatenate(ratios))
    assert np.mean(np.abs(np.concatenate(ratios) / scale - 1) < 0.02) > 0.95


def test_no_observation_of_a_model_is_far_off(done: Reconstructed):
    model = pycolmap.Reconstruction(done.model)
    worst = 0.0
    for photo in model.images.values():
        for seen in photo.points2D:
            if seen.has_point3D():
                projected = photo.project_point(model.points3D[seen.point3D_id].xyz)
                assert projected is not None  # it lies before the camera
                worst = max(worst, float(np.linalg.norm(projected - seen.xy)))
    assert 0.5 < worst <= FARTHEST  # some would be beyond


def test_a_photo_whose_observations_are_all_far_off_is_no_longer_registered(done: Reconstructed):
    model = pycolmap.Reconstruction(done.model)
    lost = model.images[max(model.reg_image_ids())]
    anywhere = np.random.default_rng(0)
    for seen in lost.points2D:
        seen.xy = anywhere.uniform(5000, 9000, 2)
    adjust(model)
    assert model.num_reg_images() == done.registered - 1
    assert lost.image_id not in model.reg_image_ids()


def test_the_table_counts_what_the_model_holds(done: Reconstructed):
    model, funnel = read_model(done.model), colmap.read_funnel(Path(done.model) / "database.db")
    assert done.points == len(model.xyz)
    assert done.observations == sum(int((photo.points >= 0).sum()) for photo in model.photos)
    assert done.track_length == pytest.approx(done.observations / done.points)
    assert done.inlier_matches == sum(funnel.inliers.values())
    assert all(inliers <= funnel.matches[pair] for pair, inliers in funnel.inliers.items())
    assert json.loads((Path(done.model) / "table.json").read_text())["points"] == done.points
    header = (Path(done.model) / "points.ply").read_bytes()[:200]
    assert f"element vertex {done.points}".encode() in header


def test_points_have_the_colour_of_the_photos(done: Reconstructed, truth: synthetic.SyntheticScene):
    model = read_model(done.model)
    photo = model.photos[2]
    seen = photo.points >= 0
    x, y = np.rint(photo.xy[seen]).astype(int).T
    grey = truth.photos[2][y, x].astype(float)
    assert np.corrcoef(model.colours[photo.points[seen]].mean(1), grey)[0, 1] > 0.95


def test_the_database_holds_our_pixels_plus_a_half_and_matches_in_the_right_columns(done: Reconstructed):
    folder = Path(done.model)
    found = read_h5(folder / "features.h5", "0.png")
    with sqlite3.connect(folder / "database.db") as file:
        (blob,) = file.execute("SELECT data FROM keypoints ORDER BY image_id").fetchone()
        tables = [
            file.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("matches", "two_view_geometries")
        ]
    stored = np.frombuffer(blob, np.float32).reshape(-1, 6)
    assert stored[:, :2] == pytest.approx(found.keypoints.xy + 0.5)
    assert tables == [10, 10]
    other = read_h5(folder / "features.h5", "1.png")
    with colmap.opened(folder / "database.db") as store:
        rows = store.matches("0.png", "1.png")
        assert rows is not None
        turned = store.matches("1.png", "0.png")
    assert np.array_equal(rows[:, ::-1], turned)
    apart = np.linalg.norm(found.descriptors[rows[:, 0]] - other.descriptors[rows[:, 1]], axis=1)
    assert apart.max() < 1


# --- Killed, continued, extended ---

SCRIPT = """
import os, signal, sys, threading
from hynet.features.settings import FeatureSettings
from hynet.sfm.reconstruct import reconstruct

photos, out, step, after = sys.argv[1:]
calls = 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def progress(done, total, what):
    global calls
    if what == "mapping" and step == "mapping":
        threading.Timer(float(after), die).start()
    elif step in what:
        calls += 1
        if calls > float(after):
            die()

if __name__ == "__main__":
    settings = FeatureSettings(model="rootsift", max_keypoints=900)
    reconstruct(photos, out, settings=settings, ratio=0.85, jobs=1, progress=progress)
"""


def test_killed_in_every_step_and_run_again_it_is_the_same_model(photos: Path, done: Reconstructed, tmp_path: Path):
    script, out = tmp_path / "killed.py", tmp_path / "model"
    script.write_text(SCRIPT)
    for step, after in [(".png", "1"), ("matching", "3"), ("mapping", "0.02")]:
        ended = subprocess.run([sys.executable, str(script), str(photos), str(out), step, after], capture_output=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
        assert not (out / "table.json").exists()
    assert len(colmap.read_funnel(out / "database.db").matches) >= 3  # what was done was kept
    ended = subprocess.run([sys.executable, str(script), str(photos), str(out), "refining", "0"], capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert (out / "table.json").exists()  # what was mapped is whole, and not mapped again
    told: list[str] = []
    run(photos, out, progress=lambda count, total, what: told.append(what))
    assert "refining" in told
    assert model_files(out) == model_files(Path(done.model))
    assert not (out / ".exact").exists()

    # Cut off between the model's files: the table, which vouches for them, was not there yet.
    (out / "table.json").unlink()
    (out / "points3D.bin").write_bytes(b"")
    run(photos, out)
    assert model_files(out) == model_files(Path(done.model))


@has_global_mapper
def test_the_table_of_an_earlier_model_does_not_vouch_for_a_half_written_one(
    photos: Path, done: Reconstructed, tmp_path: Path
):
    out = tmp_path / "model"
    shutil.copytree(done.model, out)
    (out / "points.ply").unlink()
    (out / "points.ply").mkdir()  # the last of the files cannot be written
    with pytest.raises(BadInput, match="cannot write"):
        run(photos, out, mapper="global")
    (out / "points.ply").rmdir()
    run(photos, out)
    assert model_files(out) == model_files(Path(done.model))


def test_two_runs_at_once_do_not_mix(photos: Path, done: Reconstructed, tmp_path: Path):
    out, said = tmp_path / "model", []

    def meanwhile(count: int, total: int, what: str) -> None:
        if not said:
            with pytest.raises(BadInput, match="another run is at work") as told:
                run(photos, out)
            said.append(told.value)

    run(photos, out, progress=meanwhile)
    assert said
    assert model_files(out) == model_files(Path(done.model))


def test_photos_that_have_gone_or_changed_are_told(photos: Path, done: Reconstructed, tmp_path: Path):
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    assert run(folder, Path(done.model)).registered == 5  # the folder may be moved
    shutil.copy(folder / "2.png", folder / "3.png")
    with pytest.raises(BadInput, match=r"another photo 3\.png"):
        run(folder, Path(done.model))
    (folder / "3.png").unlink()
    with pytest.raises(BadInput, match=r"also holds 3\.png"):
        run(folder, Path(done.model))


def test_a_photo_of_equal_size_and_another_mask_are_noticed(photos: Path, done: Reconstructed, tmp_path: Path):
    folder, masks, out = tmp_path / "photos", tmp_path / "masks", tmp_path / "model"
    shutil.copytree(photos, folder)
    large, small = sorted(folder.glob("*.png"), key=lambda path: -path.stat().st_size)[:2]
    exchange(large, small.read_bytes())
    with pytest.raises(BadInput, match=f"another photo {large.name}"):
        run(folder, Path(done.model))

    masks.mkdir()
    mask = np.full((300, 400), 255, np.uint8)
    cv2.imwrite(str(masks / "0.png.png"), mask)
    settings = replace(SETTINGS, mask=str(masks))
    before = run(photos, out, settings=settings)
    assert run(photos, out, settings=settings) == before
    mask[:, 200:] = 0
    cv2.imwrite(str(masks / "0.png.png"), mask)
    with pytest.raises(BadInput, match=r"another photo 0\.png, or with another mask"):
        run(photos, out, settings=settings)


def test_a_run_that_is_done_maps_nothing_again(photos: Path, done: Reconstructed):
    before = (Path(done.model) / "points3D.bin").stat().st_mtime_ns
    assert run(photos, Path(done.model)) == done
    assert (Path(done.model) / "points3D.bin").stat().st_mtime_ns == before


def test_photos_that_are_added_are_matched_with_the_others_and_no_pair_twice(
    truth: synthetic.SyntheticScene, tmp_path: Path
):
    folder, out = tmp_path / "photos", tmp_path / "model"
    write(truth, range(3), folder)
    assert run(folder, out).registered == 3
    write(truth, range(3, 5), folder)
    told = []
    after = run(folder, out, progress=lambda count, total, what: told.append(what))
    assert after.registered == 5
    assert told.count("matching") == 10 - 3
    assert {"checking", "storing keypoints", "matching", "mapping"} <= set(told)
    assert errors(out, truth)[0] < 0.1


def test_other_settings_do_not_mix_with_what_is_there(photos: Path, done: Reconstructed):
    with pytest.raises(BadInput, match=r"other settings \(ratio was 0.85, now 0.7\); choose another --out, or --over"):
        run(photos, Path(done.model), ratio=0.7)
    with pytest.raises(BadInput, match=r"other settings \(max-keypoints was 900, now 800\)"):
        run(photos, Path(done.model), settings=FeatureSettings(model="rootsift", max_keypoints=800))


def test_what_was_made_with_other_settings_is_replaced_when_asked_to(photos: Path, done: Reconstructed, tmp_path: Path):
    out = tmp_path / "model"
    shutil.copytree(done.model, out)
    fewer = replace(SETTINGS, max_keypoints=700)
    told = []
    again = run(photos, out, settings=fewer, overwrite=True, progress=lambda *words: told.append(words))
    assert (again.registered, again.points < done.points) == (5, True)
    assert sum(what == "matching" for _, _, what in told) == 10
    assert (0, 5, "mapping") in told
    assert run(photos, out, settings=fewer) == again


def test_other_features_of_the_same_photos_do_not_mix_with_the_matches_that_are_there(
    photos: Path, done: Reconstructed, tmp_path: Path
):
    """Matches name rows of features, and a file of features may be written anew under its name."""
    file = tmp_path / "f.h5"
    extract_all(photos, file, SETTINGS)
    made = run(photos, tmp_path / "model", features=file)
    extract_all(photos, file, replace(SETTINGS, shape="baumberg"), overwrite=True)
    with pytest.raises(BadInput, match=r"was made of other features of .*; choose another --out, or --overwrite"):
        run(photos, tmp_path / "model", features=file)
    assert run(photos, tmp_path / "model", features=file, overwrite=True).inlier_matches != made.inlier_matches


def test_a_shape_is_one_of_the_settings_and_replaced_only_when_asked(photos: Path, done: Reconstructed, tmp_path: Path):
    out = tmp_path / "model"
    shutil.copytree(done.model, out)
    shaped = replace(SETTINGS, shape="baumberg")
    with pytest.raises(BadInput, match="other settings"):
        run(photos, out, settings=shaped)
    told = []
    run(photos, out, settings=shaped, overwrite=True, progress=lambda *words: told.append(words))
    assert sum(what == "matching" for _, _, what in told) == 10


def test_a_camera_of_each_photo_is_a_known_one(photos: Path, tmp_path: Path):
    cameras = {photo.name: "auto" for photo in photos.iterdir()}
    with pytest.raises(BadInput, match="'auto' is for all photos"):
        run(photos, tmp_path / "model", camera=cameras)


@has_global_mapper
def test_another_mapper_uses_the_same_matches(
    photos: Path, done: Reconstructed, truth: synthetic.SyntheticScene, tmp_path: Path
):
    out = tmp_path / "model"
    shutil.copytree(done.model, out)
    told = []
    mapped = run(photos, out, mapper="global", progress=lambda count, total, what: told.append(what))
    assert "matching" not in told
    assert mapped.registered == 5
    assert errors(out, truth)[0] < 0.1


# --- Cameras, pairs and features of one's own ---


def test_a_known_camera_stays_as_it_is(
    photos: Path, done: Reconstructed, truth: synthetic.SyntheticScene, tmp_path: Path
):
    camera = colmap.pinhole_text(truth.K)
    out = tmp_path / "model"
    run(photos, out, features=Path(done.model) / "features.h5", camera=camera)
    assert all(np.allclose(photo.camera.K, truth.K) for photo in read_model(out).photos)
    assert errors(out, truth)[0] < 0.1


def test_features_of_others_and_a_list_of_pairs(photos: Path, done: Reconstructed, tmp_path: Path):
    """Neither scales nor angles nor scores, and not for every photo."""
    theirs, pairs = tmp_path / "theirs.h5", tmp_path / "pairs.txt"
    with h5py.File(Path(done.model) / "features.h5") as ours, h5py.File(theirs, "w") as file:
        for name in ("0.png", "1.png", "2.png", "3.png"):
            for key in ("keypoints", "descriptors", "image_size"):
                file[f"{name}/{key}"] = ours[name][key][()]
    pairs.write_text("0.png 1.png\n\n2.png 1.png\n3.png 2.png\n1.png 2.png\n1.png 3.png\n")
    made = run(photos, tmp_path / "model", features=theirs, pairs=str(pairs))
    assert made.registered == 4
    assert list(made.unreadable) == ["4.png"]
    (lost,) = examine(tmp_path / "model").findings
    assert (lost.photo, lost.reason) == ("4.png", "no features")
    tried = set(colmap.read_funnel(tmp_path / "model" / "database.db").matches)
    assert tried == {("0.png", "1.png"), ("1.png", "2.png"), ("1.png", "3.png"), ("2.png", "3.png")}


def test_an_extractor_is_opened_once_and_its_features_file_gives_the_same_model(
    truth: synthetic.SyntheticScene, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    opened = []
    itself = FeatureSettings.open_extractor
    monkeypatch.setattr(FeatureSettings, "open_extractor", lambda self: opened.append(self) or itself(self))
    settings = FeatureSettings(extractor="opencv-rootsift", max_keypoints=900)
    found = reconstruct(photos, tmp_path / "model", settings=settings, jobs=1)
    assert len(opened) == 1
    assert found.registered == 5
    assert errors(found.model, truth)[0] < 0.3
    told = json.loads((tmp_path / "model" / "photos.json").read_text())["settings"]
    assert told == {"extractor": "opencv-rootsift", "max_keypoints": 900, "ratio": None, "camera": "auto"}
    stored = FeatureSettings(extractor=str(tmp_path / "model" / "features.h5"))
    again = reconstruct(photos, tmp_path / "again", settings=stored, jobs=1)
    assert (again.points, again.inlier_matches) == (found.points, found.inlier_matches)
    assert not (tmp_path / "again" / "features.h5").exists()


def test_each_photo_may_have_its_own_known_camera(truth, photos: Path, done: Reconstructed, tmp_path: Path):
    narrower = truth.K * np.array([[1.001], [1.001], [1]])
    cameras = {f"{k}.png": colmap.pinhole_text(narrower if k == 2 else truth.K) for k in range(5)}
    features = Path(done.model) / "features.h5"
    run(photos, tmp_path / "model", features=features, camera=cameras)
    found = {photo.name: photo.camera for photo in read_model(tmp_path / "model").photos}
    assert len(found) == 5
    np.testing.assert_allclose(found["2.png"].K, narrower)
    assert found["0.png"] == found["4.png"]
    np.testing.assert_allclose(found["0.png"].K, truth.K)
    del cameras["3.png"]
    with pytest.raises(BadInput, match=r"no camera of 3\.png"):
        run(photos, tmp_path / "other", features=features, camera=cameras)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("DELETE FROM images WHERE image_id = 2", r"COLMAP cannot use .*database\.db"),
        ("DELETE FROM cameras", r"COLMAP cannot use .*database\.db"),
        ("UPDATE images SET name = x'ff' WHERE image_id = 2", "not UTF-8"),
    ],
)
def test_a_database_with_rows_missing_or_spoilt_is_told(photos: Path, done: Reconstructed, tmp_path, damage, told):
    shutil.copytree(done.model, tmp_path / "model")
    (tmp_path / "model" / "table.json").unlink()
    with closing(sqlite3.connect(tmp_path / "model" / "database.db")) as tables, tables:
        tables.execute("PRAGMA foreign_keys = OFF")
        tables.execute(damage)
    with pytest.raises(BadData, match=told):
        run(photos, tmp_path / "model")


def test_a_photo_that_vanishes_after_extraction_costs_its_colours_and_its_exact_places_only(
    photos: Path, done: Reconstructed, tmp_path: Path
):
    shutil.copytree(photos, tmp_path / "photos")

    def vanish(count: int, total: int, what: str) -> None:
        if what == "mapping":
            (tmp_path / "photos" / "0.png").unlink(missing_ok=True)

    features = Path(done.model) / "features.h5"
    again = run(tmp_path / "photos", tmp_path / "model", features=features, progress=vanish)
    assert again.registered == done.registered
    detected = read_h5(features, "0.png").keypoints.xy
    model = read_model(tmp_path / "model")
    moved = {photo.name: np.abs(photo.xy - read_h5(features, photo.name).keypoints.xy).max() for photo in model.photos}
    (first,) = (photo for photo in model.photos if photo.name == "0.png")
    np.testing.assert_allclose(first.xy, detected, atol=1e-3)
    assert min(moved[name] for name in moved if name != "0.png") > 0.1


def test_what_a_features_file_would_leave_unused_is_refused(photos: Path, tmp_path: Path, capsys):
    command = f"reconstruct {photos} --out {tmp_path}/model --features x.h5 --model rootsift --max-keypoints 99"
    assert main(command.split()) == 2
    assert capsys.readouterr().err == (
        "hynet: x.h5 holds features that are made already; leave out model, max-keypoints, or the file.\n"
    )
    assert not (tmp_path / "model").exists()


def test_a_features_file_and_an_extractor_are_refused_together(photos: Path, done: Reconstructed, tmp_path: Path):
    with pytest.raises(BadInput, match=r"features\.h5 and the extractor opencv-sift both give features; leave one"):
        run(
            photos,
            tmp_path,
            features=Path(done.model) / "features.h5",
            settings=FeatureSettings(extractor="opencv-sift"),
        )


def test_features_without_the_size_of_the_photo_leave_its_centre_where_it_is(
    photos: Path, done: Reconstructed, tmp_path: Path
):
    theirs = tmp_path / "theirs.h5"
    with h5py.File(Path(done.model) / "features.h5") as ours, h5py.File(theirs, "w") as file:
        for name in ours:
            for key in ("keypoints", "descriptors"):
                file[f"{name}/{key}"] = ours[name][key][()]
    run(photos, tmp_path / "model", features=theirs)
    assert {photo.camera.size for photo in read_model(tmp_path / "model").photos} == {(400, 300)}


@pytest.mark.parametrize(("spoilt", "why"), [(np.nan, "NaN or infinite"), (None, "of sizes 128 and 64")])
def test_features_that_cannot_be_matched_are_told_before_they_are(
    photos: Path, done: Reconstructed, tmp_path: Path, spoilt: float | None, why: str
):
    theirs = tmp_path / "theirs.h5"
    with h5py.File(Path(done.model) / "features.h5") as ours, h5py.File(theirs, "w") as file:
        for name in ours:
            ours.copy(name, file)
        descriptors = file["2.png/descriptors"][()]
        del file["2.png/descriptors"]
        file["2.png/descriptors"] = descriptors[:64] if spoilt is None else descriptors * spoilt
    with pytest.raises(BadData, match=why):
        run(photos, tmp_path / "model", features=theirs)


def test_photos_of_one_exif_focal_length_share_a_camera(truth: synthetic.SyntheticScene, tmp_path: Path):
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0xA405] = 40  # mm on 35 mm film, 43.27 mm across
    for k, known in ((1, {"exif": exif}), (2, {"exif": exif}), (3, {})):
        Image.fromarray(truth.photos[k]).save(folder / f"{k}.jpg", quality=95, **known)
    run(folder, tmp_path / "model")
    with colmap.opened(tmp_path / "model" / "database.db") as store:
        by_exif, guessed = store.cameras().values()
    assert by_exif.known_focal
    assert not guessed.known_focal
    assert by_exif.params[0] == pytest.approx(40 / 43.27 * 500, rel=0.15)


@pytest.mark.parametrize("mapper", ["incremental", pytest.param("global", marks=has_global_mapper)])
def test_two_photos_are_enough(
    photos: Path, done: Reconstructed, truth: synthetic.SyntheticScene, tmp_path: Path, mapper: str
):
    folder = tmp_path / "photos"
    write(truth, range(1, 4, 2), folder)
    made = run(folder, tmp_path / "model", features=Path(done.model) / "features.h5", mapper=mapper)
    assert (made.registered, made.track_length) == (2, 2.0)


def test_two_photos_beside_one_of_something_else_are_enough(truth: synthetic.SyntheticScene, tmp_path: Path):
    folder = tmp_path / "photos"
    write(truth, range(1, 4, 2), folder)
    cv2.imwrite(str(folder / "z.png"), synthetic.texture((400, 300), seed=9))
    made = run(folder, tmp_path / "model")
    assert (made.registered, made.photos, made.track_length) == (2, 3, 2.0)


def test_shared_means_one_camera_for_all_photos_of_a_size(truth: synthetic.SyntheticScene, tmp_path: Path):
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    for k in (1, 2, 3):
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0xA405] = 35 + k
        Image.fromarray(truth.photos[k]).save(folder / f"{k}.jpg", quality=95, exif=exif)
    run(folder, tmp_path / "model", camera="shared")
    with colmap.opened(tmp_path / "model" / "database.db") as store:
        assert len(store.cameras()) == 1


# --- Folders that are no scene ---


def test_an_empty_folder_and_no_folder_are_told(tmp_path: Path):
    with pytest.raises(DataNotFound, match="no photos in"):
        run(tmp_path, tmp_path / "model")
    with pytest.raises(DataNotFound, match="no folder"):
        run(tmp_path / "none", tmp_path / "model")


def test_one_photo_is_no_model(truth: synthetic.SyntheticScene, tmp_path: Path):
    folder = tmp_path / "photos"
    write(truth, range(1), folder)
    with pytest.raises(NotReconstructed, match="two or more"):
        run(folder, tmp_path / "model")
    (folder / "broken.png").write_bytes(b"not a photo")
    with pytest.raises(NotReconstructed, match="only one photo can be read"):
        run(folder, tmp_path / "model")


def test_photos_of_different_things_are_told_in_one_sentence(tmp_path: Path, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    for k in range(3):
        cv2.imwrite(str(folder / f"{k}.png"), synthetic.texture((320, 240), seed=k))
    args = [
        "reconstruct",
        str(folder),
        "--out",
        str(tmp_path / "model"),
        "--model",
        "rootsift",
        "--max-keypoints",
        "500",
    ]
    assert main([*args, "--ratio", "0.85"]) == 2
    said = capsys.readouterr().err
    assert "0 of 3 pairs agree" in said
    assert said.count("\n") == 1


def test_the_same_photo_twice_is_not_said_to_lack_overlap_only(truth: synthetic.SyntheticScene, tmp_path: Path):
    folder = tmp_path / "photos"
    write(truth, range(1), folder)
    shutil.copy(folder / "0.png", folder / "copy.png")
    with pytest.raises(NotReconstructed, match="from one spot only: 1 of 1 pairs"):
        run(folder, tmp_path / "model")


def test_duplicates_and_photos_of_other_sizes_are_registered_where_they_belong(
    truth: synthetic.SyntheticScene, tmp_path: Path
):
    folder = tmp_path / "photos"
    write(truth, range(4), folder)
    shutil.copy(folder / "1.png", folder / "01.png")
    half = cv2.resize(truth.photos[4], None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(folder / "4.png"), half)
    (folder / "broken.jpg").write_bytes(b"")
    made = run(folder, tmp_path / "model")
    assert made.registered == 6
    assert made.photos == 7
    assert list(made.unreadable) == ["broken.jpg"]
    degrees, apart = errors(tmp_path / "model", truth)
    assert degrees < 0.2
    assert apart < 0.01


# --- The command ---


def test_the_command_tells_the_contract_and_bad_options_before_any_work(photos: Path, done: Reconstructed, capsys):
    args = ["reconstruct", str(photos), "--out", done.model, "--model", "rootsift", "--max-keypoints", "900"]
    assert main([*args, "--ratio", "0.85", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"registered", "photos", "points", "track_length", "reprojection_error", "model"} <= set(told)
    assert told["points"] == done.points
    for option in (["--camera", "PINHOLE,1"], ["--pairs", "sequins"], ["--ratio", "2"], ["--mapper", "local"]):
        assert main([*args, *option]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_without_a_model_and_a_file_that_is_no_database_are_told(tmp_path: Path):
    with pytest.raises(BadData, match="no COLMAP model"):
        read_model(tmp_path)
    (tmp_path / "database.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(BadData, match="not a COLMAP database"):
        colmap.read_funnel(tmp_path / "database.db")
