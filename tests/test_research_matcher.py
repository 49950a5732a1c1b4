"""The learned matcher in research/matcher: its graph, its start at `consensus`, its shards and its training loop."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from research.matcher import made_pairs, real_pairs, shards  # noqa: E402
from research.matcher.describing import MODELS, circles, extractors  # noqa: E402
from research.matcher.evaluate import interval  # noqa: E402
from research.matcher.examples import RIGHT, UNKNOWN, WRONG, Pool, labels, points  # noqa: E402
from research.matcher.graph import BESIDE, beside, winners  # noqa: E402
from research.matcher.graph import candidates as edges_of  # noqa: E402
from research.matcher.hynet_paths import Features, match  # noqa: E402
from research.matcher.network import Glue, judged, prepare  # noqa: E402
from research.matcher.train import Run, train  # noqa: E402
from research.matcher.train import main as train_command  # noqa: E402

SIZE = 640, 480
H = np.array([[0.8, -0.3, 120.0], [0.3, 0.8, -40.0], [0.0, 0.0, 1.0]])  # a similarity: scale .85, turn 20.6 degrees


def seen(random: np.random.Generator, count: int) -> shards.Seen:
    xy = random.uniform([20, 20], [620, 460], (count, 2)).astype(np.float32)
    vectors = random.normal(size=(count, 128))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    sigma, angle = random.uniform(2, 9, count), random.uniform(-3, 3, count)
    codes = {"light": shards.encode(vectors), "default": shards.encode(-vectors)}
    sigma, angle, scores = (each.astype(np.float32) for each in (sigma, angle, random.random(count)))
    return shards.Seen("scene/photo.jpg", SIZE, xy, sigma, angle, scores, xy, 1.0, codes)


def moved(first: shards.Seen, random: np.random.Generator, share: float = 0.6, noise: float = 0.05) -> shards.Seen:
    """A second view of the plane: so many of the keypoints where H takes them, the others anywhere."""
    at, sigma, angle = made_pairs.carried(first, H)
    other = seen(random, len(first))
    kept = random.random(len(first)) < share
    xy = np.where(kept[:, None], at + random.normal(0, 0.3, at.shape), other.xy).astype(np.float32)
    codes = {}
    for model in first.codes:
        vectors = shards.decode(first.codes[model]) + random.normal(0, noise, (len(first), 128))
        vectors = np.where(kept[:, None], vectors, shards.decode(other.codes[model]))
        codes[model] = shards.encode(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    sigma, angle = (np.where(kept, *two).astype(np.float32) for two in ((sigma, other.sigma), (angle, other.angle)))
    return shards.Seen("scene/other.jpg", SIZE, xy, sigma, angle, other.scores, xy, 1.0, codes)


@pytest.fixture(scope="module")
def pair() -> tuple[shards.Seen, shards.Seen, shards.Truth]:
    random = np.random.default_rng(1)
    a = seen(random, 300)
    b = moved(a, random)
    return a, b, shards.Truth((0, 1), "made", made_pairs.positives(a, b, H), H)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, pair: tuple) -> Path:
    random = np.random.default_rng(2)
    path = tmp_path_factory.mktemp("shards")
    for number in range(2):
        photos, truths = [], []
        for place in range(3):
            a = seen(random, 120)
            b = moved(a, random, noise=0.08)
            truths.append(shards.Truth((2 * place, 2 * place + 1), "made", made_pairs.positives(a, b, H), H))
            photos += [a, b]
        shards.save(path / f"made-{number}.npz", shards.Shard(photos, truths))
    return path


def given(a: shards.Seen, b: shards.Seen, model: str = "light"):
    every = np.arange(len(a)), np.arange(len(b))
    vectors = [shards.decode(each.codes[model]) for each in (a, b)]
    return prepare(*vectors, points(a, every[0]), points(b, every[1]))


def test_candidates_are_each_others_nearest_and_hold_the_true_matches(pair):
    a, b, truth = pair
    vectors = [shards.decode(each.codes["light"]) for each in (a, b)]
    every = np.arange(300)
    edges = edges_of(*vectors, points(a, every), points(b, every))
    likeness = vectors[0] @ vectors[1].T
    rank = (likeness[edges.i] > likeness[edges.i, edges.j][:, None]).sum(1)
    rank_back = (likeness[:, edges.j] > likeness[edges.i, edges.j]).sum(0)
    assert rank.max() < 6
    assert rank_back.max() < 6
    found = set(zip(edges.i.tolist(), edges.j.tolist(), strict=True))
    same = truth.positives[truth.positives[:, 0] == truth.positives[:, 1]]  # others lie there by chance
    assert len(same) > 150
    assert {tuple(each) for each in same.tolist()} <= found


def test_true_matches_put_their_neighbours_where_they_are_and_wrong_ones_do_not(pair):
    a, b, truth = pair
    edges = given(a, b).edges
    anchors = np.flatnonzero(edges.mutual)
    near = beside(edges, np.arange(len(edges)), anchors, *(points(each, np.arange(300)) for each in (a, b)))
    known = labels(edges, a, b, np.arange(300), np.arange(300), truth)
    right_anchor = (known == RIGHT)[near.edges] & (near.known > 0)
    alike = near.relations[..., 6]
    assert alike[known == RIGHT][right_anchor[known == RIGHT]].mean() > 0.95
    assert alike[known == WRONG][right_anchor[known == WRONG]].mean() < 0.2


def test_labels_of_a_made_pair_say_right_wrong_and_leave_out_what_lies_near(pair):
    a, b, truth = pair
    edges = given(a, b).edges
    known = labels(edges, a, b, np.arange(300), np.arange(300), truth)
    away = np.hypot(*(made_pairs.carried(a, H)[0][edges.i] - b.xy[edges.j]).T)
    right = truth.positives[:, 0] == truth.positives[:, 1]  # others lie there by chance
    assert (known == RIGHT).sum() >= right.sum()
    assert away[known == RIGHT].max() < 3
    assert away[known == WRONG].min() > 6
    assert set(known[(away > 3.1) & (away < 6)].tolist()) <= {UNKNOWN}


def test_candidates_far_from_the_epipolar_line_are_wrong_and_others_unknown():
    random = np.random.default_rng(3)
    a, b = seen(random, 100), seen(random, 100)
    sideways = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # lines are rows of the photo
    i = np.arange(100)
    rows_apart = np.abs(a.xy[:, 1] - b.xy[:, 1])
    assert np.allclose(real_pairs.line_distances(a, b, sideways, i, i), rows_apart, atol=1e-3)
    truth = shards.Truth((0, 1), "real", np.zeros((0, 2), int), sideways)
    edges = given(a, b).edges
    apart = np.abs(a.xy[edges.i, 1] - b.xy[edges.j, 1])
    assert (labels(edges, a, b, i, i, truth) == np.where(apart > 12, WRONG, UNKNOWN)).all()


def test_the_untrained_network_has_the_logits_of_consensus(pair):
    a, b, _ = pair
    features = [Features(circles(each), shards.decode(each.codes["light"]), SIZE) for each in (a, b)]
    expected = match(*features, 1.0)
    found, logits = judged(Glue(), given(a, b))
    by_match = {tuple(each): value for each, value in zip(found.tolist(), logits.tolist(), strict=True)}
    probability = 1 / (1 + np.exp(-np.array([by_match[tuple(each)] for each in expected.indices.tolist()])))
    assert np.allclose(probability, expected.confidence, atol=1e-3)
    assert logits[[tuple(each) not in set(map(tuple, expected.indices.tolist())) for each in found.tolist()]].max() < -5


def test_candidates_and_what_is_known_of_them_are_the_same_whichever_photo_comes_first(pair):
    a, b, _ = pair
    one, two = given(a, b), given(b, a)
    order, turned = np.lexsort((one.edges.j, one.edges.i)), np.lexsort((two.edges.i, two.edges.j))
    assert np.array_equal(two.edges.j[turned], one.edges.i[order])
    assert np.allclose(two.edges.features[turned], one.edges.features[order], atol=1e-4)
    assert np.allclose(two.near.relations[turned][:, BESIDE:], one.near.relations[order][:, :BESIDE], atol=1e-3)
    assert np.array_equal(two.near.known[turned][:, :BESIDE], one.near.known[order][:, BESIDE:])


def test_winners_are_best_for_both_keypoints(pair):
    edges = given(*pair[:2]).edges
    logits = np.random.default_rng(0).normal(size=len(edges))
    best = winners(edges, logits)
    for edge in range(len(edges)):
        rivals = (edges.i == edges.i[edge]) | (edges.j == edges.j[edge])
        assert best[edge] == (logits[edge] == logits[rivals].max())


def test_a_shard_read_again_is_what_was_written(tmp_path, pair):
    a, b, truth = pair
    only_light = shards.Seen(**{**vars(b), "codes": {"light": b.codes["light"]}, "view": 7})
    shards.save(tmp_path / "one.npz", shards.Shard([a, only_light], [truth]))
    again = shards.load(tmp_path / "one.npz")
    for before, after in zip((a, only_light), again.photos, strict=True):
        assert (before.source, before.size, before.view) == (after.source, after.size, after.view)
        for name in shards.COLUMNS:
            assert np.array_equal(getattr(before, name), getattr(after, name))
        assert {model: codes.tolist() for model, codes in before.codes.items()} == {
            model: codes.tolist() for model, codes in after.codes.items()
        }
    assert np.array_equal(again.pairs[0].positives, truth.positives)
    assert np.array_equal(again.pairs[0].geometry, truth.geometry)
    assert (
        np.abs(shards.decode(shards.encode(shards.decode(a.codes["light"]))) - shards.decode(a.codes["light"])).max()
        < 0.004
    )


def test_a_stopped_run_goes_on_bit_by_bit_as_if_it_had_not_stopped(tmp_path, folder):
    pool = Pool(folder)
    train(Run(tmp_path / "whole", 2), pool, lambda: False, log_every=1)
    stopped = Run(tmp_path / "halves", 2)
    train(stopped, pool, lambda: stopped.progress.step == 1, log_every=1)
    assert stopped.progress.step == 1
    train(Run(tmp_path / "halves", 2), Pool(folder), lambda: False, log_every=1)
    parts = [torch.load(tmp_path / name / "last.pt", weights_only=True) for name in ("whole", "halves")]
    for name in ("network", "average"):
        for key, value in parts[0][name].items():
            assert torch.equal(value, parts[1][name][key]), key
    steps = [json.loads(line).get("step") for line in (tmp_path / "halves/log.jsonl").read_text().splitlines()]
    assert steps == [None, 1, None, 2]


def test_training_makes_the_loss_smaller_than_that_of_consensus(tmp_path, folder):
    run, pool = Run(tmp_path, 100), Pool(folder)
    notes = [run.step(pool) for _ in range(12)]
    assert np.mean([note["loss"] - note["consensus"] for note in notes[-5:]]) < 0


def test_made_views_of_a_photo_agree_with_their_homography():
    random = np.random.default_rng(0)
    photo = np.kron(random.integers(60, 200, (30, 40)), np.ones((16, 16))).astype(np.uint8)
    for seed in range(4):
        view, map_of, inside, shown = made_pairs.drawn_view(photo, [photo], seed, True, 1.2)
        assert view.shape == inside.shape == shown.shape
        assert view.dtype == np.uint8
        assert shown.sum() <= inside.sum()
        again = made_pairs.drawn_view(photo, [photo], seed, True, 1.2)
        assert np.array_equal(view, again[0])
        corners = np.array([[0, 0, 1], [639, 0, 1], [0, 479, 1], [639, 479, 1]]) @ map_of.T
        assert (corners[:, 2] > 0).all()


def test_an_interval_of_equal_gains_is_their_value():
    assert interval(np.full(12, 3.0), ["a", "b"] * 6) == [3.0, 3.0, 3.0]


def test_a_made_pair_has_8_bit_descriptors_of_each_model_for_each_keypoint(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (160, 200)).astype(np.uint8)
    photo = cv2.resize(cv2.GaussianBlur(noise, (0, 0), 1.0), None, fx=5, fy=5, interpolation=cv2.INTER_CUBIC)
    cv2.imwrite(str(tmp_path / "photo.png"), cv2.normalize(photo, None, 0, 255, cv2.NORM_MINMAX))
    both, truth = made_pairs.make(0, [tmp_path / "photo.png"], extractors(MODELS))
    assert len(truth.positives) > 50
    for one in both:
        assert set(one.codes) == set(MODELS)
        assert all(codes.dtype == np.int8 and codes.shape == (len(one), 128) for codes in one.codes.values())


def test_a_folder_without_shards_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["train", str(tmp_path), str(tmp_path / "run"), "--steps", "1"])
    with pytest.raises(SystemExit) as left:
        train_command()
    assert left.value.code == 2
    assert f"no shards in {tmp_path}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
