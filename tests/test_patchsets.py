"""Patch sets from photos: the truth is a rendered scene, the reader is this file's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from conftest import exchange, with_environment
from hynet.datasets import synthetic
from hynet.errors import BadData, BadInput, DataNotFound
from hynet.images import drawing
from hynet.patchsets import correspondence, part
from hynet.patchsets import make as patchsets
from hynet.patchsets import scenes as sfm
from hynet.runtime.pool import open_pool
from hynet.sfm.colmap import Camera
from hynet.types import Array, Keypoints, PatchSet

WIDTH, HEIGHT = 480, 360


@pytest.fixture(scope="module")
def truth() -> synthetic.SyntheticScene:
    return synthetic.scene(seed=0, photos=6, size=(WIDTH, HEIGHT))


@pytest.fixture(scope="module")
def scene(truth: synthetic.SyntheticScene) -> sfm.Scene:
    """The true cameras, SIFT keypoints, and the true place of every fifth of them as if it had been triangulated."""
    sift = cv2.SIFT.create(1500, contrastThreshold=0.02)
    photos, points = [], []
    camera = Camera("SIMPLE_PINHOLE", (WIDTH, HEIGHT), (truth.K[0, 0], *(truth.K[:2, 2] + 0.5)))
    for number, image in enumerate(truth.photos):
        found = sift.detect(image, None)
        circles = np.array([(*k.pt, k.size / 2, np.deg2rad(k.angle)) for k in found])
        keypoints = Keypoints.from_circles(circles[:, :2], circles[:, 2], circles[:, 3], np.ones(len(circles)))
        rows = np.full(len(keypoints), -1)
        rows[::5] = len(points) + np.arange(len(rows[::5]))
        points += list(in_world(truth, number, keypoints.xy[::5]))
        photos.append(
            sfm.Photo(f"{number}", Path(f"{number}.png"), camera, truth.cam_from_world[number], keypoints, rows)
        )
    return sfm.Scene(tuple(photos), np.array(points), {}, ())


@pytest.fixture(scope="module")
def tracks(scene: sfm.Scene) -> correspondence.Tracks:
    return correspondence.tracks(scene)


def test_near_keypoints_are_those_of_comparing_every_pair(scene):
    """SIFT lists some places several times, with other orientations: ties and zero distances are among them."""
    xy = scene.photos[0].keypoints.xy.astype(np.float64)
    queries = np.vstack([xy[::2] + 3, xy[::7], [[np.nan, 1.0], [-1e6, 5.0]]])
    apart = np.linalg.norm(queries[:, None] - xy, axis=2)
    i, j = correspondence._near(queries, xy, 5.0)
    assert np.array_equal(np.column_stack([i, j]), np.argwhere(apart <= 5.0))

    known = np.flatnonzero(scene.photos[0].points >= 0)
    others = np.linalg.norm(xy[:, None] - xy[known], axis=2)
    others[known, np.arange(len(known))] = np.inf  # not itself
    nearest, reach = correspondence._nearest(xy, known)
    expected = np.sort(others, 1)[:, : correspondence.NEIGHBOURS]
    assert np.sort(np.take_along_axis(others, nearest, 1), 1) == pytest.approx(expected)
    assert reach == pytest.approx(expected[:, -1])


def test_corresponding_keypoints_are_where_the_truth_puts_them(truth, scene, tracks):
    shift, octaves, turn, hidden = against_truth(truth, scene, tracks)
    assert len(shift) > 500
    right = (shift < correspondence.SAME_PIXELS) & ~hidden
    assert right.mean() > 0.995
    assert (octaves < correspondence.SAME_OCTAVES + 0.02).mean() > 0.995
    assert (turn < correspondence.SAME_ANGLE + 0.1).mean() > 0.98


def test_a_hidden_surface_is_not_matched(truth, scene, tracks):
    """Cards stand before the wall: what they hide in the other photo must not be linked to the card."""
    *_, hidden = against_truth(truth, scene, tracks)
    in_the_way = sum(hidden_keypoints(truth, scene, a, b) for a, b in combinations(range(len(scene.photos)), 2))
    assert in_the_way > 100  # there was something to get wrong
    assert hidden.sum() <= 0.002 * len(hidden)


def test_a_point_has_one_keypoint_a_photo_and_two_points_are_certainly_different_in_every_photo(scene, tracks):
    assert len(np.unique(np.column_stack([tracks.point, tracks.photo]), axis=0)) == len(tracks.point)
    for number, photo in enumerate(scene.photos):
        keypoints = photo.keypoints[tracks.keypoint[tracks.photo == number]]
        apart = np.linalg.norm(keypoints.xy[:, None] - keypoints.xy, axis=2) > correspondence.DIFFERENT_PIXELS
        log2 = np.log2(keypoints.sigma)
        apart |= np.abs(log2[:, None] - log2) > correspondence.DIFFERENT_OCTAVES
        turn = (keypoints.angle[:, None] - keypoints.angle + np.pi) % (2 * np.pi) - np.pi
        apart |= np.abs(turn) > correspondence.DIFFERENT_ANGLE
        assert (apart | np.eye(len(keypoints), dtype=bool)).all()


def test_what_sift_matching_found_is_not_hard(scene):
    surfaces = [correspondence.surface(photo, scene.points) for photo in scene.photos[:2]]
    all_hard = correspondence.links(scene, 0, 1, *surfaces)
    found = np.column_stack([all_hard.first, all_hard.second])[::2]
    half = correspondence.links(sfm.Scene(scene.photos, scene.points, {(0, 1): found}, ()), 0, 1, *surfaces)
    assert all_hard.hard.all()
    assert np.array_equal(half.hard, np.arange(len(half.hard)) % 2 == 1)


@pytest.fixture(scope="module")
def photos(truth: synthetic.SyntheticScene, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three folders: a scene with one broken photo, one with strangers only, one that is empty."""
    root = tmp_path_factory.mktemp("photos")
    for folder in ("planes", "strangers", "empty"):
        (root / folder).mkdir()
    for number, image in enumerate(truth.photos):
        cv2.imwrite(str(root / "planes" / f"{number}.png"), image)
        if number < 3:
            cv2.imwrite(str(root / "strangers" / f"{number}.png"), synthetic.texture((WIDTH, HEIGHT), 50 + number))
    (root / "planes" / "broken.jpg").write_bytes(b"\xff\xd8 no photo")
    return root


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    pytest.importorskip("pycolmap")
    out = tmp_path_factory.mktemp("set")
    return out, build(photos, out)


def build(photos: Path, out: Path, **options) -> dict:
    folders = [photos / "planes", photos / "strangers", photos / "empty"]
    settings = patchsets.PatchSettings(max_keypoints=1200)
    return patchsets.make(folders, out, settings=settings, hard_share=0.2, **options)


def test_a_cluster_makes_the_same_set(made, photos: Path, tmp_path: Path):
    with open_pool("local", workers=2) as cluster:
        assert build(photos, tmp_path, cluster=cluster) == made[1]
    written = [path for path in made[0].iterdir() if path.suffix in (".bmp", ".txt", ".json")]
    assert len(written) > 4
    for path in written:
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_scene_that_fails_on_a_cluster_is_skipped_and_no_worker_is_blamed(made, photos: Path, tmp_path: Path):
    settings, parts = patchsets.PatchSettings(max_keypoints=1200), tmp_path / ".parts"
    begun = part._work_folder("planes", part.files_of(photos / "planes"), parts, settings)
    (begun / "photos").mkdir()
    (begun / "photos" / "00000.png").write_bytes(b"as a power cut leaves it")
    other = shutil.copytree(made[0] / ".parts" / "planes", parts / "other") / "part.json"  # to write a set of
    other.write_text(json.dumps({**json.loads(other.read_text()), "name": "other"}))
    with open_pool("local", workers=1) as cluster:
        summary = build(photos, tmp_path, cluster=cluster)
    skipped = {scene["name"]: scene["why"] for scene in summary["skipped"]}
    assert skipped.keys() == {"planes", "strangers", "empty"}
    assert "00000.png is not a photo" in skipped["planes"]


def test_any_phototour_reader_opens_the_set(made):
    out, summary = made
    patches, points, references, pairs = read_phototour(out)
    (planes,) = summary["scenes"]
    assert len(patches) == len(points) == len(references) == planes["patches"] > 300
    assert len(set(points)) == planes["points"]
    assert set(np.bincount(points)) - {0} <= set(range(2, 7))  # each point is seen in two to six photos
    for point in set(points):
        assert len({reference for reference, owner in zip(references, points, strict=True) if owner == point}) == 1
    matches = [(a, b) for a, a_point, b, b_point in pairs if a_point == b_point]
    strangers = [(a, b) for a, a_point, b, b_point in pairs if a_point != b_point]
    assert len(matches) == len(strangers) > 100
    assert all(points[a] == points[b] and a != b for a, b in matches)
    assert all(points[a] != points[b] and references[a] == references[b] for a, b in strangers)
    similar = [np.corrcoef(patches[a].ravel(), patches[b].ravel())[0, 1] for a, b in matches]
    different = [np.corrcoef(patches[a].ravel(), patches[b].ravel())[0, 1] for a, b in strangers]
    assert np.median(similar) > 0.7 > 0.3 > np.median(different)


def test_bad_photos_and_scenes_are_reported_and_skipped(made):
    out, summary = made
    assert [scene["name"] for scene in summary["skipped"]] == ["empty", "strangers"]
    assert any("broken.jpg" in why for why in summary["unreadable"])
    assert json.loads((out / "scene.json").read_text()) == summary
    assert not list((out / ".parts").glob(".work*"))


def test_hard_pairs_have_at_least_their_share_and_are_written_down(made):
    out, summary = made
    pairs = np.load(out / "correspondences.npz")
    _, points, _, _ = read_phototour(out)
    assert pairs["hard"].mean() >= 0.2
    assert (np.array(points)[pairs["first"]] == np.array(points)[pairs["second"]]).all()
    assert summary["scenes"][0]["hard_share"] == pytest.approx(pairs["hard"].mean(), abs=1e-3)


def test_a_second_run_makes_nothing_again_and_a_new_scene_extends_the_set(made, photos: Path, truth):
    out, _ = made
    settings = patchsets.PatchSettings(max_keypoints=1200)
    part = out / ".parts" / "planes" / "patches.npy"
    before = part.stat().st_mtime_ns
    (out / ".parts" / ".new-cut-off").mkdir()  # as a run that was killed leaves it
    (out / ".parts" / ".new-cut-off" / "part.json").write_text('{"nam')
    again = photos / "again"
    again.mkdir()
    for number in range(3):
        cv2.imwrite(str(again / f"{number}.png"), truth.photos[number])
    extended = patchsets.make([again], out, settings=settings, hard_share=0.2)
    assert part.stat().st_mtime_ns == before
    assert [scene["name"] for scene in extended["scenes"]] == ["planes", "again"]
    assert extended["scenes"][1]["first_patch"] == extended["scenes"][0]["patches"]
    patches, *_ = read_phototour(out)
    assert len(patches) == sum(scene["patches"] for scene in extended["scenes"])


def test_elliptic_patches_of_one_point_are_more_alike_and_turned_as_the_round_ones(photos: Path, scene, tracks):
    on_disk = [replace(photo, path=photos / "planes" / f"{photo.name}.png") for photo in scene.photos]
    scene = replace(scene, photos=tuple(on_disk))
    cuts = [part._patches(scene, tracks, patchsets.PatchSettings(elliptic=share)) for share in (0, 1, 0.5)]
    round_ones, elliptic_ones, half = (correlation(cut[tracks.first], cut[tracks.second]) for cut in cuts)
    assert elliptic_ones.mean() > round_ones.mean() + 0.01
    assert np.median(correlation(cuts[0], cuts[1])) > 0.7
    every_other = tracks.point % 2 == 1
    assert np.array_equal(cuts[2], np.where(every_other[:, None, None], cuts[1], cuts[0]))
    assert round_ones.mean() < half.mean() < elliptic_ones.mean()


def test_elliptic_regions_of_another_network_do_not_mix_with_those_there(made, photos: Path, tmp_path: Path):
    out, settings = tmp_path / "set", patchsets.PatchSettings(max_keypoints=1200, elliptic=0.5)
    shutil.copytree(made[0], out)
    path = out / ".parts" / "planes" / "part.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "settings": part.noted(settings) | {"shape_network": "old"}})
    )
    with pytest.raises(BadInput, match="other settings"):
        patchsets.make([photos / "planes"], out, settings=settings)
    with pytest.raises(BadInput, match="from 0 to 1"):
        patchsets.make([photos / "planes"], out, settings=replace(settings, elliptic=2))


def correlation(a: Array, b: Array) -> Array:
    """(N, S, S) and (N, S, S) -> (N,)."""
    a, b = (each.reshape(len(each), -1).astype(np.float64) for each in (a, b))
    a, b = (each - each.mean(1, keepdims=True) for each in (a, b))
    return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))


def test_a_scene_with_a_replaced_photo_is_made_again_even_if_size_and_time_are_equal(
    made, photos: Path, tmp_path: Path
):
    out, folder, settings = tmp_path / "set", tmp_path / "planes", patchsets.PatchSettings(max_keypoints=1200)
    shutil.copytree(made[0], out)
    shutil.copytree(photos / "planes", folder)
    part = out / ".parts" / "planes" / "patches.npy"
    before, content = part.stat().st_mtime_ns, part.read_bytes()
    os.utime(folder / "0.png")
    patchsets.make([folder], out, settings=settings)
    assert part.stat().st_mtime_ns == before  # touched, but the same
    large, small = sorted(folder.glob("*.png"), key=lambda path: -path.stat().st_size)[:2]
    exchange(large, small.read_bytes())
    patchsets.make([folder], out, settings=settings)
    assert part.read_bytes() != content


def test_a_killed_run_leaves_nobody_behind_and_is_taken_up(photos: Path, tmp_path: Path):
    out, scene = tmp_path / "set", photos / "planes"
    command = [sys.executable, "-m", "hynet", "patches", str(scene), "--out", str(out)]
    process = subprocess.Popen(command, env={**os.environ, "HYNET_TEST": str(out)})
    while not list(out.glob(".parts/.work-*/photos/*.png")):  # a worker is at it
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while left := with_environment(str(out)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert not (out / "info.txt").exists()
    patchsets.make([scene], out)
    assert read_phototour(out)[1]


def test_other_settings_do_not_mix_with_what_is_there(made, photos: Path):
    out, _ = made
    with pytest.raises(BadInput, match=r"support was 24.0, now 12"):
        patchsets.make([photos / "planes"], out, settings=patchsets.PatchSettings(support=12, max_keypoints=1200))
    other = patchsets.PatchSettings(support=12, max_keypoints=1200)
    before = (out / "info.txt").read_bytes()
    with pytest.raises(BadInput, match=r"also holds .*, which must be made again: give their folders, too"):
        patchsets.make([photos / "planes"], out, settings=other, overwrite=True)
    assert (out / "info.txt").read_bytes() == before


def test_folders_that_cannot_be_scenes_are_said(photos: Path, tmp_path: Path):
    pytest.importorskip("pycolmap")
    with pytest.raises(DataNotFound, match="no folder"):
        patchsets.make([tmp_path / "nothing"], tmp_path / "set")
    with pytest.raises(BadInput, match="two scenes are called planes"):
        patchsets.make([photos / "planes", photos / "planes"], tmp_path / "set")
    with pytest.raises(BadData, match="no scene could be made"):
        patchsets.make([photos / "empty"], tmp_path / "set")


def test_a_contact_sheet_shows_each_point_in_a_row():
    patches = np.stack([np.full((64, 64), grey, np.uint8) for grey in (10, 200, 20, 10, 200)])
    picture = patchsets.sheet(PatchSet(patches, np.array([0, 1, 2, 0, 1])), rows=3, columns=2)
    middles = picture[8 + 32 : 3 * 72 : 72, 8 + 32 :: 72, 0]
    assert middles[:, :2].tolist() == [[10, 10], [200, 200], [20, 22]]  # and the ground


def test_a_contact_sheet_names_its_scenes_and_marks_hard_pairs():
    patches = np.stack([np.full((64, 64), grey, np.uint8) for grey in (10, 50, 100, 150)])
    points, scenes = np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])
    marked = PatchSet(patches, points, scenes=scenes, hard_pairs=np.array([[0, 1]]))
    picture = patchsets.sheet(marked, columns=2, scenes=["bridge", "castle"])
    assert picture[40, 190 + 32, 0] == 100  # the scene of the lower number first
    assert tuple(picture[8 + 72 - 2, 190 + 10]) == drawing.AMBER
    assert tuple(picture[8 - 2, 190 + 10]) == drawing.GROUND
    assert (picture[8:30, 8:100] > 150).any()  # its name
    assert (picture[8 + 72 : 30 + 72, 8:100] > 150).any()


def in_world(truth: synthetic.SyntheticScene, number: int, xy: Array) -> Array:
    """(N, 2) pixels of a photo -> (N, 3), by the depth of the nearest pixel."""
    x, y = np.rint(xy).astype(int).T
    depth = truth.depths[number][y.clip(0, HEIGHT - 1), x.clip(0, WIDTH - 1)]
    seen = np.column_stack([(xy - truth.K[:2, 2]) / truth.K[0, 0], np.ones(len(xy))]) * depth[:, None]
    pose = truth.cam_from_world[number]
    return (seen - pose[:, 3]) @ pose[:, :3]


def carried(truth: synthetic.SyntheticScene, a: int, b: int, xy: Array) -> tuple[Array, Array, Array]:
    """Where photo b sees the pixels of photo a, at what depth, and whether something stands before them there."""
    pose = truth.cam_from_world[b]
    seen = in_world(truth, a, xy) @ pose[:, :3].T + pose[:, 3]
    there = seen[:, :2] / seen[:, 2:] * truth.K[0, 0] + truth.K[:2, 2]
    x, y = np.rint(there).astype(int).T
    inside = (x >= 0) & (x < WIDTH) & (y >= 0) & (y < HEIGHT)
    depth = truth.depths[b][y.clip(0, HEIGHT - 1), x.clip(0, WIDTH - 1)]
    return there, seen[:, 2], inside & (depth < 0.95 * seen[:, 2])


def against_truth(truth, scene, tracks) -> tuple[Array, Array, Array, Array]:
    """For every corresponding pair: shift, octaves and turn away from the truth, and whether the truth hides it."""
    results = []
    for first, second in zip(tracks.first, tracks.second, strict=True):
        a, b = tracks.photo[first], tracks.photo[second]
        one, other = scene.photos[a].keypoints[[tracks.keypoint[first]]], scene.photos[b].keypoints
        other = other[[tracks.keypoint[second]]]
        tip = one.xy + one.frames[:, :, 0]
        there, depth, hidden = carried(truth, a, b, np.concatenate([one.xy, tip]))
        _, depth_here, _ = carried(truth, a, a, one.xy)
        sigma = one.sigma[0] * depth_here[0] / depth[0]  # all photos have one focal length
        along = there[1] - there[0]
        turn = (np.arctan2(along[1], along[0]) - other.angle[0] + np.pi) % (2 * np.pi) - np.pi
        shift = np.linalg.norm(there[0] - other.xy[0])
        results.append((shift, abs(np.log2(sigma / other.sigma[0])), abs(turn), hidden[0]))
    shift, octaves, turn, hidden = np.array(results).T
    return shift, octaves, turn, hidden.astype(bool)


def hidden_keypoints(truth, scene, a: int, b: int) -> int:
    """How many keypoints of photo a have a keypoint of photo b on top of them that belongs to what hides them."""
    there, _, hidden = carried(truth, a, b, scene.photos[a].keypoints.xy)
    apart = np.linalg.norm(there[hidden][:, None] - scene.photos[b].keypoints.xy, axis=2)
    return int((apart.min(1, initial=np.inf) < correspondence.SAME_PIXELS).sum())


def read_phototour(root: Path) -> tuple[Array, list[int], list[int], list[tuple[int, int, int, int]]]:
    """As the data set's page describes it: 16 x 16 tiles of 64 pixels a bitmap, one line a patch."""
    tiles = []
    for path in sorted(root.glob("patches*.bmp")):
        page = np.asarray(Image.open(path).convert("L"))
        assert page.shape == (1024, 1024)
        tiles += [page[y : y + 64, x : x + 64] for y in range(0, 1024, 64) for x in range(0, 1024, 64)]
    points = [int(line.split()[0]) for line in (root / "info.txt").read_text().splitlines()]
    references = [int(line.split()[0]) for line in (root / "interest.txt").read_text().splitlines()]
    largest = max(root.glob("m50_*.txt"), key=lambda path: int(path.name.split("_")[1]))
    lines = [[int(word) for word in line.split()] for line in largest.read_text().splitlines()]
    return np.stack(tiles[: len(points)]), points, references, [(row[0], row[1], row[3], row[4]) for row in lines]


@pytest.mark.parametrize(
    ("settings", "sentence"), [({"support": 0.0}, "more than 0 sigmas"), ({"max_keypoints": 0}, "at least 1 keypoint")]
)
def test_patches_of_nothing_are_refused_at_once(photos: Path, tmp_path: Path, settings, sentence):
    with pytest.raises(BadInput, match=sentence):
        patchsets.make([photos / "planes"], tmp_path / "set", settings=patchsets.PatchSettings(**settings))
    assert not (tmp_path / "set").exists()
