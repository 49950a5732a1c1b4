"""Smaller descriptors: what they keep, and that every command takes them."""

from __future__ import annotations

import json

import cv2
import h5py
import numpy as np
import pytest

import hynet
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.errors import BadInput, BadWeights, MissingExtra
from hynet.features.descriptors.compressed import compress, hamming
from hynet.features.hloc_file import read_h5
from hynet.matching import open_matcher
from hynet.types import Features, Keypoints

BYTES = {"pca32": 128, "pca96": 384, "float16": 256, "int8": 128, "bits128": 16, "bits256": 32, "pq16": 16}


@pytest.fixture(scope="module")
def some() -> hynet.PatchSet:
    return synthetic.patch_set(points=600, patches_per_point=2, seed=5)


def error(vectors: np.ndarray, count: int = 300) -> float:
    """FPR@95 in %: patch 2k beside 2k + 1, and beside the next point's."""
    first, second = vectors[0 : 2 * count : 2], vectors[1 : 2 * count : 2]
    apart = np.concatenate([np.linalg.norm(first - other, axis=1) for other in (second, np.roll(second, 1, 0))])
    return 100 * hynet.metrics.fpr95(apart, np.repeat([True, False], count))


@pytest.fixture(scope="module")
def unseen() -> np.ndarray:
    return synthetic.patch_set(points=300, patches_per_point=2, seed=6).patches


@pytest.mark.parametrize("to", BYTES)
def test_a_code_keeps_most_of_what_a_descriptor_knows(to, some, unseen, tmp_path):
    if to.startswith("pq"):
        pytest.importorskip("faiss")
    made = compress("rootsift", some.patches, to, tmp_path / "c.hynet")
    loaded = hynet.load(tmp_path / "c.hynet")
    vectors = loaded.describe(unseen)
    assert np.array_equal(vectors, made.describe(unseen))
    assert vectors.shape == (600, loaded.dim)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert loaded.bytes == BYTES[to]
    whole = error(hynet.load("rootsift").describe(unseen))
    assert error(vectors) < whole + (1 if to in ("float16", "int8", "pca96") else 15)


def test_the_same_patches_give_the_same_bytes(some, tmp_path):
    for name in ("a", "b"):
        compress("rootsift", some.patches[:1000], "bits128", tmp_path / f"{name}.hynet")
    assert (tmp_path / "a.hynet").read_bytes() == (tmp_path / "b.hynet").read_bytes()


def test_commands_take_the_file_and_it_holds_the_network(some, tmp_path, capsys):
    from hynet.datasets import ubc

    number, origin = np.arange(len(some)), np.zeros(len(some))
    places = {"xy": np.zeros((len(some), 2)), "angle": origin, "log2_scale": origin}
    ubc.write(tmp_path / "set", hynet.PatchSet(some.patches, number // 2, number), **places)
    asked = f"compress --model rootsift --fit {tmp_path}/set --to pca64 --out {tmp_path}/c.hynet --json"
    assert main(asked.split()) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == 256
    photo = tmp_path / "photo.png"
    cv2.imwrite(str(photo), synthetic.texture((240, 180), seed=3))
    assert main(f"extract {photo} --model {tmp_path}/c.hynet --out {tmp_path}/f.h5".split()) == 0
    assert main(f"match {photo} {photo} --model {tmp_path}/c.hynet --out {tmp_path}/m.png --json".split()) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["inliers"] > 50
    # A network's weights are inside.
    made = compress("default", some.patches[:1000], "float16", tmp_path / "d.hynet")
    vectors = made.describe(some.patches[:9])
    assert vectors == pytest.approx(hynet.load("default").describe(some.patches[:9]), abs=1e-3)
    assert (made.support, made.ratio) == (hynet.load("default").support, hynet.load("default").ratio)


def test_hamming_finds_what_nearest_neighbours_of_signs_find(some, tmp_path):
    made = compress("rootsift", some.patches, "bits256", tmp_path / "c.hynet")
    assert made.ratio == pytest.approx(np.sqrt(hynet.load("rootsift").ratio or 0)) or made.ratio is None
    first, second = made.describe(some.patches[0::2]), made.describe(some.patches[1::2])
    places = Keypoints.from_circles(np.zeros((600, 2)), np.ones(600), np.zeros(600), np.ones(600))
    a, b = Features(places, first, (1, 1)), Features(places, second, (1, 1))
    for ratio in (None, 0.9):
        by_bits = open_matcher("hamming", ratio=ratio)(a, b)
        by_floats = hynet.match(a, b, ratio)
        ours, theirs = ({tuple(row) for row in found.indices.tolist()} for found in (by_bits, by_floats))
        assert len(ours & theirs) > 0.97 * max(len(ours), len(theirs)) > 100  # equal distances are decided otherwise
    right = by_bits.indices[:, 0] == by_bits.indices[:, 1]
    assert right.mean() > 0.9
    assert len(open_matcher("hamming")(a[:0], b)) == 0
    with pytest.raises(BadInput, match="not bits"):
        open_matcher("hamming")(
            b, Features(places, np.tile(hynet.load("rootsift").describe(some.patches[:600]), 2), (1, 1))
        )
    opposite = Features(places, -second, (1, 1))
    assert np.array_equal(open_matcher("hamming", ratio=1.0)(b, b).indices[:, 0], np.arange(600))
    assert open_matcher("hamming", ratio=1.0)(b, opposite).distances.min() > 0.5  # none is its own opposite


@pytest.mark.parametrize("counted_by", ["numpy", "faiss"])
@pytest.mark.parametrize("bits", [64, 128, 256, 512])
def test_hamming_distances_are_those_counted_bit_by_bit(bits, counted_by, monkeypatch):
    if counted_by == "faiss":
        pytest.importorskip("faiss")
    else:
        monkeypatch.setattr(hamming, "_faiss", lambda: None)
    monkeypatch.setattr(hamming, "TILE", 7 * 130)
    rng = np.random.default_rng(bits)
    first, second = rng.random((301, bits)) < 0.5, rng.random((130, bits)) < 0.5
    first[:9] = second[9:18]  # some are equal, to others of the same photo too
    first[20:30] = first[0]
    words = [np.packbits(rows, axis=1).view(np.uint64) for rows in (first, second)]
    usual = np.getbufsize()
    best, apart, runner_up, of_second = hamming.nearest_by_bits(*words)
    counted = (first[:, None] != second[None]).sum(2)
    assert np.array_equal(best, counted.argmin(1))
    assert np.array_equal(apart, counted.min(1))
    assert np.array_equal(runner_up, np.sort(counted, axis=1)[:, 1])
    assert np.array_equal(of_second, counted.min(0))
    assert np.getbufsize() == usual
    opposite = hamming.nearest_by_bits(words[0][:1], ~words[0][:1])[1]
    assert opposite in (bits, bits - 1)  # 256 bits are counted in bytes


def test_a_size_that_does_not_suit_the_model_is_told_before_anything_is_described(some, tmp_path, monkeypatch):
    def describe(self, patches):
        raise AssertionError("describing takes minutes")

    monkeypatch.setattr(type(hynet.load("rootsift")), "describe", describe)
    for to in ("pca128", "bits100", "pq7"):
        with pytest.raises((BadInput, MissingExtra)):
            compress("rootsift", some.patches, to, tmp_path / "c.hynet")


def test_what_cannot_be_compressed_or_opened_is_told(some, tmp_path):
    for to, why in [("pca128", "fewer than the 128"), ("bits100", "multiple of 8"), ("zip", "no code 'zip'")]:
        with pytest.raises(BadInput, match=why):
            compress("rootsift", some.patches, to, tmp_path / "c.hynet")
    with pytest.raises((BadInput, MissingExtra), match=r"equal parts|needs faiss"):
        compress("rootsift", some.patches, "pq7", tmp_path / "c.hynet")
    with pytest.raises(BadInput, match=r"\.hynet file"):
        compress("rootsift", some.patches, "int8", tmp_path / "c.onnx")
    with pytest.raises(BadInput, match=r"is a folder.* as \.onnx first"):
        compress(tmp_path, some.patches, "int8", tmp_path / "c.hynet")
    with pytest.raises(BadInput, match="1000 patches or more, got 9"):
        compress("rootsift", some.patches[:9], "int8", tmp_path / "c.hynet")
    assert not list(tmp_path.iterdir())
    compress("rootsift", some.patches, "int8", tmp_path / "c.hynet")
    with pytest.raises(BadInput, match="compressed already"):
        compress(tmp_path / "c.hynet", some.patches, "int8", tmp_path / "d.hynet")
    content = (tmp_path / "c.hynet").read_bytes()
    for broken in (b"", b"no", content[: len(content) // 2]):
        (tmp_path / "c.hynet").write_bytes(broken)
        with pytest.raises(BadWeights, match="not a compressed model"):
            hynet.load(tmp_path / "c.hynet")


def test_a_features_file_takes_half_or_a_quarter_of_the_disk(tmp_path, capsys):
    photo = tmp_path / "photo.png"
    cv2.imwrite(str(photo), synthetic.texture((240, 180), seed=3))
    found, sizes = {}, {}
    for precision in ("float32", "float16", "int8"):
        file = tmp_path / f"{precision}.h5"
        asked = f"extract {photo} --model rootsift --max-keypoints 200 --precision {precision} --out {file}"
        assert main(asked.split()) == 0
        assert main(asked.split()) == 0  # a second run keeps what is there
        assert "0 of them new" in capsys.readouterr().out.splitlines()[-1]
        found[precision] = read_h5(file, "photo.png")
        with h5py.File(file) as stored:
            sizes[precision] = stored["photo.png/descriptors"].nbytes
    assert sizes["float32"] == 2 * sizes["float16"] == 4 * sizes["int8"]
    for precision, bound in (("float16", 1e-3), ("int8", 0.02)):
        apart = np.linalg.norm(found[precision].descriptors - found["float32"].descriptors, axis=1)
        assert apart.max() < bound
    assert np.linalg.norm(found["int8"].descriptors, axis=1) == pytest.approx(1, abs=1e-5)
    assert main(f"extract {photo} --model rootsift --max-keypoints 200 --out {tmp_path}/int8.h5".split()) == 2
    assert "precision was int8, now float32" in capsys.readouterr().err
