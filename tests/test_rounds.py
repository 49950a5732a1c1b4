"""Pairs in rounds: what is verified says whom to match next."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import cv2
import numpy as np
import pytest

from hynet.datasets import synthetic
from hynet.features.folder import extract_all
from hynet.features.settings import FeatureSettings
from hynet.runtime.pool import open_pool
from hynet.sfm import colmap
from hynet.sfm import pairs as rounds
from hynet.sfm import reconstruct as reconstruction
from hynet.sfm.pairs import in_rounds
from hynet.sfm.reconstruct import reconstruct

# --- Which pairs ---


def by_distance(place: np.ndarray) -> np.ndarray:
    """(V,) or (V, n) places -> (V, V - 1): of each photo all others, the nearest first."""
    apart = np.abs(place[:, None] - place).reshape(len(place), len(place), -1).sum(2).astype(float)
    np.fill_diagonal(apart, -1)
    return np.argsort(apart, axis=1, kind="stable")[:, 1:]


def test_photos_of_one_place_find_each_other_and_those_of_two_hardly_meet():
    place = np.repeat([0, 1], 30)
    order = by_distance(100 * place + np.tile(np.arange(30), 2))
    tried = in_rounds(order, lambda pairs: place[pairs[:, 0]] == place[pairs[:, 1]], first=2, bridges=1)
    of_one = {*combinations(range(30), 2), *combinations(range(30, 60), 2)}
    found = set(map(tuple, tried.tolist()))
    assert of_one < found
    assert len(found - of_one) <= 60  # a bridge a photo


def test_only_what_shares_a_verified_partner_is_tried():
    """Photos on a ring of 40 that see the next 4: beyond 8 steps there is nobody in common."""

    def steps(pairs: np.ndarray) -> np.ndarray:
        apart = pairs[:, 1] - pairs[:, 0]
        return np.minimum(apart, 40 - apart)

    turn = np.arange(40) * np.pi / 20
    order = by_distance(np.stack([np.cos(turn), np.sin(turn)], 1))
    tried = in_rounds(order, lambda pairs: steps(pairs) <= 4, first=2, bridges=3)
    assert set(steps(tried)) == set(range(1, 9))
    assert len(tried) == 40 * 8


def test_two_sides_of_a_building_meet_although_every_photo_has_nearer_ones_on_its_own_side():
    side, along = np.repeat([0, 1], 30), np.tile(np.arange(30), 2)
    order = by_distance(100 * side + np.where(side == 0, along, -along))

    def share(pairs: np.ndarray) -> np.ndarray:
        """Photos of one side, and those near the corner."""
        first, second = pairs.T
        return (side[first] == side[second]) | ((along[first] >= 20) & (along[second] >= 20))

    everything = np.array(list(combinations(range(60), 2)))
    tried = set(map(tuple, in_rounds(order, share, first=15, bridges=3).tolist()))
    assert set(map(tuple, everything[share(everything)].tolist())) <= tried
    apart = set(map(tuple, in_rounds(order, share, first=15, bridges=0).tolist()))
    assert all(side[first] == side[second] for first, second in apart)  # bridges it was


def test_where_nothing_is_verified_there_is_one_round():
    asked: list[int] = []

    def nothing(pairs: np.ndarray) -> np.ndarray:
        asked.append(len(pairs))
        return np.zeros(len(pairs), bool)

    tried = in_rounds(by_distance(np.arange(20)), nothing, first=3, bridges=3)
    assert asked == [len(tried)]
    assert len(in_rounds(np.zeros((5, 0), int), nothing, first=3, bridges=3)) == 0  # photos without keypoints


# --- In a reconstruction ---


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six of one place and three of another, whose third neighbour is a stranger."""
    folder = tmp_path_factory.mktemp("two") / "photos"
    folder.mkdir()
    for place, count in enumerate((6, 3)):
        for k, photo in enumerate(synthetic.scene(seed=place, photos=count, size=(400, 300)).photos):
            cv2.imwrite(str(folder / f"{place}-{k}.png"), photo)
    extract_all(folder, folder.parent / "features.h5", FeatureSettings(model="rootsift", max_keypoints=600), jobs=1)
    return folder


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds from 6 photos on, that begin with three neighbours, and bridges of one."""
    pytest.importorskip("pycolmap")
    monkeypatch.setattr(reconstruction, "ALL_PAIRS", 5)
    monkeypatch.setattr(rounds, "FIRST", 3)
    monkeypatch.setattr(rounds, "BRIDGES", 1)


in_rounds_of_few = pytest.mark.usefixtures("few")


def run(photos: Path, out: Path, **options) -> dict[str, bytes]:
    """The files of the model."""
    reconstruct(photos, out, features=photos.parent / "features.h5", ratio=0.85, jobs=1, **options)
    return {name: (out / name).read_bytes() for name in colmap.MODEL_FILES}


def tried(out: Path) -> set[tuple[str, str]]:
    return set(colmap.read_funnel(out / "database.db").matches)


def verified(out: Path) -> set[tuple[str, str]]:
    return {pair for pair, count in colmap.read_funnel(out / "database.db").inliers.items() if count >= 15}


@in_rounds_of_few
def test_rounds_verify_what_all_pairs_verify_with_fewer_pairs(photos: Path, tmp_path: Path):
    run(photos, tmp_path / "rounds")
    run(photos, tmp_path / "all", pairs="exhaustive")
    assert verified(tmp_path / "rounds") == verified(tmp_path / "all")
    assert len(verified(tmp_path / "all")) > 10
    assert len(tried(tmp_path / "rounds")) < 30 < len(tried(tmp_path / "all")) == 36


@in_rounds_of_few
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


@in_rounds_of_few
def test_a_cluster_matches_the_same_pairs(photos: Path, tmp_path: Path):
    with open_pool("local", workers=1) as cluster:
        by_cluster = run(photos, tmp_path / "cluster", cluster=cluster)
    assert by_cluster == run(photos, tmp_path / "here")
    assert tried(tmp_path / "cluster") == tried(tmp_path / "here")


@in_rounds_of_few
def test_pairs_that_were_asked_for_are_not_chosen_in_rounds(photos: Path, tmp_path: Path):
    (tmp_path / "pairs.txt").write_text("0-0.png 0-1.png\n0-1.png 0-2.png\n")
    run(photos, tmp_path / "model", pairs=str(tmp_path / "pairs.txt"))
    assert len(tried(tmp_path / "model")) == 2


@in_rounds_of_few
def test_photos_that_come_later_are_matched_in_rounds_without_matching_anything_twice(photos: Path, tmp_path: Path):
    growing = tmp_path / "growing" / "photos"
    growing.mkdir(parents=True)
    (growing.parent / "features.h5").symlink_to(photos.parent / "features.h5")
    names = sorted(photo.name for photo in photos.iterdir())
    for name in names[:5]:
        (growing / name).symlink_to(photos / name)
    run(growing, tmp_path / "model")
    assert len(tried(tmp_path / "model")) == 10  # all pairs of five
    for name in names[5:]:
        (growing / name).symlink_to(photos / name)
    told: list[int] = []
    run(
        growing,
        tmp_path / "model",
        progress=lambda done, total, what: told.append(done) if what == "matching" else None,
    )
    assert len(told) == len(tried(tmp_path / "model")) - 10
    run(photos, tmp_path / "all", pairs="exhaustive")
    assert verified(tmp_path / "model") == verified(tmp_path / "all")


@in_rounds_of_few
def test_more_photos_than_all_pairs_are_meant_for_have_no_rounds(photos: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(reconstruction.pairing, "EXHAUSTIVE", 8)
    monkeypatch.setattr(reconstruction, "match_in_rounds", lambda *given: pytest.fail("a round"))
    run(photos, tmp_path / "model")
    assert len(tried(tmp_path / "model")) == 36  # the 50 most alike of nine


@in_rounds_of_few
def test_photos_without_keypoints_take_nobodys_place(photos: Path, tmp_path: Path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for photo in photos.iterdir():
        (folder / photo.name).symlink_to(photo)
    for k in range(4):
        cv2.imwrite(str(folder / f"black-{k}.png"), np.zeros((300, 400), np.uint8))
    extract_all(folder, tmp_path / "features.h5", FeatureSettings(model="rootsift", max_keypoints=600), jobs=1)
    run(folder, tmp_path / "with")
    run(photos, tmp_path / "without")
    assert tried(tmp_path / "with") == tried(tmp_path / "without")


@in_rounds_of_few
@pytest.mark.parametrize("with_keypoints", [0, 1])
def test_where_fewer_than_two_photos_have_keypoints_there_is_nothing_to_match(
    photos: Path, tmp_path: Path, with_keypoints: int
):
    folder = tmp_path / "photos"
    folder.mkdir()
    for photo in sorted(photos.iterdir())[:with_keypoints]:
        (folder / photo.name).symlink_to(photo)
    for k in range(6):
        cv2.imwrite(str(folder / f"black-{k}.png"), np.zeros((300, 400), np.uint8))
    extract_all(folder, tmp_path / "features.h5", FeatureSettings(model="rootsift", max_keypoints=600), jobs=1)
    with pytest.raises(colmap.NotReconstructed):
        run(folder, tmp_path / "model")
