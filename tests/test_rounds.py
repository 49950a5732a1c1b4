"""Pairs in rounds: what is verified says whom to match next."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import pytest

from hynet import colmap
from hynet.datasets import synthetic
from hynet.extractors.folder import extract_all
from hynet.extractors.settings import Settings
from hynet.sfm import reconstruction, rounds
from hynet.sfm.reconstruction import reconstruct
from hynet.sfm.rounds import in_rounds
from hynet.system.cluster import open_cluster

# --- Which pairs ---


def ring(photos: int, neighbours: int) -> np.ndarray:
    """(V, k): each with the next ones around a place."""
    return (np.arange(photos)[:, None] + np.arange(1, neighbours + 1)) % photos


def test_photos_of_one_place_find_each_other_and_those_of_two_do_not():
    place = np.repeat([0, 1], 30)
    rows = np.concatenate([ring(30, 2), ring(30, 2) + 30])
    rows[4, 1] = 47  # looks alike, is not
    tried = in_rounds(rows, lambda pairs: place[pairs[:, 0]] == place[pairs[:, 1]])
    of_one = [*combinations(range(30), 2), *combinations(range(30, 60), 2)]
    assert list(map(tuple, tried)) == sorted([*of_one, (4, 47)])


def test_only_what_shares_a_verified_partner_is_tried():
    """Photos on a ring of 40 that see the next 4: beyond 8 steps there is nobody in common."""

    def steps(pairs: np.ndarray) -> np.ndarray:
        apart = pairs[:, 1] - pairs[:, 0]
        return np.minimum(apart, 40 - apart)

    tried = in_rounds(ring(40, 1), lambda pairs: steps(pairs) <= 4)
    assert set(steps(tried)) == set(range(1, 9))
    assert len(tried) == 40 * 8


def test_where_nothing_is_verified_there_is_one_round():
    asked: list[int] = []

    def nothing(pairs: np.ndarray) -> np.ndarray:
        asked.append(len(pairs))
        return np.zeros(len(pairs), bool)

    in_rounds(ring(20, 3), nothing)
    assert asked == [60]
    assert len(in_rounds(np.zeros((5, 0), int), nothing)) == 0  # photos without keypoints


# --- In a reconstruction ---


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six of one place and three of another, whose third neighbour is a stranger."""
    folder = tmp_path_factory.mktemp("two") / "photos"
    folder.mkdir()
    for place, count in enumerate((6, 3)):
        for k, photo in enumerate(synthetic.scene(seed=place, photos=count, size=(400, 300)).photos):
            cv2.imwrite(str(folder / f"{place}-{k}.png"), photo)
    extract_all(folder, folder.parent / "features.h5", Settings(descriptor="rootsift", max_keypoints=600), jobs=1)
    return folder


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds from 6 photos on, that begin with three neighbours."""
    pytest.importorskip("pycolmap")
    monkeypatch.setattr(reconstruction, "ALL_PAIRS", 5)
    monkeypatch.setattr(rounds, "FIRST", 3)


def run(photos: Path, out: Path, **options) -> dict[str, bytes]:
    """The files of the model."""
    reconstruct(photos, out, features=photos.parent / "features.h5", ratio=0.85, jobs=1, **options)
    return {name: (out / name).read_bytes() for name in colmap.MODEL_FILES}


def tried(out: Path) -> set[tuple[str, str]]:
    return set(colmap.read_funnel(out / "database.db").matches)


def verified(out: Path) -> set[tuple[str, str]]:
    return {pair for pair, count in colmap.read_funnel(out / "database.db").inliers.items() if count >= 15}


def test_rounds_verify_what_all_pairs_verify_with_fewer_pairs(photos: Path, tmp_path: Path):
    run(photos, tmp_path / "rounds")
    run(photos, tmp_path / "all", pairs="exhaustive")
    assert verified(tmp_path / "rounds") == verified(tmp_path / "all")
    assert len(verified(tmp_path / "all")) > 10
    assert len(tried(tmp_path / "rounds")) < 30 < len(tried(tmp_path / "all")) == 36


def test_a_run_that_is_stopped_in_a_later_round_goes_on_there_and_ends_the_same(photos: Path, tmp_path: Path):
    told: list[tuple[int, int]] = []

    def note(done: int, total: int, what: str) -> None:
        if what == "matching":
            told.append((done, total))

    whole = run(photos, tmp_path / "whole", progress=note)
    pairs = len(tried(tmp_path / "whole"))
    first = told[0][1]
    assert [done for done, _ in told] == list(range(1, pairs + 1))
    assert first < pairs == told[-1][1]

    def stop(done: int, total: int, what: str) -> None:
        if what == "matching" and done == first + 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(photos, tmp_path / "stopped", progress=stop)
    before = len(tried(tmp_path / "stopped"))
    assert first <= before < pairs
    told.clear()
    assert run(photos, tmp_path / "stopped", progress=note) == whole
    assert len(told) == pairs - before  # none was matched twice
    assert tried(tmp_path / "stopped") == tried(tmp_path / "whole")


def test_a_cluster_matches_the_same_pairs(photos: Path, tmp_path: Path):
    with open_cluster("local", workers=1) as cluster:
        by_cluster = run(photos, tmp_path / "cluster", cluster=cluster)
    assert by_cluster == run(photos, tmp_path / "here")
    assert tried(tmp_path / "cluster") == tried(tmp_path / "here")


def test_pairs_that_were_asked_for_are_not_chosen_in_rounds(photos: Path, tmp_path: Path):
    (tmp_path / "pairs.txt").write_text("0-0.png 0-1.png\n0-1.png 0-2.png\n")
    run(photos, tmp_path / "model", pairs=str(tmp_path / "pairs.txt"))
    assert len(tried(tmp_path / "model")) == 2
