"""HPatches stacks: cut from sequences by the recipe, read back, and one sentence for what is broken."""

from __future__ import annotations

import os
import shutil

import cv2
import numpy as np
import pytest
from PIL import Image

from conftest import exchange
from hynet.datasets import hpatches, hpatches_cutting, sequences, synthetic
from hynet.errors import BadData, DataNotFound, UnknownName

SIZE = (256, 192)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two sequences of a textured plane whose homographies are exact; one in each of the two file layouts."""
    root = tmp_path_factory.mktemp("photos")
    for number, (name, table, suffix) in enumerate([("v_plane", "H_1_{}", "png"), ("i_plane", "H1to{}p", "ppm")]):
        picture = synthetic.texture((SIZE[0] + 200, SIZE[1] + 200), number)
        first = np.array([[1, 0, -100], [0, 1, -100], [0, 0, 1.0]])
        for k in range(1, 7):
            turn = 0.08 * (k - 1) * (name == "v_plane")
            zoom, cos, sin = 1 + turn, np.cos(turn), np.sin(turn)
            H = np.array([[zoom * cos, -zoom * sin, 20 * turn], [zoom * sin, zoom * cos, 0], [1e-3 * turn, 0, 1]])
            photo = cv2.warpPerspective(picture, H @ first, SIZE)
            (root / name).mkdir(exist_ok=True)
            Image.fromarray(photo).convert("RGB").save(root / name / f"{k}.{suffix}")
            if k > 1:
                np.savetxt(root / name / table.format(k), -3 * H)  # a homography has no scale, nor a sign
    return root


@pytest.fixture(scope="module")
def stacks(photos, tmp_path_factory):
    return hpatches_cutting.cut(photos, tmp_path_factory.mktemp("stacks"))


@pytest.fixture
def broken(stacks, tmp_path):
    """A copy of one sequence to break."""
    (tmp_path / "v_plane").mkdir()
    for name in hpatches.COLUMNS:
        (tmp_path / "v_plane" / f"{name}.png").write_bytes((stacks / "v_plane" / f"{name}.png").read_bytes())
    return tmp_path


def alike(a, b):
    """Correlation of each patch with its namesake, within the middle."""
    a, b = (stack[:, 12:-12, 12:-12].reshape(len(stack), -1).astype(float) for stack in (a, b))
    a, b = ((stack - stack.mean(1, keepdims=True)) / (stack.std(1, keepdims=True) + 1e-6) for stack in (a, b))
    return (a * b).mean(1)


def test_every_stack_of_a_cut_sequence_holds_as_many_patches(stacks):
    assert hpatches.sequences(stacks) == ["i_plane", "v_plane"]
    for sequence in hpatches.sequences(stacks):
        shapes = {stack.shape for stack in hpatches.load(stacks, sequence).values()}
        assert len(shapes) == 1
        assert shapes.pop()[0] > 50


@pytest.mark.parametrize("sequence", ["i_plane", "v_plane"])
def test_patches_show_the_same_place_and_jitter_makes_them_ever_less_alike(stacks, sequence):
    loaded = hpatches.load(stacks, sequence)
    easy, hard, tough = (
        np.median(np.concatenate([alike(loaded["ref"], loaded[f"{noise}{k}"]) for k in range(1, 6)])) for noise in "eht"
    )
    strangers = np.median(alike(loaded["ref"], np.roll(loaded["e1"], 1, axis=0)))
    assert easy > hard > tough > strangers + 0.2
    assert easy > 0.7


def test_without_jitter_the_patch_of_a_region_is_the_same_in_every_photo(photos):
    first, sixth = (cv2.imread(str(photos / "v_plane" / f"{k}.png"), 0) for k in (1, 6))
    H = sequences.homography(photos / "v_plane" / "H_1_6")
    regions = hpatches_cutting._upright(np.array([[90.0, 40, 5], [80, 35, 4], [100, 40, 4]]))
    here = hpatches_cutting._sample(hpatches_cutting._pyramid(first), regions, np.eye(3))
    there = hpatches_cutting._sample(hpatches_cutting._pyramid(sixth), regions, H)
    assert alike(here, there).min() > 0.97


def test_a_turned_photo_gives_turned_regions(photos):
    image = cv2.imread(str(photos / "v_plane" / "1.png"), 0)[:, :192]
    turned = np.ascontiguousarray(np.rot90(image, -1))  # from x towards y: (x, y) -> (191 - y, x)
    blobs = hpatches_cutting._upright(np.array([[x, y, 6.0] for x in range(50, 150, 12) for y in range(50, 150, 12)]))
    moved = blobs.copy()
    moved[:, 0, 2], moved[:, 1, 2] = 191 - blobs[:, 1, 2], blobs[:, 0, 2]
    angles = [
        np.arctan2(r[:, 1, 0], r[:, 0, 0])
        for r in (hpatches_cutting._oriented(image, blobs), hpatches_cutting._oriented(turned, moved))
    ]
    error = np.angle(np.exp(1j * (angles[1] - angles[0] - np.pi / 2)))
    assert np.mean(np.abs(error) < 0.05) > 0.9


@pytest.mark.parametrize(("noise", "overlap"), [("e", 0.85), ("h", 0.72), ("t", 0.60)])
def test_jitter_leaves_the_median_overlap_of_the_protocol(noise, overlap):
    circle = np.tile(np.array([[1.0, 0, 0], [0, 1, 0]]), (400, 1, 1))
    jittered = hpatches_cutting._jittered(np.random.default_rng(0), circle, hpatches_cutting.JITTER[noise])
    x, y = np.meshgrid(np.linspace(-2.5, 2.5, 151), np.linspace(-2.5, 2.5, 151))
    points = np.stack([x.ravel(), y.ravel()])
    inside = (points**2).sum(0) <= 1
    overlaps = []
    for frame in jittered:
        ellipse = (np.linalg.solve(frame[:, :2], points - frame[:, 2:]) ** 2).sum(0) <= 1
        overlaps.append((inside & ellipse).sum() / (inside | ellipse).sum())
    assert np.median(overlaps) == pytest.approx(overlap, abs=0.02)


def test_no_two_kept_regions_overlap_by_more_than_half():
    rng = np.random.default_rng(0)
    regions = hpatches_cutting._upright(np.column_stack([rng.uniform(0, 100, (500, 2)), rng.uniform(1, 4, 500)]))
    kept = regions[hpatches_cutting._clustered(rng, regions)]
    radius = kept[:, 0, 0]
    for k in range(len(kept)):
        others = np.arange(len(kept)) != k
        shared = hpatches_cutting._overlap(kept[others, :, 2] - kept[k, :, 2], radius[others], radius[k])
        assert shared.max() <= 0.5
    assert 20 < len(kept) < 500


def test_overlap_of_circles_is_what_counting_pixels_gives():
    x, y = np.meshgrid(np.linspace(-3, 3, 1201), np.linspace(-3, 3, 1201))
    for apart, radius in [(0.0, 0.8), (0.5, 1.0), (0.9, 1.3), (0.3, 0.5), (2.5, 1.0)]:
        one, two = x**2 + y**2 <= 1, (x - apart) ** 2 + y**2 <= radius**2
        counted = (one & two).sum() / (one | two).sum()
        computed = hpatches_cutting._overlap(np.array([[apart, 0.0]]), np.array([radius]), 1.0)[0]
        assert computed == pytest.approx(counted, abs=0.005)


def test_another_seed_cuts_other_patches(photos, stacks, tmp_path):
    other = hpatches_cutting.cut(photos, tmp_path, seed=1)
    assert (other / "v_plane" / "t5.png").read_bytes() != (stacks / "v_plane" / "t5.png").read_bytes()


def test_a_finished_sequence_is_kept_and_an_unfinished_one_is_cut_again_the_same(photos, stacks, tmp_path):
    shutil.copytree(stacks, tmp_path, dirs_exist_ok=True)
    kept = (tmp_path / "i_plane" / "ref.png").stat().st_mtime_ns
    (tmp_path / "v_plane" / "source.json").unlink()  # as if stopped before the end
    (tmp_path / "v_plane" / "t5.png").unlink()
    hpatches_cutting.cut(photos, tmp_path)
    assert (tmp_path / "i_plane" / "ref.png").stat().st_mtime_ns == kept
    assert (tmp_path / "v_plane" / "t5.png").read_bytes() == (stacks / "v_plane" / "t5.png").read_bytes()


def test_a_sequence_is_cut_again_when_the_content_of_a_photo_has_changed(photos, tmp_path):
    sequence, stack = tmp_path / "photos" / "i_plane", tmp_path / "out" / "i_plane" / "e1.png"
    shutil.copytree(photos / "i_plane", sequence)
    hpatches_cutting.cut(sequence.parent, tmp_path / "out")
    before, content = stack.stat().st_mtime_ns, stack.read_bytes()
    os.utime(sequence / "2.ppm")  # touched, but the same
    hpatches_cutting.cut(sequence.parent, tmp_path / "out")
    assert stack.stat().st_mtime_ns == before
    header, pixels = (sequence / "2.ppm").read_bytes()[:15], (sequence / "2.ppm").read_bytes()[15:]
    exchange(sequence / "2.ppm", header + bytes(level ^ 1 for level in pixels))
    hpatches_cutting.cut(sequence.parent, tmp_path / "out")
    assert stack.read_bytes() != content


def test_splits_are_those_whose_sequences_are_there(stacks, tmp_path):
    assert hpatches.splits(stacks) == {
        "full": ["i_plane", "v_plane"],
        "illum": ["i_plane"],
        "view": ["v_plane"],
    }
    with pytest.raises(DataNotFound, match=r"split a tests on 40 sequences, of which 40 are not in .*choose full"):
        hpatches.split(stacks, "a")
    with pytest.raises(UnknownName, match="no split 'd'"):
        hpatches.split(stacks, "d")
    for name in hpatches._TESTS["b"].split():
        (tmp_path / name).mkdir()
        (tmp_path / name / "ref.png").touch()
    tests = hpatches.split(tmp_path, "b")
    assert [sum(name.startswith(kind) for name in tests) for kind in ("i_", "v_")] == [20, 20]


def save(path, width, height):
    Image.new("L", (width, height)).save(path)


BREAKAGES = {
    "too wide": (lambda f: save(f / "h2.png", 66, 650), BadData, r"h2.png is 66 x 650 pixels; a stack is 65 wide"),
    "cut through a patch": (lambda f: save(f / "h2.png", 65, 66), BadData, "multiple of 65 tall"),
    "too few": (lambda f: save(f / "t5.png", 65, 130), BadData, r"t5.png holds 2 patches, but ref.png"),
    "missing": (lambda f: (f / "e3.png").unlink(), DataNotFound, r"no e3 \(.png\) in .* 16 stacks"),
}


@pytest.mark.parametrize("what", BREAKAGES)
def test_a_broken_stack_is_told_in_one_sentence(broken, what):
    breakage, error, sentence = BREAKAGES[what]
    breakage(broken / "v_plane")
    with pytest.raises(error, match=sentence) as caught:
        hpatches.load(broken, "v_plane")
    assert "\n" not in str(caught.value)


def test_a_sequence_without_its_homography_or_with_a_wrong_one_is_told(tmp_path):
    with pytest.raises(DataNotFound, match=r"no SEQUENCE/ref.png"):
        hpatches.sequences(tmp_path)
    with pytest.raises(DataNotFound, match=r"no SEQUENCE/1.ppm"):
        hpatches_cutting.cut(tmp_path, tmp_path / "out")
    (tmp_path / "one").mkdir()
    for k in range(1, 7):
        save(tmp_path / "one" / f"{k}.png", 200, 200)
    with pytest.raises(DataNotFound, match="no H_1_2 in"):
        hpatches_cutting.cut(tmp_path, tmp_path / "out")
    for k in range(2, 7):
        (tmp_path / "one" / f"H_1_{k}").write_text("1 0 0\n0 1 0\n")
    with pytest.raises(BadData, match="H_1_2 is not an invertible 3 x 3"):
        hpatches_cutting.cut(tmp_path, tmp_path / "out")
    for k in range(2, 7):
        np.savetxt(tmp_path / "one" / f"H_1_{k}", np.eye(3))
    with pytest.raises(BadData, match="has no region that lies inside all six photos"):
        hpatches_cutting.cut(tmp_path, tmp_path / "out")
