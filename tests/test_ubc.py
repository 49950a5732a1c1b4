"""PhotoTour sets: read as distributed, written back byte for byte, one sentence for all that can be wrong."""

from __future__ import annotations

import json
import os
import re
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from conftest import exchange
from hynet.datasets import ubc
from hynet.errors import BadData, BadInput, DataNotFound
from hynet.types import PatchPairs, PatchSet


def make(root, count=300, seed=0, per_point=3):
    """A small set whose pixels, points and regions are known."""
    rng = np.random.default_rng(seed)
    points = np.arange(count) // per_point
    patch_set = PatchSet(rng.integers(0, 256, (count, 64, 64), np.uint8), points, points // 10)
    matches = np.flatnonzero(points[:-1] == points[1:])[:20]
    strangers = np.arange(20)
    pairs = PatchPairs(
        np.concatenate([matches, strangers]),
        np.concatenate([matches + 1, strangers + 3 * per_point]),
        np.arange(40) < 20,
    )
    regions = {"xy": rng.uniform(0, 4000, (count, 2)), "angle": rng.uniform(-4, 4, count)}
    ubc.write(root, patch_set, **regions, log2_scale=rng.uniform(0, 5, count), pairs=[pairs])
    return patch_set, pairs


def files(root):
    return {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}


def test_what_is_written_is_what_is_read(tmp_path):
    patch_set, pairs = make(tmp_path)
    loaded = ubc.load(tmp_path)
    assert np.array_equal(loaded.patches, patch_set.patches)
    assert np.array_equal(loaded.points, patch_set.points)
    assert np.array_equal(loaded.images, patch_set.images)
    assert loaded.scenes is None
    read = ubc.test_pairs(tmp_path, 40)
    assert np.array_equal(read.first, pairs.first)
    assert np.array_equal(read.second, pairs.second)
    assert np.array_equal(read.is_match, pairs.is_match)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(count=st.sampled_from([60, 255, 256, 257, 600]), seed=st.integers(0, 9))
def test_writing_a_set_that_was_read_gives_the_same_bytes(tmp_path_factory, count, seed):
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    make(first, count, seed)
    xy, angle, log2_scale = ubc.regions(first)
    pairs = [ubc.test_pairs(first, n) for n in ubc.pairs_available(first)]
    ubc.write(second, ubc.load(first), xy=xy, angle=angle, log2_scale=log2_scale, pairs=pairs)
    assert files(first) == files(second)


def test_patches_lie_in_the_mosaics_row_by_row_as_any_other_reader_expects(tmp_path):
    patch_set, _ = make(tmp_path)
    with Image.open(tmp_path / "patches0001.bmp") as image:
        assert (image.mode, image.size) == ("L", (1024, 1024))
        third_of_second_row = image.crop((2 * 64, 1 * 64, 3 * 64, 2 * 64))
    assert np.array_equal(np.asarray(third_of_second_row), patch_set.patches[256 + 16 + 2])
    assert (tmp_path / "info.txt").read_text().splitlines()[4] == "1 0"
    assert len((tmp_path / "interest.txt").read_text().splitlines()[0].split()) == 5
    assert (tmp_path / "m50_40_40_0.txt").read_text().splitlines()[0] == "0 0 0 1 0 0"


def test_size_32_is_the_rounded_mean_of_four_pixels(tmp_path):
    patch_set, _ = make(tmp_path)
    sums = patch_set.patches.reshape(-1, 32, 2, 32, 2).astype(int).sum((2, 4))
    assert np.array_equal(ubc.load(tmp_path, 32).patches, (sums + 2) // 4)


def test_the_second_open_reads_no_bitmap_and_maps_the_patches(tmp_path):
    make(tmp_path)
    ubc.load(tmp_path)
    decoded = []
    loaded = ubc.load(tmp_path, progress=lambda *step: decoded.append(step))
    assert not decoded
    assert isinstance(loaded.patches, np.memmap)


def test_a_changed_source_file_is_read_anew(tmp_path):
    make(tmp_path, seed=0)
    before = np.array(ubc.load(tmp_path).patches)
    patch_set, _ = make(tmp_path, seed=1)
    after = ubc.load(tmp_path).patches
    assert not np.array_equal(before, after)
    assert np.array_equal(after, patch_set.patches)

    decoded = []
    for path in tmp_path.glob("*.bmp"):
        os.utime(path)  # touched, but the same
    ubc.load(tmp_path, progress=lambda *step: decoded.append(step))
    assert not decoded
    exchange(tmp_path / "patches0000.bmp", (tmp_path / "patches0001.bmp").read_bytes())
    assert np.array_equal(ubc.load(tmp_path).patches[:44], patch_set.patches[256:])


def test_a_set_that_may_not_be_written_is_cached_elsewhere(tmp_path, monkeypatch):
    root, cache = tmp_path / "set", tmp_path / "cache"
    patch_set, _ = make(root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere, so permissions prove nothing
    assert np.array_equal(ubc.load(root).patches, patch_set.patches)
    assert not (root / ".hynet").exists()
    assert list(cache.rglob("patches64.npy"))


def test_writing_a_smaller_set_leaves_nothing_of_the_larger(tmp_path):
    make(tmp_path, count=900)
    patch_set, _ = make(tmp_path, count=60)
    assert [path.name for path in sorted(tmp_path.glob("*.bmp"))] == ["patches0000.bmp"]
    assert np.array_equal(ubc.load(tmp_path).patches, patch_set.patches)


def test_a_seventh_column_of_a_pair_file_is_ignored(tmp_path):
    make(tmp_path)
    path = tmp_path / "m50_40_40_0.txt"
    expected = ubc.test_pairs(tmp_path, 40)
    path.write_text("".join(f"{line} 0\n" for line in path.read_text().splitlines()))
    assert np.array_equal(ubc.test_pairs(tmp_path, 40).is_match, expected.is_match)


def test_a_set_without_interest_points_has_no_reference_images(tmp_path):
    make(tmp_path)
    found = ubc.load(tmp_path)
    assert found.images is not None
    assert np.array_equal(found.places, ubc.regions(tmp_path)[0])
    (tmp_path / "interest.txt").unlink()
    assert ubc.load(tmp_path).images is None
    assert ubc.load(tmp_path).places is None


def test_hard_pairs_are_those_of_the_correspondences(tmp_path):
    make(tmp_path)
    assert ubc.load(tmp_path).hard_pairs is None
    first, second, hard = np.array([0, 4, 297]), np.array([1, 5, 299]), np.array([True, False, True])
    np.savez(tmp_path / "correspondences.npz", first=first, second=second, hard=hard)
    assert ubc.load(tmp_path).hard_pairs.tolist() == [[0, 1], [297, 299]]


def test_scenes_come_from_their_ranges_and_empty_ones_count_for_nothing(tmp_path):
    make(tmp_path)
    scenes = [
        {"name": "a", "first_patch": 0, "patches": 120},
        {"name": "failed", "patches": 0},
        {"name": "b", "first_patch": 120, "patches": 180},
    ]
    (tmp_path / "scene.json").write_text(json.dumps({"scenes": scenes}))
    assert np.array_equal(ubc.load(tmp_path).scenes, np.repeat([0, 1], [120, 180]))
    scenes.pop()
    (tmp_path / "scene.json").write_text(json.dumps({"scenes": scenes}))
    with pytest.raises(BadData, match=r"scene.json shares out 120 patches, but info.txt lists 300"):
        ubc.load(tmp_path)


def shorten(path, keep):
    path.write_bytes(path.read_bytes()[:keep])


def drop_lines(path, keep):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:keep]))


def cut_correspondences(root):
    np.savez(root / "correspondences.npz", first=[0], second=[1], hard=[True])
    path = root / "correspondences.npz"
    shorten(path, path.stat().st_size // 2)


def overwrite(path, at, value):
    content = bytearray(path.read_bytes())
    content[at : at + len(value)] = value
    path.write_bytes(content)


def unknown_compression(root):
    np.savez(root / "correspondences.npz", first=[0], second=[1], hard=[True])
    content = (root / "correspondences.npz").read_bytes()
    for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content = re.sub(
            re.escape(mark) + b".{%d}" % (at - 4) + b"..", lambda m: m[0][:-2] + b"\x4d\0", content, flags=re.DOTALL
        )
    (root / "correspondences.npz").write_bytes(content)


BREAKAGES = {
    "a bitmap cut short": (
        lambda r: shorten(r / "patches0001.bmp", 500_000),
        BadData,
        "patches0001.bmp is not a whole",
    ),
    "a bitmap that would fill the memory": (
        lambda r: overwrite(r / "patches0000.bmp", 18, struct.pack("<ii", 2**20, 2**20)),
        BadData,
        "patches0000.bmp is not a whole bitmap",
    ),
    "no bitmap at all": (lambda r: (r / "patches0000.bmp").write_text("x"), BadData, "patches0000.bmp is not a whole"),
    "a bitmap of another size": (
        lambda r: Image.new("L", (512, 1024)).save(r / "patches0001.bmp"),
        BadData,
        r"patches0001.bmp is 512 x 1024 pixels; a mosaic is 1024 x 1024",
    ),
    "a mosaic too few": (lambda r: (r / "patches0001.bmp").unlink(), BadData, "lists 300 patches, but .* hold 256"),
    "no mosaics": (lambda r: [p.unlink() for p in r.glob("*.bmp")], DataNotFound, r"no patches\*.bmp in"),
    "no info": (lambda r: (r / "info.txt").unlink(), DataNotFound, "no info.txt in"),
    "an empty info": (lambda r: (r / "info.txt").write_text(""), BadData, "info.txt is empty"),
    "words for numbers": (lambda r: (r / "info.txt").write_text("one 0\n"), BadData, "info.txt is not a table"),
    "correspondences of another set": (
        lambda r: np.savez(r / "correspondences.npz", first=[0], second=[300], hard=[True]),
        BadData,
        "correspondences.npz is not of the patches that info.txt lists",
    ),
    "correspondences of two points": (
        lambda r: np.savez(r / "correspondences.npz", first=[0], second=[299], hard=[True]),
        BadData,
        "correspondences.npz is not of the patches that info.txt lists",
    ),
    "correspondences cut short": (cut_correspondences, BadData, "correspondences.npz cannot be read"),
    "empty correspondences": (
        lambda r: (r / "correspondences.npz").write_bytes(b""),
        BadData,
        "correspondences.npz cannot be read",
    ),
    "correspondences that are fractions": (
        lambda r: np.savez(r / "correspondences.npz", first=[0.5], second=[1.0], hard=[True]),
        BadData,
        "correspondences.npz cannot be read .rows are whole numbers",
    ),
    "correspondences in an unknown compression": (
        unknown_compression,
        BadData,
        "correspondences.npz cannot be read .That compression method is not supported",
    ),
    "a place that is no number": (
        lambda r: (r / "interest.txt").write_text("0 nan 1 0 0\n" * 300),
        BadData,
        "interest.txt holds numbers that are not finite",
    ),
    "interest rows missing": (lambda r: drop_lines(r / "interest.txt", 7), BadData, "has 7 rows, but info.txt has 300"),
}


@pytest.mark.parametrize("what", BREAKAGES)
def test_a_broken_set_is_told_in_one_sentence(tmp_path, what):
    make(tmp_path)
    breakage, error, sentence = BREAKAGES[what]
    breakage(tmp_path)
    with pytest.raises(error, match=sentence) as caught:
        ubc.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_failed_decoding_leaves_no_cache_behind_that_would_be_believed(tmp_path):
    make(tmp_path)
    good = (tmp_path / "patches0001.bmp").read_bytes()
    shorten(tmp_path / "patches0001.bmp", 500_000)
    with pytest.raises(BadData):
        ubc.load(tmp_path)
    (tmp_path / "patches0001.bmp").write_bytes(good)
    assert len(ubc.load(tmp_path)) == 300


def test_missing_pairs_name_those_that_are_there(tmp_path):
    make(tmp_path)
    assert ubc.pairs_available(tmp_path) == [40]
    with pytest.raises(DataNotFound, match=r"no m50_100000_100000_0.txt in .*; pair files there: 40\."):
        ubc.test_pairs(tmp_path)


def test_pairs_of_patches_that_do_not_exist_are_refused(tmp_path):
    make(tmp_path)
    (tmp_path / "m50_1_1_0.txt").write_text("0 0 0 300 100 0\n")
    with pytest.raises(BadData, match=r"names patch 300, but info.txt lists 300 patches"):
        ubc.test_pairs(tmp_path, 1)


def test_no_folder_and_no_such_size_are_told(tmp_path):
    with pytest.raises(DataNotFound, match=r"no folder .*nowhere"):
        ubc.load(tmp_path / "nowhere")
    make(tmp_path)
    with pytest.raises(BadInput, match="size 64 or 32, got 48"):
        ubc.load(tmp_path, 48)


def test_pairs_that_contradict_the_points_are_not_written(tmp_path):
    points = np.arange(4) // 2
    patch_set = PatchSet(np.zeros((4, 64, 64), np.uint8), points, points)
    wrong = PatchPairs(np.array([0]), np.array([2]), np.array([True]))
    with pytest.raises(BadInput, match="match exactly where their points are the same"):
        ubc.write(tmp_path, patch_set, xy=np.zeros((4, 2)), angle=np.zeros(4), log2_scale=np.zeros(4), pairs=[wrong])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damaged", ["points.npy", "patches64.npy", "interest.npy", "key.json"])
@pytest.mark.parametrize("left", [0, 100, 5000])
def test_a_damaged_cache_is_made_again(tmp_path, damaged, left):
    make(tmp_path)
    before = ubc.load(tmp_path)
    path = tmp_path / ".hynet" / damaged
    content = path.read_bytes()[:left]
    path.unlink()  # what is mapped into memory must not be cut in place
    path.write_bytes(content)
    after = ubc.load(tmp_path)
    assert np.array_equal(after.patches, before.patches)
    assert np.array_equal(after.points, before.points)
    assert np.array_equal(after.places, before.places)


def test_a_list_of_pairs_that_was_cut_short_is_noticed(tmp_path):
    make(tmp_path)
    path = tmp_path / "m50_40_40_0.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:30]))
    with pytest.raises(BadData, match=r"m50_40_40_0\.txt holds 30 pairs, but its name says 40"):
        ubc.test_pairs(tmp_path, 40)


@pytest.mark.parametrize("number", ["nan", "inf", "1e300"])
def test_points_that_are_not_whole_numbers_are_refused(tmp_path, number):
    make(tmp_path)
    info = tmp_path / "info.txt"
    info.write_text(info.read_text().replace("0 0\n", f"{number} 0\n", 1))
    with pytest.raises(BadData, match=r"info\.txt"):
        ubc.load(tmp_path)
