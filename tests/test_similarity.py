from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hynet import similarity

pairs_of_vectors = st.integers(0, 10_000).map(
    lambda seed: np.random.default_rng(seed).normal(0, np.random.default_rng(seed).uniform(0.1, 10), (2, 5, 16))
)


@pytest.mark.parametrize("name", similarity.MEASURES)
@given(vectors=pairs_of_vectors)
def test_closed_form_gradients_agree_with_autograd(name, vectors):
    x, y = (torch.tensor(v, requires_grad=True) for v in vectors)
    similarity.MEASURES[name](x, y).sum().backward()
    gradient = similarity.GRADIENTS[name]
    np.testing.assert_allclose(gradient(*vectors), x.grad.numpy(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(gradient(*vectors[::-1]), y.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["s", "d", "s_h"])
@given(vectors=pairs_of_vectors)
def test_normalised_measures_only_turn_a_descriptor(name, vectors):
    x, y = vectors
    parallel, orthogonal = similarity.decompose(similarity.GRADIENTS[name](x, y), x)
    assert np.abs(parallel).max() < 1e-9
    assert np.linalg.norm(orthogonal, axis=1).min() > 0


@pytest.mark.parametrize("name", ["s_bar", "d_bar"])
@given(vectors=pairs_of_vectors)
def test_raw_measures_change_its_length_too(name, vectors):
    x, y = vectors
    gradient = similarity.GRADIENTS[name](x, y)
    parallel, orthogonal = similarity.decompose(gradient, x)
    np.testing.assert_allclose(parallel + orthogonal, gradient)
    np.testing.assert_allclose((orthogonal * x).sum(1), 0, atol=1e-8)
    assert np.linalg.norm(parallel, axis=1).max() > 0


@given(vectors=pairs_of_vectors)
def test_d_is_the_chord_of_the_angle(vectors):
    x, y = vectors
    s, d = similarity.s(x, y), similarity.d(x, y)
    np.testing.assert_allclose(d, np.sqrt(2 * (1 - s)), atol=1e-9)
    np.testing.assert_allclose(d, 2 * np.sin(np.arccos(s) / 2), atol=1e-9)


def along_the_angle(measure, **options):
    """A measure as a function of theta, by turning y away from x."""
    theta = np.linspace(1e-4, np.pi - 1e-4, 20_001)
    x = np.tile([1.0, 0.0], (len(theta), 1))
    y = np.stack([np.cos(theta), np.sin(theta)], 1)
    return theta, measure(x, y, **options)


@given(alpha=st.floats(0, 50))
def test_z_makes_the_steepest_slope_of_the_hybrid_measure_one(alpha):
    theta, value = along_the_angle(similarity.s_h, alpha=alpha)
    slope = np.gradient(value, theta)
    assert np.abs(slope).max() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(np.abs(slope)[1:-1], similarity.g_h(theta, alpha)[1:-1], atol=1e-5)


@pytest.mark.parametrize(("name", "magnitude"), [("s", similarity.g_s), ("d", similarity.g_d)])
def test_magnitudes_are_the_slopes_over_the_angle(name, magnitude):
    theta, value = along_the_angle(similarity.MEASURES[name])
    np.testing.assert_allclose(np.abs(np.gradient(value, theta))[1:-1], magnitude(theta)[1:-1], atol=1e-6)


def test_z_of_two_is_the_digest_number():
    assert similarity.unit_slope(2.0) == pytest.approx(2.736, abs=5e-4)
    assert similarity.unit_slope(0.0) == 1  # d alone
