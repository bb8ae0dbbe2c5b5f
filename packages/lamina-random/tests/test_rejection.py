"""Draws by rejection: means and variances, odd parameters, derivatives, and one key at a time under vmap."""
import lamina_random as random
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import ShapeError, config
from lamina_random import _per_key_draws
from lamina_random._normal import bits_to_unit
from lamina_tracing import lax

KEY, N = random.PRNGKey(3), 4000


def assert_moments_near(draws, mean, var):
    """Within five standard errors, and the variance within a fifth."""
    draws = np.asarray(draws, np.float64)
    assert abs(draws.mean() - mean) < 5 * np.sqrt(var / draws.size)
    assert abs(draws.var() - var) < 0.2 * var


@pytest.mark.parametrize("a", [0.4, 1.0, 8.0])
def test_gamma_has_its_mean_and_variance(a):
    assert_moments_near(random.gamma(KEY, a, (N,)), a, a)
    np.testing.assert_allclose(np.exp(random.loggamma(KEY, a, (9,))), random.gamma(KEY, a, (9,)), rtol=1e-5)


def test_functions_of_gamma():
    assert_moments_near(random.beta(KEY, 2.0, 3.0, (N,)), 0.4, 0.04)
    assert_moments_near(random.chisquare(KEY, 3.0, (N,)), 3, 6)
    assert_moments_near(random.t(KEY, 9.0, (N,)), 0, 9 / 7)
    assert_moments_near(random.generalized_normal(KEY, 2.0, (N,)), 0, 0.5)
    np.testing.assert_allclose(np.asarray(random.dirichlet(KEY, np.float32([1, 2, 3]), (50,))).sum(-1), 1, rtol=1e-5)
    assert (np.asarray(random.ball(KEY, 3, 2, (50,))) ** 2).sum(-1).max() <= 1


@pytest.mark.parametrize("rate", [0.5, 9.0, 60.0])
def test_poisson_has_its_mean_and_variance(rate):
    assert_moments_near(random.poisson(KEY, rate, (N,)), rate, rate)


@pytest.mark.parametrize("n, p", [(5, 0.3), (200, 0.4), (50, 0.9)])
def test_binomial_has_its_mean_and_variance(n, p):
    assert_moments_near(random.binomial(KEY, n, p, (N,)), n * p, n * p * (1 - p))


def test_odd_parameters():
    np.testing.assert_array_equal(np.isnan(random.gamma(KEY, np.float32([-1, np.nan, 1, -0.5, np.inf]))),
                                  [True, True, False, True, False])
    assert random.gamma(KEY, np.float32(0)) == 0
    np.testing.assert_array_equal(random.poisson(KEY, np.float32([0, -1, np.nan])), [0, -1, -1])
    drawn = random.binomial(KEY, np.float32([5, 5, -1, 0]), np.float32([0, 1, 0.5, 0.5]))
    np.testing.assert_array_equal(drawn, [0, 5, np.nan, 0])
    drawn = random.binomial(KEY, np.float32(np.inf), np.float32([0, 0.01, 0.5, 1, 2]))  # which ends
    np.testing.assert_array_equal(drawn, [np.nan, np.inf, np.inf, np.inf, np.nan])
    with pytest.raises(ShapeError, match="dirichlet: alpha needs"):
        random.dirichlet(KEY, 1.0)


def test_derivative_at_constant_quantile():
    derivative = grad(lambda a: lax.reduce_sum(random.gamma(KEY, a, (N,)), (0,)))(3.0)
    assert abs(float(derivative) / N - 1) < 0.05  # the mean is a
    tiny = grad(lambda a: random.loggamma(KEY, a))(np.float32(1e-3))
    assert np.isfinite(tiny) and tiny > 0


def test_each_key_draws_as_it_does_alone():
    keys = random.split(KEY, 3)
    for draw in (lambda k: random.gamma(k, 2.0), lambda k: random.poisson(k, 20.0),
                 lambda k: random.binomial(k, 90, 0.5)):
        np.testing.assert_allclose(vmap(draw)(keys), [draw(k) for k in keys], rtol=1e-6)


@pytest.mark.parametrize("part", [False, True])
def test_a_lane_draws_as_its_key_does(part):
    with config.threefry_partitionable(part):
        keys = random.split(KEY, 5)
        lanes = _per_key_draws.make_lane_keys(KEY, (5,), part)
        for count in (2, 3):
            np.testing.assert_array_equal(np.moveaxis(np.asarray(_per_key_draws.split_lanes(lanes, count, part)), 1, 2),
                                          np.stack([np.asarray(random.split(k, count)) for k in keys], 1))
        for dtype in ("float16", "float32", "bfloat16"):
            bits = _per_key_draws.draw_lane_bits(lanes, np.dtype(dtype), part)
            wanted = [np.asarray(random.uniform(k, (), dtype)) for k in keys]
            np.testing.assert_array_equal(np.asarray(bits_to_unit(bits, np.dtype(dtype))), np.stack(wanted))


@pytest.mark.parametrize("part", [False, True])
def test_keys_in_rows_give_lanes_in_rows(part):
    with config.threefry_partitionable(part):
        keys = random.split(KEY, 3)
        rows = _per_key_draws.make_lane_keys(keys, (3, 2, 2), part)
        np.testing.assert_array_equal(np.moveaxis(np.asarray(rows), 0, -1), [random.split(k, (2, 2)) for k in keys])


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_lanes_go_on_as_typed_keys_do(part, dtype):
    with config.threefry_partitionable(part):
        dtype, none = np.dtype(dtype), np.zeros(4, bool)
        again = np.array([True, False, True, False])
        words, u = _per_key_draws.start_lanes(KEY, (4,), dtype, part)
        typed, v = _per_key_draws.start_lanes(random.wrap_key_data(KEY), (4,), dtype, part)
        np.testing.assert_array_equal(u, v)
        for which in (none, again, ~again, none):
            words, *numbers = _per_key_draws.draw_next(words, which, none, dtype, part)
            typed, *wanted = _per_key_draws.draw_next(typed, which, none, dtype, part)
            np.testing.assert_array_equal(numbers, wanted)


def test_normal_vectors():
    cov = np.float32([[2, 0.5], [0.5, 1]])
    for method in ("cholesky", "eigh", "svd"):
        x = np.asarray(random.multivariate_normal(KEY, np.float32([1, 2]), cov, (N,), method=method))
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.2)
        np.testing.assert_allclose(x.mean(0), [1, 2], atol=0.1)
    assert random.multivariate_normal(KEY, np.zeros((3, 1, 2), np.float32), np.stack([cov] * 4)).shape == (3, 4, 2)
    q = np.asarray(random.orthogonal(KEY, 3, (2,)))
    np.testing.assert_allclose(q @ q.transpose(0, 2, 1), np.stack([np.eye(3)] * 2), atol=1e-5)
