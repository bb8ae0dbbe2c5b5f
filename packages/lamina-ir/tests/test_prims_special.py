"""Incomplete gamma and beta functions compared with closed forms."""
import math

import numpy as np
import pytest
from lamina_ir import prims

lower, upper = prims.igamma_p.numpy, prims.igammac_p.numpy
derivative, sample_derivative = prims.igamma_grad_a_p.numpy, prims.random_gamma_grad_p.numpy
beta = prims.regularized_incomplete_beta_p.numpy
X = np.array([1e-6, 0.1, 0.9, 1.0, 1.5, 4.0, 30.0])


def test_incomplete_gamma_at_integer_and_half_integer_shapes():
    one = np.ones_like(X)
    np.testing.assert_allclose(lower(one, X), -np.expm1(-X), rtol=1e-13)
    np.testing.assert_allclose(upper(one, X), np.exp(-X), rtol=1e-12)
    np.testing.assert_allclose(upper(3 * one, X), np.exp(-X) * (1 + X + X * X / 2), rtol=1e-12)
    np.testing.assert_allclose(upper(one / 2, X), [math.erfc(math.sqrt(x)) for x in X], rtol=1e-12)


@pytest.mark.parametrize("a", [0.1, 2.5, 19.9, 20.1, 400.0])
def test_derivatives_match_finite_differences(a):
    x, h = a * np.array([0.5, 0.9, 1.1, 2.0]) + 0.3, 1e-5 * max(a, 1)
    a = np.full_like(x, a)
    np.testing.assert_allclose(derivative(a, x), (lower(a + h, x) - lower(a - h, x)) / (2 * h), rtol=1e-6, atol=1e-9)
    step = h * sample_derivative(a, x)
    np.testing.assert_allclose(lower(a + h, x + step), lower(a - h, x - step), rtol=1e-7, atol=1e-10)


def test_incomplete_gamma_at_interval_ends():
    a, x = np.array([1, 2, 0, 0, -1, 1, np.nan]), np.array([0, np.inf, 1, 0, 1, -1, 1])
    np.testing.assert_array_equal(lower(a, x), [0, 1, 1, np.nan, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(upper(a, x), [1, 0, 0, np.nan, np.nan, np.nan, np.nan])


def test_incomplete_beta_closed_forms_and_symmetry():
    x = np.array([0.0, 1e-3, 0.2, 0.5, 0.9, 1.0])
    one = np.ones_like(x)
    np.testing.assert_allclose(beta(one, 3 * one, x), 1 - (1 - x) ** 3, rtol=1e-11)
    np.testing.assert_allclose(beta(2.5 * one, one, x), x ** 2.5, rtol=1e-11)
    np.testing.assert_allclose(beta(one * 0.3, one * 7, x) + beta(one * 7, one * 0.3, 1 - x), 1, rtol=1e-12)
    np.testing.assert_allclose(beta(np.array([0.1, 7, 300]), np.array([0.1, 7, 300]), np.full(3, 0.5)), 0.5, rtol=1e-11)
    bad = beta(np.array([0.0, 1, 1, np.nan]), np.array([1.0, -1, 1, 1]), np.array([0.5, 0.5, 1.5, 0.5]))
    assert np.isnan(bad).all()
