"""The lists that a matcher is judged on, from two small models of which one is known to be wrong in one photo."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pycolmap = pytest.importorskip("pycolmap")

from research import truth  # noqa: E402
from research.geometry import load, pairs  # noqa: E402
from research.scenes import apart, ordered, verified  # noqa: E402
from research.scenes_table import camera_rows, counts, is_split, models  # noqa: E402

SCENES = ("tmbud_022", "tmbud_061", "imc25_et", "imc25_another_et", "bundler_et", "sceaux_castle")


def model(points: int = 40) -> "pycolmap.Reconstruction":
    pycolmap.set_random_seed(0)
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_frames_per_rig, options.num_points3D = 1, 6, points
    return pycolmap.synthesize_dataset(options)


def moved(original: "pycolmap.Reconstruction", wrong: int | None = None) -> "pycolmap.Reconstruction":
    """The same in another frame of the world, and one camera turned by three degrees."""
    copy = pycolmap.Reconstruction(original)
    axis = np.array([0.2, -0.5, 0.8])
    copy.transform(pycolmap.Sim3d(2.0, pycolmap.Rotation3d(axis), np.array([1.0, 2.0, 3.0])))
    if wrong is not None:
        frame = copy.images[wrong].frame
        turned = pycolmap.Rigid3d(pycolmap.Rotation3d(np.radians([0, 3.0, 0])), np.zeros(3))
        frame.rig_from_world = turned * frame.rig_from_world
    return copy


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    ours, sift = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("sift")
    original = model()
    for name in SCENES:
        for folder, made in ((ours, original), (sift, moved(original, wrong=2 if name == "tmbud_061" else None))):
            (folder / name).mkdir()
            made.write(folder / name)
    return ours, sift


def rows(file: Path) -> list[dict]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_pairs_on_which_both_models_agree_are_kept_and_the_others_counted(folders, tmp_path):
    truth.make(*folders, tmp_path)
    kept = rows(tmp_path / "choosing_pairs.csv")
    by_scene = {name: [row for row in kept if row["scene"] == name] for name in SCENES}
    wrong = sorted(load(folders[1] / "tmbud_061").photos)[1]
    assert len(by_scene["tmbud_022"]) == 15
    assert len(by_scene["tmbud_061"]) == 10
    assert not [row for row in by_scene["tmbud_061"] if wrong in (row["a"], row["b"])]
    assert "| tmbud_061 | 15 | 0 | 5 | 10 |" in (tmp_path / "truth.md").read_text()


def test_pairs_of_a_smaller_model_count_and_pairs_across_models_do_not(folders, tmp_path):
    half, rest = moved(model()), moved(model())
    names = sorted(image.name for image in half.images.values())
    for part, photos in ((half, names[:4]), (rest, names[4:])):
        for image in [*part.images.values()]:
            if image.name not in photos:
                part.deregister_frame(image.frame_id)
    (tmp_path / "1").mkdir()
    half.write(tmp_path)
    rest.write(tmp_path / "1")
    scene = load(folders[0] / "tmbud_022")
    found, missing = truth.compared(scene, truth.every_model(tmp_path))
    assert (len(found), missing) == (6 + 1, 8)
    assert all(truth.agrees(known) for known in found)


def test_pose_in_the_list_carries_a_point_from_one_camera_to_the_other(folders, tmp_path):
    truth.make(*folders, tmp_path)
    scene = load(folders[0] / "sceaux_castle")
    row = next(row for row in rows(tmp_path / "choosing_pairs.csv") if row["scene"] == "sceaux_castle")
    a, b = scene.photos[row["a"]], scene.photos[row["b"]]
    R = pycolmap.Rotation3d(np.array([row[key] for key in ("qx", "qy", "qz", "qw")], float)).matrix()
    direction = np.array([row[key] for key in ("tx", "ty", "tz")], float)
    there = scene.xyz @ b.R.T + b.t
    by_row = (scene.xyz @ a.R.T + a.t) @ R.T
    np.testing.assert_allclose(np.cross(there - by_row, direction), 0, atol=1e-4)
    assert np.linalg.norm(direction) == pytest.approx(1)


def test_hard_pairs_are_within_the_bounds_at_most_sixty_a_scene_and_the_same_each_time(folders, monkeypatch):
    monkeypatch.setattr(truth, "MOST", 4)
    scene = load(folders[0] / "tmbud_022")
    known, missing = truth.compared(scene, [scene])
    assert missing == 0
    drawn = truth.hard(known, 15, 60)
    assert len(drawn) == 4
    assert drawn == truth.hard(known, 15, 60)
    assert all(15 <= each.pair.shared <= 60 and each.pair.angle > truth.PARALLAX for each in drawn)
    assert truth.hard(known, 61, 100) == []


def test_pairs_within_the_narrow_bounds_come_before_wider_ones(folders, monkeypatch):
    monkeypatch.setattr(truth, "MOST", 1)
    scene = load(folders[0] / "tmbud_022")
    known, _ = truth.compared(scene, [scene])
    for each in known[:-1]:
        object.__setattr__(each.pair, "shared", 80)
    object.__setattr__(known[-1].pair, "shared", 30)
    assert truth.hard(known, 10, 100) == [known[-1]]


def test_photos_of_one_place_never_are_a_pair_of_different_places(folders, tmp_path):
    truth.make(*folders, tmp_path)
    found = rows(tmp_path / "different_places.csv")
    scenes = {(row["scene_a"], row["scene_b"]) for row in found}
    assert all(a != b for a, b in scenes)
    assert not [pair for pair in scenes if "bundler_et" in pair]  # the photos of imc25_et
    alike = {pair: {row["alike"] for row in found if (row["scene_a"], row["scene_b"]) == pair} for pair in scenes}
    assert alike["imc25_another_et", "imc25_et"] == {"figures"}
    assert alike["tmbud_022", "tmbud_061"] == {"facades"}
    assert alike["imc25_et", "sceaux_castle"] == {""}


def test_bundler_et_is_kept_out_of_the_hard_list(folders):
    scene = load(folders[0] / "bundler_et")
    known, _ = truth.compared(scene, [scene])
    assert known
    assert truth.hard(known, 1, 1000) == []


def test_committed_lists_name_photos_that_have_a_camera():
    research = Path(truth.__file__).parent
    cameras = {(row["scene"], row["photo"]) for row in rows(research / "cameras.csv")}
    hard, known = rows(research / "hard_pairs.csv"), rows(research / "choosing_pairs.csv")
    assert {(row["scene"], row[end]) for row in known for end in "ab"} <= cameras
    assert {(row["scene"], row["a"], row["b"]) for row in hard} <= {(row["scene"], row["a"], row["b"]) for row in known}
    assert {row["scene"] for row in known} <= set(apart())
    assert len(rows(research / "different_places.csv")) >= 2000


def test_scenes_that_are_kept_apart_come_first_and_the_largest_last(tmp_path):
    for name, photos in (("zju_theater_daynight", 100), ("conch", 3), ("aaa", 5), ("tmbud_022", 8)):
        (tmp_path / name).mkdir()
        for number in range(photos):
            (tmp_path / name / f"{number}.jpg").touch()
    assert ordered(tmp_path) == ["tmbud_022", "conch", "aaa", "zju_theater_daynight"]
    assert len(apart()) == len(set(apart())) == 19


def test_row_of_a_camera_gives_back_the_camera(folders):
    scene = load(folders[0] / "sceaux_castle")
    row = camera_rows(scene)[0]
    photo = scene.photos[row[1]]
    camera = pycolmap.Camera(model=row[2], width=row[3], height=row[4], params=[float(x) for x in row[5].split()])
    np.testing.assert_allclose(camera.params, photo.camera.params, rtol=1e-7)
    w, x, y, z, *t = map(float, row[6:])
    np.testing.assert_allclose(pycolmap.Rotation3d(np.array([x, y, z, w])).matrix(), photo.R, atol=1e-6)
    np.testing.assert_allclose(t, photo.t, rtol=1e-6)


def test_every_pair_is_counted_once_by_share_and_once_by_angle(folders):
    found = pairs(load(folders[0] / "sceaux_castle"))
    counted = counts(found)
    assert counted["pairs"] + counted["fewer points"] == len(found) == 15
    assert sum(counted[key] for key in ("share under 10%", "10 to 30%", "over 30%")) == counted["pairs"]
    assert sum(counted[key] for key in ("angle under 4", "4 to 15", "15 to 30", "over 30")) == counted["pairs"]


def test_scene_in_two_models_counts_as_split(tmp_path):
    database = pycolmap.Database.open(tmp_path / "database.db")
    for seed in (1, 2):  # two scenes without a common point in one database
        pycolmap.set_random_seed(seed)
        options = pycolmap.SyntheticDatasetOptions()
        options.num_rigs, options.num_frames_per_rig, options.num_points3D = 1, 5, 150
        pycolmap.synthesize_dataset(options, database)
    database.close()
    assert models(tmp_path) == [5, 5]
    assert (tmp_path / "models.json").exists()
    assert is_split({"models": 2, "registered": 10, "photos": 10})
    assert is_split({"models": 1, "registered": 7, "photos": 10})
    assert not is_split({"models": 1, "registered": 8, "photos": 10})


def test_pairs_that_were_verified_are_listed_by_name(tmp_path):
    with_pairs = pycolmap.Database.open(tmp_path / "database.db")
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_frames_per_rig, options.num_points3D = 1, 3, 60
    made = pycolmap.synthesize_dataset(options, with_pairs)
    with_pairs.close()
    names = sorted(image.name for image in made.images.values())
    listed = {tuple(sorted(line.split())) for line in verified(tmp_path / "database.db").splitlines()}
    assert listed == {(names[0], names[1]), (names[0], names[2]), (names[1], names[2])}


def test_a_folder_without_models_leaves_the_lists_alone(folders, tmp_path):
    lists = [truth.HERE / name for name in ("choosing_pairs.csv", "hard_pairs.csv", "different_places.csv", "truth.md")]
    before = [file.read_bytes() for file in lists]
    command = [sys.executable, "-m", "research.truth", str(folders[0]), str(tmp_path)]
    ran = subprocess.run(command, cwd=truth.HERE.parent, capture_output=True, text=True)
    assert ran.returncode == 2
    assert f"{tmp_path} has no model of a choosing scene" in ran.stderr
    assert [file.read_bytes() for file in lists] == before
