from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from hynet import metrics
from hynet.errors import BadInput
from hynet.metrics import fpr95

# Few distances, so that many are equal.
PAIRS = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=2, max_size=80).filter(
    lambda rows: len({match for _, match in rows}) == 2
)
SHORT = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)
ERRORS = st.lists(st.one_of(st.floats(0, 20), st.integers(0, 12).map(float), st.just(np.inf)), min_size=1, max_size=40)


def columns(rows):
    distances, is_match = (np.array(column) for column in zip(*rows, strict=True))
    return distances.astype(float), is_match


@given(PAIRS)
def test_fpr95_is_the_exact_order_statistic_ties_included(rows):
    distances, is_match = columns(rows)
    assert fpr95(distances, is_match) == reference.fpr95(distances, is_match)


@given(PAIRS)
def test_the_released_variants_are_what_their_codes_do(rows):
    distances, is_match = columns(rows)
    matches, others = np.sort(distances[is_match]), distances[~is_match]
    one_higher = min(-(-19 * len(matches) // 20), len(matches) - 1)  # counted from 0
    assert metrics.fpr95_hynet(distances, is_match) == (others <= matches[one_higher]).mean()
    accepted = wrong = 0
    for k in sorted(range(len(rows)), key=lambda k: -1 / (distances[k] + 1e-8)):
        accepted, wrong = accepted + is_match[k], wrong + (not is_match[k])
        if 20 * accepted >= 19 * len(matches):
            break
    assert metrics.fpr95_hardnet(distances, is_match) == wrong / len(others)


def test_perfect_and_constant_descriptors():
    is_match = np.arange(100) < 50
    perfect, constant = np.where(is_match, 0.1, 1.0), np.ones(100)
    assert fpr95(perfect, is_match) == 0
    assert fpr95(constant, is_match) == 1
    assert metrics.roc_auc(perfect, is_match) == metrics.average_precision(perfect, is_match) == 1
    assert metrics.roc_auc(constant, is_match) == 0.5
    assert metrics.average_precision(constant, is_match) == pytest.approx(0.5, abs=0.03)
    assert metrics.average_precision_listed(constant, is_match) == 1  # what the public HPatches code rewards


@pytest.mark.parametrize("distances", [np.full(4, np.nan), np.array([0.1, 0.1, np.nan, 1]), np.ones(3)])
def test_a_network_that_has_diverged_is_not_perfect(distances):
    is_match = np.array([True, True, False, False])
    for metric in (fpr95, metrics.roc_auc, metrics.fpr95_hynet):
        with pytest.raises(BadInput, match="finite distance"):
            metric(distances, is_match)
    for metric in (metrics.average_precision, metrics.average_precision_listed):
        with pytest.raises(BadInput, match="ranking needs"):
            metric(distances, is_match)


def test_pairs_of_one_kind_only_are_refused():
    with pytest.raises(BadInput, match="0"):
        fpr95(np.ones(4), np.ones(4, bool))


@given(PAIRS)
def test_roc_auc_counts_every_pair_of_a_match_and_a_stranger(rows):
    distances, is_match = columns(rows)
    assert metrics.roc_auc(distances, is_match) == pytest.approx(reference.roc_auc(distances, is_match))


@given(PAIRS, st.integers(0, 5))
def test_listed_precision_is_the_area_of_trapezoids_one_by_one(rows, more):
    distances, is_right = columns(rows)
    total = int(is_right.sum()) + more
    listed = metrics.average_precision_listed(distances, is_right, total)
    assert listed == pytest.approx(reference.listed_precision(distances, is_right, total), abs=1e-12)


@given(SHORT)
def test_average_precision_is_the_mean_over_all_orders_of_equal_distances(rows):
    distances, is_right = columns(rows)
    for trapezoid, score in ((False, reference.step_precision), (True, reference.listed_precision)):
        expected = reference.over_all_orders(score, distances, is_right)
        assert metrics.average_precision(distances, is_right, trapezoid=trapezoid) == pytest.approx(expected, abs=1e-12)


def test_without_equal_distances_the_order_given_does_not_matter():
    rng = np.random.default_rng(0)
    distances, is_right = rng.permutation(5000) / 7, rng.random(5000) < 0.1
    fair = metrics.average_precision(distances, is_right, trapezoid=True)
    assert fair == pytest.approx(metrics.average_precision_listed(distances, is_right), abs=1e-12)


@given(ERRORS)
def test_accuracies_of_errors_are_what_counting_gives(errors):
    counted = [sum(e < t or e == t == 10 for e in errors) / len(errors) for t in range(1, 11)]
    assert metrics.mean_average_accuracy(np.array(errors)) == pytest.approx(sum(counted) / 10)
    below = [sum(e < t for e in errors) / len(errors) for t in np.linspace(0, 5, 2001)]
    assert metrics.auc_credits(np.array(errors), 5.0).mean() == pytest.approx(np.mean(below), abs=2e-3)


def test_one_exact_and_one_failed_pose_are_half():
    errors = np.array([0.0, np.inf])
    assert metrics.mean_average_accuracy(errors) == metrics.auc_credits(errors, 3).mean() == 0.5
    for wrong in ([np.nan, 1], [-1, 1], []):
        with pytest.raises(BadInput, match="errors must be"):
            metrics.auc_credits(np.array(wrong), 3)


def test_curves_end_where_everything_is_accepted():
    rng = np.random.default_rng(0)
    distances, is_match = rng.random(1000), rng.random(1000) < 0.5
    for x, y in (metrics.roc_curve(distances, is_match), metrics.pr_curve(distances, is_match)):
        assert len(x) == len(y) <= 200
        assert (np.diff(x) >= 0).all()
    assert metrics.roc_curve(distances, is_match)[0][-1] == metrics.pr_curve(distances, is_match)[0][-1] == 1


def test_an_interval_holds_the_true_mean_nineteen_times_in_twenty():
    rng = np.random.default_rng(0)
    samples = rng.exponential(size=(300, 200))
    held = [low < 1 < high for low, high in (metrics.bootstrap(row, rounds=400) for row in samples)]
    assert 0.91 < np.mean(held) < 0.98


def test_fpr95_is_bootstrapped_without_drawing_as_if_drawn():
    rng = np.random.default_rng(0)
    is_match = np.arange(1000) < 400
    distances = np.where(is_match, rng.normal(1, 0.3, 1000), rng.normal(2, 0.4, 1000))
    drawn = []
    for _ in range(2000):
        rows = np.concatenate([rng.integers(400, size=400), 400 + rng.integers(600, size=600)])
        drawn.append(fpr95(distances[rows], is_match[rows]))
    quick = metrics.fpr95_bootstrap(distances, is_match)
    assert np.quantile(quick, [0.025, 0.5, 0.975]) == pytest.approx(np.quantile(drawn, [0.025, 0.5, 0.975]), abs=0.006)


def test_pairing_tells_apart_what_intervals_of_each_cannot():
    rng = np.random.default_rng(0)
    hardness = rng.normal(0, 1, 200)
    better, worse = hardness + 0.1, hardness + rng.normal(0, 0.05, 200)
    low, high = metrics.bootstrap(better - worse)
    assert 0.05 < low < high < 0.15
    assert metrics.bootstrap(better)[0] < metrics.bootstrap(worse)[1]


def test_groups_count_alike_whatever_their_size():
    samples, groups = np.array([0.0] * 90 + [1.0] * 10), np.array([0] * 90 + [1] * 10)
    assert metrics.bootstrap(samples, groups) == (0.5, 0.5)
    scenes, sizes = np.array(["a", "a", "b"]), np.array(["5", "10", "5"])
    assert metrics.bootstrap(np.array([0.0, 0.0, 1.0]), np.stack([scenes, sizes])) == (0.5, 0.5)
    assert metrics.bootstrap_means(np.ones((5, 2, 3)), rounds=7).shape == (7, 2, 3)
    with pytest.raises(BadInput, match="at least one sample"):
        metrics.bootstrap(np.zeros(0))


def test_draws_are_with_replacement_and_the_same_for_the_same_seed():
    drawn = metrics.draws(10, 50)
    assert (drawn.sum(1) == 10).all()
    assert drawn.max() > 1
    assert (drawn == metrics.draws(10, 50)).all()


def test_resampled_pairs_give_what_listing_them_again_gives():
    rng = np.random.default_rng(0)
    distances, is_match = rng.normal(size=(2, 300)), rng.random(300) < 0.5
    distances[:, is_match] -= 1.5
    ours = metrics.fpr95_paired_bootstrap(distances, is_match, rounds=5, seed=7)
    drawing = np.random.default_rng(7)
    for k in range(5):
        counts = [metrics.draws(count, 1, drawing)[0] for count in (is_match.sum(), (~is_match).sum())]
        rows = np.concatenate(
            [np.repeat(np.flatnonzero(kind), count) for kind, count in zip((is_match, ~is_match), counts, strict=True)]
        )
        for method in range(2):
            assert ours[method, k] == pytest.approx(metrics.fpr95(distances[method, rows], is_match[rows]))
