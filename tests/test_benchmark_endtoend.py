"""Homographies and poses: known answers on made scenes, who takes part, and what is remembered."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from hynet.benchmarks import BENCHMARKS
from hynet.cli import main
from hynet.datasets import scenes, synthetic
from hynet.datasets.scenes import View
from hynet.descriptors import DESCRIPTORS
from hynet.errors import BadData, BadInput
from hynet.evaluation import homography, methods, papers
from hynet.evaluation.contestants import Contestant
from hynet.evaluation.imc.evaluate import multiview, stereo
from hynet.evaluation.methods import DetectorOptions, Protocol
from hynet.geometry import two_views
from hynet.geometry.two_views import Pose
from hynet.matching.nearest import match
from hynet.types import Descriptor, Features, Keypoints


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path))
    return path


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def features(xy, descriptors, size=(320, 240), ratio=None):
    ones = np.ones(len(xy))
    return Features(Keypoints.from_circles(xy, ones, 0 * ones, ones), unit(descriptors), size, ratio)


def write_h5(path, named):
    """name -> Features, as hloc writes them."""
    with h5py.File(path, "w") as file:
        for name, each in named.items():
            file[f"{name}/keypoints"] = each.keypoints.xy
            file[f"{name}/descriptors"] = each.descriptors.T.astype(np.float16)
            file[f"{name}/scores"] = each.keypoints.scores
            file[f"{name}/image_size"] = each.image_size


# --- homography -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sequences(tmp_path_factory):
    """Two sequences of two photos, and features that sit exactly where the homography says."""
    root = tmp_path_factory.mktemp("sequences")
    rng = np.random.default_rng(0)
    right, wrong = {}, {}
    for seed, name in enumerate(("graf", "wall")):
        first, second, H = synthetic.photo_pair(seed, (320, 240))
        (root / name).mkdir()
        cv2.imwrite(str(root / name / "1.png"), first)
        cv2.imwrite(str(root / name / "2.png"), second)
        np.savetxt(root / name / "H_1_2", H)
        xy = rng.uniform(20, 220, (400, 2))
        there = two_views.transfer(H, xy)
        xy = xy[np.all((there > 0) & (there < [319, 239]), axis=1)][:200]
        rows = rng.normal(size=(200, 32))
        right[f"{name}/1.png"] = wrong[f"{name}/1.png"] = features(xy, rows)
        right[f"{name}/2.png"] = features(two_views.transfer(H, xy), rows)
        wrong[f"{name}/2.png"] = features(rng.uniform(20, 220, (200, 2)), rows)
    write_h5(root / "right.h5", right)
    write_h5(root / "wrong.h5", wrong)
    return root


def test_features_that_sit_right_are_perfect_and_others_are_not(sequences):
    files = (sequences / "right.h5", sequences / "wrong.h5")
    found = BENCHMARKS["homography"]([], sequences, features=files, against="wrong")
    right, wrong = found.rows["right"], found.rows["wrong"]
    assert right["mma1"] == right["mma10"] == right["repeatability"] == 100
    assert right["auc3"] > 99
    assert (right["correct"], right["matches"]) == (200, 200)
    assert (wrong["auc10"], wrong["matches"]) == (0, 200)
    assert wrong["mma3"] < 5
    (better,) = [each for each in found.comparisons if each.column == "mma3" and each.method == "right"]
    assert better.interval[0] > 90


def test_descriptors_share_their_keypoints_and_sanity_rows_score_nothing(sequences):
    found = BENCHMARKS["homography"](["rootsift", "beblid"], sequences, max_keypoints=300)
    assert list(found.rows) == ["rootsift", "beblid", "random", "constant"]
    assert len({row["repeatability"] for row in found.rows.values()}) == 1
    assert found.rows["rootsift"]["mma3"] > 50
    assert found.rows["rootsift"]["auc5"] > 50
    assert found.rows["random"]["auc5"] < 20
    assert found.rows["constant"]["mma10"] == 0
    low, high = found.intervals["rootsift"]["mma3"]
    assert low <= found.rows["rootsift"]["mma3"] <= high
    assert len(found.details["sequences"]["beblid"]["wall"]["mma3"]) == 1


def test_planes_are_matched_by_the_strongest_keypoints_unless_asked_otherwise(sequences):
    usual, anywhere, spread = (
        BENCHMARKS["homography"](["rootsift"], sequences, max_keypoints=60, **how).rows["rootsift"]
        for how in ({}, {"spread": False}, {"spread": True})
    )
    assert usual == anywhere
    assert usual["repeatability"] != spread["repeatability"]
    keynet, spread_keynet = (
        BENCHMARKS["homography"](["keynet+rootsift"], sequences, max_keypoints=60, spread=each).rows["keynet+rootsift"]
        for each in (False, True)
    )
    assert keynet == spread_keynet


def test_sequences_named_as_hpatches_names_them_are_also_told_apart(sequences, tmp_path):
    shutil.copytree(sequences / "graf", tmp_path / "v_graf")
    shutil.copytree(sequences / "wall", tmp_path / "i_wall")
    found = BENCHMARKS["homography"](["rootsift"], tmp_path, max_keypoints=100)
    row, per = found.rows["rootsift"], found.details["sequences"]["rootsift"]
    assert row["mma3_illumination"] == pytest.approx(np.mean(per["i_wall"]["mma3"]), abs=1e-3)
    assert row["mma3_viewpoint"] == pytest.approx(np.mean(per["v_graf"]["mma3"]), abs=1e-3)
    assert row["mma3_viewpoint"] != row["mma3_illumination"]
    assert "mma3_viewpoint" not in BENCHMARKS["homography"](["rootsift"], sequences, max_keypoints=100).rows["rootsift"]


def test_two_detectors_give_two_rows_a_model(sequences):
    found = BENCHMARKS["homography"](["rootsift"], sequences, detector=("dog", "keynet"), max_keypoints=100)
    assert list(found.rows)[:2] == ["dog+rootsift", "keynet+rootsift"]
    assert {(one.method, one.rival) for one in found.comparisons} == {("keynet+rootsift", "dog+rootsift")}


@given(seed=st.integers(0, 10_000), count=st.integers(0, 30))
@settings(max_examples=20, deadline=None)
def test_matching_accuracy_is_what_a_loop_counts(seed, count):
    rng = np.random.default_rng(seed)
    H = np.array([[1.1, 0.1, -9], [-0.05, 0.9, 7], [1e-4, -2e-4, 1]])
    xy, rows = rng.uniform(0, 300, (count, 2)), np.eye(max(count, 1))[:count]  # each is its partner's nearest
    there = two_views.transfer(H, xy) + rng.normal(scale=4, size=(count, 2))
    found_here, found_there = features(xy, rows), features(there, rows)
    scores = homography._scores(found_here, found_there, H, match(found_here, found_there, ratio=1.0))
    for pixels in homography.PIXELS:
        near = 0
        for here, found in zip(xy.astype(np.float32), there.astype(np.float32), strict=True):
            x, y, w = H @ [*here, 1.0]
            near += np.hypot(x / w - found[0], y / w - found[1]) <= pixels
        matched = count >= 4  # fewer do not fix a homography
        assert scores[f"mma{pixels}"] == pytest.approx(100 * near / count if matched else 0)
    assert scores["matches"] == count


@given(seed=st.integers(0, 10_000), counts=st.tuples(st.integers(0, 12), st.integers(0, 12)))
@settings(max_examples=30, deadline=None)
def test_repeatability_is_what_a_loop_counts(seed, counts):
    rng = np.random.default_rng(seed)
    H = np.array([[1.1, 0.1, -9], [-0.05, 0.9, 7], [1e-4, -2e-4, 1]])
    a, b = (features(rng.uniform(-2, 40, (count, 2)), np.ones((count, 2)), (38, 36)) for count in counts)

    def found_again(first, second, there):
        moved = [two_views.transfer(there, xy[None])[0] for xy in first.keypoints.xy]
        back = [two_views.transfer(np.linalg.inv(there), xy[None])[0] for xy in second.keypoints.xy]
        seen = [point for point in moved if 0 <= point[0] <= 37 and 0 <= point[1] <= 35]
        others = [xy for xy, at in zip(second.keypoints.xy, back, strict=True) if 0 <= at[0] <= 37 and 0 <= at[1] <= 35]
        near = [any(np.hypot(*(point - other)) <= homography.RIGHT for other in others) for point in seen]
        return sum(near), len(near)

    (there, seen), (back, seen_back) = found_again(a, b, H), found_again(b, a, np.linalg.inv(H))
    expected = (there + back) / (seen + seen_back) if seen and seen_back else 0
    assert homography.repeatability(a, b, H) == pytest.approx(expected)


def test_the_second_run_describes_nothing(sequences):
    class Counting(Descriptor):
        patch_size, dim = 32, 128
        described = 0

        def describe(self, patches):
            Counting.described += len(patches)
            return DESCRIPTORS["rootsift"]().describe(patches)

    model = Contestant("counting", Counting(), fingerprint="counting")
    first = BENCHMARKS["homography"]([model], sequences, max_keypoints=100)
    before = Counting.described
    assert BENCHMARKS["homography"]([model], sequences, max_keypoints=100).rows == first.rows
    assert Counting.described == before > 0


def test_no_features_at_all_are_an_answer(tmp_path, sequences):
    nothing = features(np.zeros((0, 2)), np.zeros((0, 32)))
    write_h5(tmp_path / "none.h5", {f"{s}/{k}.png": nothing for s in ("graf", "wall") for k in (1, 2)})
    row = BENCHMARKS["homography"]([], sequences, features=(tmp_path / "none.h5",)).rows["none"]
    assert row["mma3"] == row["auc5"] == row["correct"] == row["repeatability"] == 0


def test_the_command_writes_what_the_contract_says(sequences, tmp_path, capsys):
    args = ["evaluate", "homography", "--model", "opencv-sift", "--data", str(sequences), "--max-keypoints", "200"]
    assert main([*args, "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"mma3", "auc5", "correct"} <= set(told["rows"]["opencv-sift"])
    assert {"mma3", "auc5", "correct"} <= set(told["intervals"]["opencv-sift"])
    assert (tmp_path / "out" / "homography.md").exists()


def test_the_corner_error_is_the_mean_over_four_corners():
    xy = np.random.default_rng(0).uniform(0, 200, (50, 2))
    moved = np.array([[1, 0, 3], [0, 1, 4], [0, 0, 1.0]])  # every corner 5 pixels away
    errors = homography.corner_errors(xy, two_views.transfer(moved, xy), np.eye(3), (200, 100))
    np.testing.assert_allclose(errors, 5, atol=0.01)


# --- imc ------------------------------------------------------------------------------------------------------------


def write_scene(root, seed=0, photos=3):
    """Cameras around 300 points, exact features, and the same with every row of a photo another's."""
    rng = np.random.default_rng(seed)
    (root / "images").mkdir(parents=True)
    (root / "calibration").mkdir()
    right, wrong = {}, {}
    rows = rng.normal(size=(300, 32))
    K = np.array([[300, 0, 159.5], [0, 300, 119.5], [0, 0, 1.0]])
    world = rng.uniform([-1, -1, 3], [1, 1, 6], (300, 3))
    for k in range(photos):
        angle = np.radians(8 * k)
        R = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
        T = np.array([-0.5 * k, 0.1 * k, 0.2 * k])
        seen = (world @ R.T + T) @ K.T
        cv2.imwrite(str(root / "images" / f"{k}.png"), synthetic.texture((320, 240), seed + k))
        with h5py.File(root / "calibration" / f"calibration_{k}.h5", "w") as file:
            file["K"], file["R"], file["T"] = K, R, T
        right[f"{k}.png"] = features(seen[:, :2] / seen[:, 2:], rows)
        wrong[f"{k}.png"] = features(seen[:, :2] / seen[:, 2:], rng.permutation(rows))
    write_h5(root / "right.h5", right)
    write_h5(root / "wrong.h5", wrong)
    return root


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scenes") / "tower")


def test_exact_features_give_exact_poses_and_shuffled_ones_none(scene):
    found = BENCHMARKS["imc"]([], scene, features=(scene / "right.h5", scene / "wrong.h5"), against="wrong")
    assert found.rows["right"]["maa10"] == 100
    assert found.rows["wrong"]["maa10"] < 40
    assert found.rows["random"]["maa10"] == found.rows["constant"]["maa10"] == 0
    assert max(max(pair) for pair in found.details["errors"]["right"]["tower"]) < 0.2
    (better,) = found.comparisons
    assert better.difference == pytest.approx(100 - found.rows["wrong"]["maa10"])
    assert found.paper is None
    assert "Key.Net + HyNet 64.07" in found.notes[-1]


def test_the_papers_poses_stand_beside_its_own_scenes_only():
    whole = {f"imc/{name}": 100 for name in papers.IMC_SCENES}
    assert papers.is_imc(whole)
    assert not papers.is_imc(dict(list(whole.items())[:2]))
    assert not papers.is_imc(whole | {"imc/reichstag": 1})


def test_a_pose_whose_points_are_all_farther_than_fifty_baselines_is_scored_as_opencv_finds_it():
    rng = np.random.default_rng(0)
    points = rng.uniform((-300, -300, 900), (300, 300, 1100), (60, 3))  # baseline 1
    K = np.array([[800.0, 0, 320], [0, 800, 240], [0, 0, 1]])
    moved = Pose(np.eye(3), np.array([1.0, 0, 0]))
    seen = [(points + shift) @ K.T for shift in (0, moved.translation)]
    a, b = (each[:, :2] / each[:, 2:] for each in seen)
    views = View(Path("a"), K, Pose(np.eye(3), np.zeros(3))), View(Path("b"), K, moved)
    F = reference.fundamental_from_pose(moved, K, K)
    in_front, rotation, translation, _ = cv2.recoverPose(K.T @ F @ K, two_views.rays(a, K), two_views.rays(b, K))
    assert in_front == 0  # what it would reject
    found = two_views.pose_from_fundamental(F, a, b, first_K=K, second_K=K)
    assert two_views.pose_error(found, Pose(rotation, translation[:, 0])) == 0
    assert stereo.pose_errors(a, b, views, seeds=1)[0] != stereo.FAILED


def test_poses_of_fitted_fundamental_matrices_are_nearer_to_the_truth():
    random = np.random.default_rng(1)
    points = random.uniform((-2, -2, 4), (2, 2, 9), (300, 3))
    moved = Pose(cv2.Rodrigues(np.array([0.0, 0.2, 0.05]))[0], np.array([-1.0, 0.1, 0.2]))
    K = np.array([[800.0, 0, 320], [0, 800, 240], [0, 0, 1]])
    seen = points @ K.T, (points @ moved.rotation.T + moved.translation) @ K.T
    a, b = (each[:, :2] / each[:, 2:] + random.normal(0, 0.3, (300, 2)) for each in seen)
    views = View(Path("a"), K, Pose(np.eye(3), np.zeros(3))), View(Path("b"), K, moved)
    challenge, fitted = (np.mean(stereo.pose_errors(a, b, views, seeds=5, fitted=each)) for each in (False, True))
    assert fitted < 0.8 * challenge


def test_known_cameras_give_the_pose_of_points_on_a_plane_and_wrong_ones_do_not():
    """A plane leaves the fundamental matrix open, so that the cameras must have been used."""
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(-2, 2, (80, 2)), np.zeros(80)])
    points[:, 2] = 6 + 0.5 * points[:, 0]
    turned = cv2.Rodrigues(np.array([0.0, 0.2, 0.05]))[0]
    moved = Pose(turned, np.array([-1.0, 0.1, 0.2]))
    K = np.array([[800.0, 0, 320], [0, 800, 240], [0, 0, 1]])
    seen = points @ K.T, (points @ turned.T + moved.translation) @ K.T
    a, b = (each[:, :2] / each[:, 2:] for each in seen)
    b[60:] = rng.uniform(0, 600, (20, 2))  # wrong matches

    def error(focal: float) -> float:
        camera = np.diag([focal, focal, 1.0]) + np.array([[0, 0, 320.0], [0, 0, 240], [0, 0, 0]])
        views = View(Path("a"), camera, Pose(np.eye(3), np.zeros(3))), View(Path("b"), camera, moved)
        return stereo.pose_errors(a, b, views, seeds=1, known_cameras=True)[0]

    assert error(800) < 0.1
    assert error(1600) > 1


def test_scenes_count_alike(tmp_path):
    write_scene(tmp_path / "a", seed=1)
    write_scene(tmp_path / "b", seed=2)
    named = {f"{s}/images/{k}.png": s for s in "ab" for k in range(3)}
    mixed = {}
    for name, source in named.items():
        with h5py.File(tmp_path / source / ("right.h5" if source == "a" else "wrong.h5")) as file:
            group = file[name.rsplit("/", 1)[1]]
            mixed[name] = features(np.array(group["keypoints"]), np.array(group["descriptors"]).T.astype(np.float32))
    write_h5(tmp_path / "mixed.h5", mixed)
    row = BENCHMARKS["imc"]([], tmp_path, features=(tmp_path / "mixed.h5",)).rows["mixed"]
    assert row["a"] == 100
    assert row["maa10"] == pytest.approx((row["a"] + row["b"]) / 2)


def test_no_features_fail_and_do_not_break(scene, tmp_path):
    nothing = features(np.zeros((0, 2)), np.zeros((0, 32)))
    write_h5(tmp_path / "none.h5", {f"{k}.png": nothing for k in range(3)})
    assert BENCHMARKS["imc"]([], scene, features=(tmp_path / "none.h5",)).rows["none"]["maa10"] == 0


@given(seed=st.integers(0, 1000), ratio=st.floats(0.5, 1.0), counts=st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_the_ratio_test_in_both_directions_is_the_loops(seed, ratio, counts):
    rng = np.random.default_rng(seed)
    a, b = (features(rng.uniform(0, 99, (count, 2)), rng.normal(size=(count, 3))) for count in counts)
    apart = np.linalg.norm(a.descriptors[:, None] - b.descriptors[None], axis=2)

    def chosen(distances, k):
        order = np.argsort(distances[k])
        alone = len(order) == 1
        return order[0] if alone or distances[k, order[0]] <= ratio * distances[k, order[1]] else None

    slow = [
        (i, chosen(apart, i))
        for i in range(len(apart))
        if chosen(apart, i) is not None and chosen(apart.T, chosen(apart, i)) == i
    ]
    assert [tuple(pair) for pair in stereo.matches_both_ways(a, b, ratio)] == slow


def test_one_place_found_twice_is_matched_once():
    xy = np.array([[5.0, 5.0], [5.0, 5.0], [50.0, 9.0]])
    both = features(xy, np.eye(3))
    assert len(stereo.matches_both_ways(both, both, 0.9)) == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--ratio", "1.5"],
        ["--seeds", "0"],
        ["--detector", "eyes"],
        ["--detector"],
        ["--model", "nobody"],
        ["--against", "me"],
        ["--known-cameras", "--against", "me"],
    ],
)
def test_bad_options_leave_with_code_two(scene, options, capsys):
    assert main(["evaluate", "imc", "--data", str(scene), *options]) == 2
    assert capsys.readouterr().err.startswith("hynet: ")


def test_bags_of_exact_features_are_reconstructed_and_shuffled_ones_fail(tmp_path):
    write_scene(tmp_path / "tower", photos=6)
    files = (tmp_path / "tower" / "right.h5", tmp_path / "tower" / "wrong.h5")
    found = BENCHMARKS["imc"]([], tmp_path, task="multiview", bags=1, features=files, against="wrong")
    assert found.rows["right"]["maa10"] > 80
    assert found.rows["wrong"]["maa10"] == 0
    assert found.benchmark == "imc-multiview"
    assert any("all pairs are matched, without a list" in note for note in found.notes)


def test_both_tasks_have_a_column_each_and_their_average(tmp_path):
    write_scene(tmp_path / "tower", photos=6)
    files = (tmp_path / "tower" / "right.h5", tmp_path / "tower" / "wrong.h5")
    found = BENCHMARKS["imc"]([], tmp_path, task="both", bags=1, features=files, against="wrong")
    right = found.rows["right"]
    assert list(found.columns) == ["maa10", "stereo", "multiview"]
    assert right["maa10"] == pytest.approx((right["stereo"] + right["multiview"]) / 2)
    low, high = found.intervals["right"]["maa10"]
    assert low <= right["maa10"] <= high
    assert {one.column for one in found.comparisons} == {"maa10", "stereo", "multiview"}
    assert "Key.Net + HyNet 69.46, 64.07, 74.84" in found.notes[-1]


def test_a_bag_is_matched_where_photos_are_listed_as_seeing_the_same(tmp_path):
    folder = write_scene(tmp_path / "tower", photos=6)
    bag = ("0", "1", "2", "4")
    assert len(multiview.pairs_to_match(scenes.load(tmp_path)[0], bag)) == 6
    np.save(folder / "keys-th-0.1.npy", ["1-0", "2-4", "3-5"])
    assert multiview.pairs_to_match(scenes.load(tmp_path)[0], bag) == [("0", "1"), ("2", "4")]


def test_two_photos_are_no_model_of_a_bag(tmp_path):
    folder = write_scene(tmp_path / "tower", photos=6)
    np.save(folder / "keys-th-0.1.npy", ["0-1"])  # only these two can be joined
    (tower,) = scenes.load(tmp_path)
    *_, exact = methods.open_methods(
        [], Protocol(), files=[folder / "right.h5"], photos=[v.photo for v in tower.views.values()]
    )
    assert multiview.bag_credits(exact, tower, ("0", "1", "2", "3", "4"), 0.9) == 0


def test_listed_bags_come_before_drawn_ones(tmp_path):
    folder = write_scene(tmp_path / "tower", photos=6)
    (scene,) = scenes.load(tmp_path)
    drawn = multiview.chosen_bags(scene, 3)
    assert [len(bag) for bag in drawn[5]] == [5, 5, 5]
    assert len(set(drawn[5])) == 3
    (folder / "sub_set").mkdir()
    (folder / "sub_set" / "5bag_000.txt").write_text(
        "images/0.png\nimages/1.png\nimages/2.png\nimages/3.png\nimages/5.png\n"
    )
    assert multiview.chosen_bags(scenes.load(tmp_path)[0], None) == {5: [("0", "1", "2", "3", "5")]}


def test_a_scene_too_small_for_a_bag_is_told(scene):
    with pytest.raises(BadData, match="a bag needs at least 5"):
        multiview.chosen_bags(scenes.load(scene)[0], None)


# --- who takes part -------------------------------------------------------------------------------------------------


def test_groups_of_a_features_file_may_be_named_by_more_or_less_of_the_path(sequences, tmp_path):
    photo = sequences / "graf" / "1.png"
    one = features(np.array([[3.0, 4.0]]), np.ones((1, 8)))
    for name in ("1.png", "graf/1.png", f"{sequences.name}/graf/1.png"):
        write_h5(tmp_path / "f.h5", {name: one})
        *_, method = methods.open_methods([], Protocol(), files=[tmp_path / "f.h5"], photos=[photo])
        np.testing.assert_allclose(method.features(photo).keypoints.xy, [[3, 4]])


def test_one_group_for_two_photos_is_refused(sequences, tmp_path):
    one = features(np.array([[3.0, 4.0]]), np.ones((1, 8)))
    write_h5(tmp_path / "f.h5", {"1.png": one})
    with pytest.raises(BadData, match="several photos"):
        methods.open_methods(
            [], Protocol(), files=[tmp_path / "f.h5"], photos=[sequences / s / "1.png" for s in ("graf", "wall")]
        )
    with pytest.raises(BadData, match="no features of"):
        methods.open_methods([], Protocol(), files=[tmp_path / "f.h5"], photos=[sequences / "graf" / "2.png"])


def test_a_features_file_gives_its_strongest(sequences, tmp_path):
    rng = np.random.default_rng(0)
    keypoints = Keypoints.from_circles(rng.uniform(0, 99, (9, 2)), np.ones(9), np.zeros(9), np.arange(9.0))
    write_h5(tmp_path / "f.h5", {"graf/1.png": Features(keypoints, unit(rng.normal(size=(9, 8))), (320, 240))})
    photo = sequences / "graf" / "1.png"
    *_, method = methods.open_methods(
        [], DetectorOptions(max_keypoints=3).shared(), files=[tmp_path / "f.h5"], photos=[photo]
    )
    np.testing.assert_array_equal(method.features(photo).keypoints.scores, [6, 7, 8])  # in the order of the file


def test_a_features_file_keeps_its_ratio_and_must_be_finite(sequences, tmp_path):
    photo = sequences / "graf" / "1.png"
    one = features(np.array([[3.0, 4.0]]), np.ones((1, 8)))
    write_h5(tmp_path / "f.h5", {"1.png": one})
    with h5py.File(tmp_path / "f.h5", "a") as file:
        file.attrs["ratio"] = 0.8
    *_, method = methods.open_methods([], Protocol(), files=[tmp_path / "f.h5"], photos=[photo])
    assert method.features(photo).ratio == 0.8
    with h5py.File(tmp_path / "f.h5", "a") as file:
        file["1.png/descriptors"][:] = np.nan
    with pytest.raises(BadData, match="NaN or infinite"):
        method.features(photo)


def test_photos_of_one_name_size_and_time_are_told_apart(tmp_path):
    photos = []
    for seed in (1, 2):
        photos.append(tmp_path / str(seed) / "1.pgm")
        photos[-1].parent.mkdir()
        cv2.imwrite(str(photos[-1]), synthetic.texture((96, 96), seed))
        os.utime(photos[-1], (1, 1))
    rootsift, *_ = methods.open_methods(["rootsift"], Protocol())
    first, second = map(rootsift.features, photos)
    assert len(first) != len(second) or not np.array_equal(first.keypoints.xy, second.keypoints.xy)


def test_a_method_is_named_once():
    with pytest.raises(BadInput, match="opencv-sift is named twice"):
        methods.open_methods(["opencv-sift", "opencv-sift"], Protocol())


def test_a_detector_and_a_descriptor_are_one_row(sequences):
    photo = sequences / "graf" / "1.png"
    plain, both, *_ = methods.open_methods(["rootsift", "keynet+rootsift"], DetectorOptions(max_keypoints=50).shared())
    (named,) = [
        m
        for m in methods.open_methods(["rootsift"], DetectorOptions(("dog", "keynet"), 50).shared())
        if m.name == "keynet+rootsift"
    ]
    assert [plain.name, both.name] == ["rootsift", "keynet+rootsift"]
    np.testing.assert_array_equal(both.features(photo).descriptors, named.features(photo).descriptors)
    assert not np.array_equal(both.features(photo).keypoints.xy, plain.features(photo).keypoints.xy)
    with pytest.raises(BadInput, match="nobody"):
        methods.open_methods(["nobody+rootsift"], Protocol())


def test_an_extractor_with_a_matcher_is_matched_by_it(sequences):
    rows = ["opencv-sift", "opencv-sift+nearest"]
    found = BENCHMARKS["homography"](rows, sequences, max_keypoints=200).rows
    # `nearest` by itself applies the ratio test of the features, which is the column of its own of the other row.
    assert found[rows[1]]["mma3"] == found[rows[0]]["mma3_ratio"] != found[rows[0]]["mma3"]
    method, *_ = methods.open_methods(rows[1:], Protocol())
    assert method.matcher is not None
    first, second = (method.features(sequences / "graf" / f"{k}.png") for k in (1, 2))

    def places(matches: np.ndarray) -> list[tuple[float, ...]]:
        return [(*first.keypoints.xy[a], *second.keypoints.xy[b]) for a, b in matches]

    # SIFT finds a keypoint once for each of its angles; a pair of places counts once.
    counted = places(stereo.matches_of(method, first, second, 0.5))
    assert len(counted) == len(set(counted))
    assert set(counted) == set(places(method.matcher(first, second).indices))
