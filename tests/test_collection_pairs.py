"""Pairs of a collection: neighbours by one vector a photo, what stands out, and what is missed."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import h5py
import numpy as np
import pytest

from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput, MissingExtra
from hynet.features.collection import IndexRow, write_index, write_rows
from hynet.features.folder import extract_all
from hynet.features.hloc_file import write_group
from hynet.features.settings import FeatureSettings
from hynet.matching.hloc_matches import read_pairs
from hynet.runtime.pool import open_pool
from hynet.sfm.collection_pairs import find_pairs
from hynet.sfm.pairs import unique_pairs
from hynet.sfm.retrieval import most_similar
from hynet.types import Features, Keypoints
from test_pairs import PHOTOS, places, unit  # noqa: F401  (a fixture)


@pytest.fixture(scope="module")
def cluster():
    with open_pool("local", workers=1) as here:
        yield here


def features(descriptors: np.ndarray) -> Features:
    xy = np.random.default_rng(len(descriptors)).uniform(0, 100, (len(descriptors), 2)).astype(np.float32)
    ones = np.ones(len(xy), np.float32)
    return Features(Keypoints.from_circles(xy, ones, 0 * ones, ones), descriptors, (100, 100))


def write_file(path: Path, photos: dict[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, descriptors in photos.items():
            write_group(file, name, features(descriptors))
    return path


def write_collection(folder: Path, photos: dict[str, np.ndarray], size: int = 20) -> Path:
    names, shards = list(photos), {}
    for start in range(0, len(names), size):
        shard = f"shards/{len(shards):05}.h5"
        shards[shard] = names[start : start + size]
        write_file(folder / shard, {name: photos[name] for name in shards[shard]})
        write_rows(
            (folder / shard).with_suffix(".parquet"),
            [IndexRow(name, shard, 200, name, "done") for name in shards[shard]],
        )
    write_index(folder, shards)
    return folder


def same_place(names, pairs) -> float:
    return np.mean([names[a].split("-")[1] == names[b].split("-")[1] for a, b in pairs])


def test_photos_of_one_place_are_paired_and_a_collection_pairs_as_a_file_does(places, cluster, tmp_path):  # noqa: F811
    pytest.importorskip("pyarrow")
    ordered = dict(sorted(places.items()))
    one = find_pairs(write_file(tmp_path / "one.h5", ordered), PHOTOS - 1, cluster=cluster)
    assert same_place(one.names, one.pairs) > 0.9
    many = find_pairs(write_collection(tmp_path / "many", ordered), PHOTOS - 1, cluster=cluster)
    assert list(many.names) == list(one.names)
    assert np.array_equal(many.pairs, one.pairs)
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "many" / "vectors").iterdir()}
    assert sorted(kept) == ["00000.npy", "00001.npy", "00002.npy", "learnt.npz"]
    find_pairs(tmp_path / "many", 3, cluster=cluster)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "many" / "vectors").iterdir()} == kept


def test_copies_are_told_and_so_is_a_photo_that_no_other_is_like(places, cluster, tmp_path):  # noqa: F811
    rng = np.random.default_rng(5)
    one = next(iter(places))
    strange = {"copy.jpg": places[one], "alone-x.jpg": unit(rng.normal(size=(200, 32)))}
    found = find_pairs(write_file(tmp_path / "one.h5", {**places, **strange}), 5, cluster=cluster)
    assert [{found.names[a], found.names[b]} for a, b in found.duplicates] == [{one, "copy.jpg"}]
    assert "alone-x.jpg" in [found.names[k] for k in found.alone]
    assert "copy.jpg" not in [found.names[k] for k in found.alone]


def test_an_index_finds_nearly_all_that_comparing_all_finds():
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(300, 32))
    vectors = unit((centres[:, None] + 0.5 * rng.normal(size=(300, 10, 32))).reshape(-1, 32))
    exact, similar = most_similar(vectors, 9, exact=True)
    assert (np.diff(similar, axis=1) <= 0).all()
    found, _ = most_similar(vectors, 9, exact=False)
    assert np.mean([len(set(a) & set(b)) / 9 for a, b in zip(exact, found, strict=True)]) > 0.95


def test_each_pair_is_listed_once_the_smaller_row_first():
    assert unique_pairs(np.array([[1, 2], [0, -1], [0, 1]])).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_the_command_writes_pairs_and_says_what_it_misses(tmp_path, capsys):
    truth = synthetic.scene(seed=1, photos=3, size=(320, 240))
    (tmp_path / "photos").mkdir()
    for k, photo in enumerate([*truth.photos, synthetic.texture((320, 240), seed=70)]):
        cv2.imwrite(str(tmp_path / "photos" / f"{k}.png"), photo)
    settings = FeatureSettings(model="rootsift", max_keypoints=500, orientation="upright")
    extract_all(tmp_path / "photos", tmp_path / "f.h5", settings)
    args = f"pairs {tmp_path}/f.h5 --neighbours 1 --check 4 --jobs 1 --out {tmp_path}/pairs.txt --json"
    assert main(args.split()) == 0
    told = json.loads(capsys.readouterr().out)
    pairs = read_pairs(tmp_path / "pairs.txt")
    assert len(pairs) == told["pairs"]
    assert {name for pair in pairs for name in pair} == {"0.png", "1.png", "2.png", "3.png"}
    assert told["recall"]["photos"] == 4
    assert 1 <= told["recall"]["found"] <= told["recall"]["verified"] == 3


def test_what_cannot_be_paired_is_told_in_one_sentence(places, cluster, tmp_path):  # noqa: F811
    with pytest.raises(BadInput, match="no collection and no features file"):
        find_pairs(tmp_path / "nothing", 5, cluster=cluster)
    (name, descriptors), *_ = places.items()
    with pytest.raises(BadInput, match="holds 1 photos; pairs need two"):
        find_pairs(write_file(tmp_path / "one.h5", {name: descriptors}), 5, cluster=cluster)
    with pytest.raises(BadInput, match=r"'a b\.jpg' has white space"):
        find_pairs(write_file(tmp_path / "two.h5", {name: descriptors, "a b.jpg": descriptors}), 5, cluster=cluster)
    with pytest.raises(BadInput, match="at least 1"):
        find_pairs(tmp_path / "two.h5", 0, cluster=cluster)


def test_the_extra_is_named_where_faiss_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"needs faiss: pip install 'hynet-features\[faiss\]'"):
        most_similar(unit(np.random.default_rng(0).normal(size=(100, 8))), 3, exact=False)
