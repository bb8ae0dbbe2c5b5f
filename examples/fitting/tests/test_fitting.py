"""Fits of models written with NumPy, without any backend."""
import sys

import numpy as np
import pytest
from fitting import fit, spread

T = np.linspace(0, 4, 41)


def decay(p):
    return p[0] * np.exp(-p[1] * T) + p[2]


def test_parameters_are_accurate():
    truth = np.array([3.0, 0.7, 0.25])
    found = fit(lambda p: decay(p) - decay(truth), np.array([1.0, 1.0, 0.0]))
    assert found.converged
    np.testing.assert_allclose(found.parameters, truth, rtol=1e-9)


def test_true_parameters_are_within_the_spread():
    truth, noise = np.array([3.0, 0.7, 0.25]), np.random.default_rng(0).normal(scale=0.01, size=T.shape)
    found = fit(lambda p: decay(p) - decay(truth) - noise, np.array([1.0, 1.0, 0.0]))
    assert np.all(np.abs(found.parameters - truth) < 4 * spread(found)) and np.all(spread(found) < 0.1)


def test_model_with_where_and_matmul():
    A = np.random.default_rng(1).normal(size=(20, 3))

    def model(p):
        y = A @ p
        return np.where(y > 0, y, 0.1 * y) - np.where(A[:, 0] > 0, A[:, 0], 0.1 * A[:, 0])

    np.testing.assert_allclose(fit(model, np.array([0.5, 0.2, -0.1])).parameters, [1, 0, 0], atol=1e-8)


@pytest.mark.parametrize("start, model, words", [
    (np.ones((2, 2)), decay, "start must be a vector"), (np.ones(3), lambda p: p[:2], "need at least as many residuals")])
def test_invalid_arguments_are_refused(start, model, words):
    with pytest.raises(ValueError, match=words):
        fit(model, start)


def test_no_backend_is_loaded():
    assert not {"jaxlib", "lamina_runtime", "lamina_lowering"} & set(sys.modules)
