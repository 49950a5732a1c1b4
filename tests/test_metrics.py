from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from hynet.errors import BadInput
from hynet.metrics import fpr95


@given(
    data=st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=2, max_size=80).filter(
        lambda rows: len({match for _, match in rows}) == 2
    )
)
def test_fpr95_is_the_exact_order_statistic_ties_included(data):
    distances, is_match = (np.array(column) for column in zip(*data, strict=True))
    assert fpr95(distances, is_match) == reference.fpr95(distances, is_match)


def test_perfect_and_constant_descriptors():
    is_match = np.arange(100) < 50
    assert fpr95(np.where(is_match, 0.1, 1.0), is_match) == 0
    assert fpr95(np.ones(100), is_match) == 1


@pytest.mark.parametrize("distances", [np.full(4, np.nan), np.array([0.1, 0.1, np.nan, 1]), np.ones(3)])
def test_a_network_that_has_diverged_is_not_perfect(distances):
    with pytest.raises(BadInput, match="finite distance"):
        fpr95(distances, np.array([True, True, False, False]))


def test_pairs_of_one_kind_only_are_refused():
    with pytest.raises(BadInput, match="0"):
        fpr95(np.ones(4), np.ones(4, bool))
