"""Photos with homographies and photos with cameras, in the layouts people have them in."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from PIL import Image

from hynet.datasets import scenes, sequences
from hynet.errors import BadData, DataNotFound
from hynet.geometry import two_views


def grey(path, size=(60, 40)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, 128).save(path)


def turn(degrees):
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


K = np.array([[3000.0, 0, 1500.5], [0, 3010.0, 1000.25], [0, 0, 1]])


# --- sequences ------------------------------------------------------------------------------------------------------


def test_a_sequence_has_as_many_pairs_as_homographies(tmp_path):
    H = np.array([[1, 0.1, 5], [0, 1.2, -3], [0, 0, 1.0]])
    for k in (1, 2, 3, 4):
        grey(tmp_path / "wall" / f"{k}.png")
    np.savetxt(tmp_path / "wall" / "H_1_2", H)
    np.savetxt(tmp_path / "wall" / "H1to3p", 2 * H)
    (wall,) = sequences.load(tmp_path)
    assert (wall.name, [photo.name for photo in wall.photos]) == ("wall", ["1.png", "2.png", "3.png"])
    np.testing.assert_allclose(wall.homographies, [H, H])
    assert [each.name for each in sequences.load(tmp_path / "wall")] == ["wall"]


def test_a_sequence_without_a_photo_it_names_is_told(tmp_path):
    grey(tmp_path / "wall" / "1.png")
    with pytest.raises(DataNotFound, match="H_1_2"):
        sequences.load(tmp_path)
    np.savetxt(tmp_path / "wall" / "H_1_2", np.eye(3))
    with pytest.raises(DataNotFound, match="no photo 2"):
        sequences.load(tmp_path)
    grey(tmp_path / "wall" / "2.png")
    (tmp_path / "wall" / "H_1_2").write_text("1 2 three")
    with pytest.raises(BadData, match="3 x 3"):
        sequences.load(tmp_path)


def test_a_folder_without_sequences_is_told(tmp_path):
    with pytest.raises(DataNotFound, match="SEQUENCE/1"):
        sequences.load(tmp_path)


# --- the challenge's scenes -----------------------------------------------------------------------------------------


def challenge(folder, names, listed=None):
    rng = np.random.default_rng(0)
    for number, name in enumerate(names):
        grey(folder / "images" / f"{name}.jpg")
        (folder / "calibration").mkdir(exist_ok=True)
        with h5py.File(folder / "calibration" / f"calibration_{name}.h5", "w") as file:
            file["K"], file["R"], file["T"] = K, turn(10 * number), rng.normal(size=(3, 1))
    if listed is not None:
        (folder / "new-vis-pairs").mkdir()
        np.save(folder / "new-vis-pairs" / "keys-th-0.1.npy", np.array(listed))


def test_a_scene_of_the_challenge_has_its_listed_pairs(tmp_path):
    challenge(tmp_path / "reichstag" / "set_100", ["1_1", "2_2", "3_3"], ["3_3-1_1", "2_2-1_1", "9_9-1_1"])
    (scene,) = scenes.load(tmp_path)
    assert (scene.name, scene.all_pairs) == ("reichstag", False)
    assert scene.pairs == [("3_3", "1_1"), ("2_2", "1_1")]
    np.testing.assert_array_equal(scene.views["2_2"].K, K)


def test_without_a_list_all_pairs_count(tmp_path):
    challenge(tmp_path, ["a", "b", "c"])
    (scene,) = scenes.load(tmp_path)
    assert scene.all_pairs
    assert len(scene.pairs) == 3


def test_the_second_camera_from_the_first_takes_points_from_one_to_the_other(tmp_path):
    challenge(tmp_path, ["a", "b"])
    a, b = scenes.load(tmp_path)[0].views.values()
    world = np.array([1.0, 2.0, 3.0])
    in_a, in_b = (v.cam_from_world.rotation @ world + v.cam_from_world.translation for v in (a, b))
    pose = scenes.second_from_first(a.cam_from_world, b.cam_from_world)
    np.testing.assert_allclose(pose.rotation @ in_a + pose.translation, in_b)


def test_photos_beside_their_cameras_are_a_scene(tmp_path):
    challenge(tmp_path / "x", ["a", "b"])
    (tmp_path / "flat").mkdir()
    for file in (tmp_path / "x").rglob("*.*"):
        file.rename(tmp_path / "flat" / file.name)
    (scene,) = scenes.load(tmp_path / "flat")
    assert (scene.name, list(scene.views)) == ("flat", ["a", "b"])


def test_what_is_missing_or_broken_is_told(tmp_path):
    with pytest.raises(DataNotFound, match="calibration"):
        scenes.load(tmp_path)
    challenge(tmp_path, ["a", "b"])
    (tmp_path / "images" / "a.jpg").unlink()
    with pytest.raises(BadData, match="one photo a "):
        scenes.load(tmp_path)
    grey(tmp_path / "images" / "a.jpg")
    with h5py.File(tmp_path / "calibration" / "calibration_a.h5", "w") as file:
        file["K"] = K
    with pytest.raises(BadData, match="calibration of the challenge"):
        scenes.load(tmp_path)


# --- Strecha's ------------------------------------------------------------------------------------------------------


def strecha(folder, centre, size=(3072, 2048), distortion="0 0 0"):
    grey(folder / "images" / "0000.jpg", (1536, 1024))
    (folder / "cameras").mkdir(exist_ok=True)
    world_from_cam = turn(30).T
    rows = [*K, distortion, *world_from_cam, centre, size]
    text = "\n".join(row if isinstance(row, str) else " ".join(f"{value:.9g}" for value in row) for row in rows)
    (folder / "cameras" / "0000.jpg.camera").write_text(text + "\n")


def test_a_camera_of_the_original_size_fits_the_smaller_photo(tmp_path):
    strecha(tmp_path, centre=(1, 2, 3))
    grey(tmp_path / "images" / "0001.jpg", (1536, 1024))
    text = (tmp_path / "cameras" / "0000.jpg.camera").read_text()
    (tmp_path / "cameras" / "0001.jpg.camera").write_text(text)
    view = scenes.load(tmp_path)[0].views["0000"]
    pose = view.cam_from_world
    np.testing.assert_allclose(pose.rotation @ [1, 2, 3] + pose.translation, 0, atol=1e-9)
    # A point on the optical axis of a pixel's centre: the middle of four original pixels is the centre of a small one.
    ray = np.linalg.inv(K) @ [100.5, 60.5, 1]
    np.testing.assert_allclose(two_views.transfer(view.K, (ray / ray[2])[None, :2]), [[50, 30]], atol=1e-6)


@pytest.mark.parametrize("centre", [(1e308, 1e308, 1e308), (np.nan, 0, 0)])
def test_a_camera_beyond_all_bounds_is_none(tmp_path, centre):
    strecha(tmp_path, centre=centre)
    with pytest.raises(BadData, match=r"no \.camera file"):
        scenes.load(tmp_path)


def test_a_photo_of_another_shape_or_a_bent_lens_is_told(tmp_path):
    strecha(tmp_path, centre=(1, 2, 3), size=(2048, 3072))
    with pytest.raises(BadData, match="another shape"):
        scenes.load(tmp_path)
    strecha(tmp_path, centre=(1, 2, 3), distortion="0.1 0 0")
    with pytest.raises(BadData, match="distortion"):
        scenes.load(tmp_path)
    (tmp_path / "cameras" / "0000.jpg.camera").write_text("1 2 3\n")
    with pytest.raises(BadData, match=r"no \.camera file"):
        scenes.load(tmp_path)
