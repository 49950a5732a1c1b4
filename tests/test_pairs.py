"""Which photos are matched with which."""

from __future__ import annotations

import tracemalloc
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from hynet.errors import BadInput, UnknownName
from hynet.sfm import pairs as pairing

PLACES, PHOTOS = 12, 5


def nothing(name: str) -> np.ndarray:
    raise AssertionError("these pairs need no descriptors")


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def places() -> dict[str, np.ndarray]:
    """Photos of places: 200 descriptors each, half of them noisy views of what is at the place."""
    rng = np.random.default_rng(3)
    photos = {}
    for place in range(PLACES):
        here = rng.normal(size=(150, 32))
        for k in range(PHOTOS):
            seen = here[rng.permutation(150)[:100]] + 0.2 * rng.normal(size=(100, 32))
            photos[f"{k}-{place}.jpg"] = unit(np.concatenate([seen, rng.normal(size=(100, 32))]))
    return photos


def test_up_to_200_photos_all_pairs_are_tried():
    names = [str(k) for k in range(200)]
    assert pairing.choose_pairs("auto", names, nothing) == list(combinations(names, 2))


def test_retrieval_pairs_photos_of_one_place(places: dict[str, np.ndarray]):
    names = sorted(places)
    pairs = pairing.retrieval(names, places.__getitem__, neighbours=PHOTOS - 1)
    same = [first.split("-")[1] == second.split("-")[1] for first, second in pairs]
    assert len(pairs) == len(names) * (PHOTOS - 1)
    assert np.mean(same) > 0.95
    assert pairing.retrieval(names, places.__getitem__, neighbours=PHOTOS - 1) == pairs


def test_beyond_200_photos_the_pairs_grow_with_the_photos():
    rng = np.random.default_rng(0)
    photos = {f"{k:04}": unit(rng.normal(size=(20, 8))) for k in range(230)}
    pairs = pairing.choose_pairs("auto", list(photos), photos.__getitem__)
    assert len(pairs) <= 230 * pairing.NEIGHBOURS
    assert len(set(pairs)) == len(pairs)
    assert all(first < second for first, second in pairs)
    of_each = [sum(name in pair for pair in pairs) for name in photos]
    assert min(of_each) >= pairing.NEIGHBOURS


def test_every_step_of_retrieval_says_how_far_it_is(places: dict[str, np.ndarray]):
    told: dict[str, list[tuple[int, int]]] = {}
    pairing.choose_pairs(
        "retrieval", sorted(places), places.__getitem__, lambda *words: told.setdefault(words[2], []).append(words[:2])
    )
    assert list(told) == ["photo vectors", "finding neighbours"]
    total = 3 * len(places)  # read for the words, for the directions, and for the vectors themselves
    assert told["photo vectors"] == [(k, total) for k in range(1, total + 1)]


def test_a_photo_without_features_is_paired_all_the_same():
    rng = np.random.default_rng(0)
    photos = {
        "a": unit(rng.normal(size=(20, 8))),
        "b": np.zeros((0, 8), np.float32),
        "c": unit(rng.normal(size=(9, 8))),
    }
    assert pairing.choose_pairs("retrieval", list(photos), photos.__getitem__) == [("a", "b"), ("a", "c"), ("b", "c")]


def test_photos_without_any_features_have_no_likeness():
    assert pairing.choose_pairs("retrieval", ["a", "b"], lambda name: np.zeros((0, 8), np.float32)) == []


def test_retrieval_keeps_one_vector_a_photo_in_memory_not_its_descriptors():
    photo = unit(np.random.default_rng(0).normal(size=(8000, 32)))  # 1 MB; as a vector, 8 KB
    names = [str(k) for k in range(120)]
    tracemalloc.start()
    try:
        pairing.retrieval(names, lambda name: np.roll(photo, int(name), axis=0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80e6  # of 120 MB of descriptors


def test_a_sequence_is_ordered_as_people_count():
    names = ["img1.jpg", "img10.jpg", "img2.jpg", "img9.jpg"]
    assert pairing.sequence(names, neighbours=1) == [
        ("img1.jpg", "img2.jpg"),
        ("img2.jpg", "img9.jpg"),
        ("img9.jpg", "img10.jpg"),
    ]


def test_pairs_from_a_file_come_once_and_in_the_order_of_the_photos(tmp_path: Path):
    file = tmp_path / "pairs.txt"
    file.write_text("# hloc's layout\nb/2.jpg a/1.jpg\n\na/1.jpg b/2.jpg\n3.jpg b/2.jpg\n3.jpg 3.jpg\n")
    names = ["3.jpg", "a/1.jpg", "b/2.jpg"]
    assert pairing.choose_pairs(str(file), names, nothing) == [("3.jpg", "b/2.jpg"), ("a/1.jpg", "b/2.jpg")]
    assert pairing.choose_pairs(str(file), names[1:], nothing) == [("a/1.jpg", "b/2.jpg")]  # 3.jpg is broken


def test_a_file_that_names_photos_elsewhere_is_told_before_any_is_read(tmp_path: Path):
    file = tmp_path / "pairs.txt"
    file.write_text("a.jpg b.jpg\n")
    pairing.check(str(file), ["a.jpg", "b.jpg"])
    with pytest.raises(BadInput, match=r"names 'b\.jpg'"):
        pairing.check(str(file), ["a.jpg", "c.jpg"])


@pytest.mark.parametrize("line", ["3.jpg", "3.jpg a/1.jpg b/2.jpg"])
def test_a_line_that_is_no_pair_is_told_with_its_number(tmp_path: Path, line: str):
    file = tmp_path / "pairs.txt"
    file.write_text(f"\n{line}\n")
    with pytest.raises(BadInput, match="line 2"):
        pairing.choose_pairs(str(file), ["3.jpg", "a/1.jpg", "b/2.jpg"], nothing)


def test_a_word_that_is_neither_a_way_nor_a_file_is_told():
    with pytest.raises(UnknownName, match="exhaustive"):
        pairing.check("everything", [])
