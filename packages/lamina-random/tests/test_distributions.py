"""Moments, ranges and shapes of the draws."""
from __future__ import annotations

import math

import numpy as np
import pytest

import lamina_random as random
from lamina_autodiff import grad, jvp
from lamina_ir import DTypeError, ShapeError, config
from lamina_tracing import jit, lax

KEY = np.array([0, 3], np.uint32)
N = 20_000


@pytest.mark.parametrize("draw, mean, deviation", [
    (random.uniform, 0.5, 12 ** -0.5), (random.normal, 0.0, 1.0), (random.exponential, 1.0, 1.0),
    (random.gumbel, 0.5772, math.pi / math.sqrt(6)), (random.laplace, 0.0, math.sqrt(2)),
    (random.logistic, 0.0, math.pi / math.sqrt(3)), (random.maxwell, 1.5958, 0.6734)])
def test_mean_and_deviation_are_those_of_the_distribution(draw, mean, deviation):
    x = np.asarray(draw(KEY, (N,)))
    assert abs(x.mean() - mean) < 4 * deviation / math.sqrt(N)
    assert abs(x.std() / deviation - 1) < 0.05


def test_uniform_stays_in_its_interval():
    x = np.asarray(random.uniform(KEY, (N,), minval=3.0, maxval=3.5))
    assert x.min() >= 3.0 and x.max() <= 3.5


def test_parameters_broadcast():
    low = np.array([0.0, 10.0, 20.0], np.float32)
    x = np.asarray(random.uniform(KEY, (4, 3), minval=low, maxval=low[:1] + 21))
    assert (x >= low).all() and (x < 21).all()
    assert random.truncated_normal(KEY, low - 1, low + 1).shape == (3,)
    with pytest.raises(ShapeError, match="broadcast"):
        random.truncated_normal(KEY, low, low, (2,))


def test_randint_covers_its_range():
    x = np.asarray(random.randint(KEY, (N,), -3, 4))
    assert set(x.tolist()) == set(range(-3, 4))
    assert np.asarray(random.randint(KEY, (5,), 7, 7)).tolist() == [7] * 5
    assert np.asarray(random.randint(KEY, (N,), 0, 256, np.uint8)).max() == 255
    assert np.asarray(random.randint(KEY, (9,), -2**31, 2**31)).dtype == np.int32


def test_permutation_keeps_the_elements():
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    rows = np.asarray(random.permutation(KEY, x))
    assert sorted(rows[:, 0].tolist()) == x[:, 0].tolist() and (rows - rows[:, :1] == x - x[:, :1]).all()
    free = np.asarray(random.permutation(KEY, x, axis=1, independent=True))
    np.testing.assert_array_equal(np.sort(free, axis=1), x)


def test_choice_by_weight_never_takes_an_impossible_element():
    p = np.array([0.0, 0.5, 0.0, 0.5, 0.0], np.float32)
    x = np.asarray(random.choice(KEY, 5, (1000,), p=p))
    assert set(x.tolist()) == {1, 3}
    assert sorted(np.asarray(random.choice(KEY, 5, (2,), replace=False, p=p)).tolist()) == [1, 3]
    with pytest.raises(ShapeError, match="at most 5"):
        random.choice(KEY, 5, (6,), replace=False)


def test_categorical_follows_its_weights():
    p = np.array([0.2, 0.5, 0.3])
    x = np.asarray(random.categorical(KEY, np.log(p).astype(np.float32), shape=(N,)))
    np.testing.assert_allclose(np.bincount(x) / N, p, atol=0.02)


def test_empty_and_rank_0_draws():
    assert random.normal(KEY, (0, 3)).shape == (0, 3)
    assert random.normal(KEY).shape == ()
    assert random.permutation(KEY, 0).shape == (0,)
    assert random.permutation(KEY, 1).shape == (1,)


def test_nothing_is_permuted_to_nothing():
    assert random.permutation(random.PRNGKey(0), np.zeros((0, 2), np.float32)).shape == (0, 2)
    assert random.permutation(random.PRNGKey(0), -3).shape == (0,)


@pytest.mark.parametrize("draw", [lambda p: random.generalized_normal(KEY, p, (4,)), lambda p: random.ball(KEY, 3, p, (2,))])
def test_powers_may_be_traced(draw):
    np.testing.assert_allclose(jit(draw)(np.float32(1.5)), draw(np.float32(1.5)), rtol=1e-5)


def test_permutation_of_a_number_is_of_an_integer_along_its_only_axis():
    for x, axis in ((True, 0), (4, 1), (4, None)):
        with pytest.raises(TypeError, match="permutation: "):
            random.permutation(KEY, x, axis)
    assert random.permutation(KEY, 4, -1).shape == (4,)


def test_ends_of_randint_may_be_booleans():
    got, want = random.randint(KEY, (9,), False, np.array([True] * 9)), random.randint(KEY, (9,), 0, np.ones(9, np.int32))
    assert got.dtype == want.dtype and np.asarray(got).tolist() == np.asarray(want).tolist()


def test_weights_that_are_integers_count_in_floats_of_their_own_width():
    with config.enable_x64(True):
        for narrow, wide in (("int32", "float32"), ("bool", "float32"), ("int64", "float64")):
            p = np.array([1, 0, 1, 1], narrow)
            for replace in (True, False):
                got, want = (random.choice(KEY, 4, (3,), replace, q) for q in (p, p.astype(wide)))
                assert np.asarray(got).tolist() == np.asarray(want).tolist()


ODD = np.array([0.5, 0.5j], np.complex64)


@pytest.mark.parametrize("name, args", [
    ("uniform", ((2,), np.float32, ODD)), ("truncated_normal", (0., ODD)), ("gamma", (ODD,)), ("beta", (ODD, 1.)),
    ("t", (ODD,)), ("f", (1., ODD)), ("dirichlet", (ODD,)),
    ("generalized_normal", (ODD,)), ("ball", (2, 2j)), ("poisson", (ODD,)),
    ("binomial", (3, ODD)), ("bernoulli", (ODD,)), ("geometric", (ODD,)), ("pareto", (ODD,)), ("triangular", (0., ODD, 1.)),
    ("double_sided_maxwell", (ODD, 1.)), ("multivariate_normal", (ODD, np.eye(2, dtype=np.float32))),
    ("randint", ((2,), 0, ODD)),
    ("multinomial", (3, ODD)), ("categorical", (ODD,))])
def test_complex_parameters_are_refused(name, args):
    with pytest.raises(DTypeError, match=f"^{name}: .*complex64"):
        getattr(random, name)(random.PRNGKey(0), *args)


def test_a_chance_of_minus_zero_ends():
    assert np.asarray(random.binomial(KEY, np.float32([7, 1e3]), np.float32(-0.0))).tolist() == [0, 0]


@pytest.mark.parametrize("method", ["eigh", "svd"])
def test_covariances_are_semidefinite_or_give_nan(method):
    for cov, fine in ((np.ones((2, 2)), True), (np.zeros((2, 2)), True), (np.diag([1, 0]), True), (-np.eye(2), False),
                      (np.array([[0, 1], [1, 0]]), False), (np.diag([1, -1e-3]), False)):
        x = np.asarray(random.multivariate_normal(KEY, np.zeros(2, np.float32), cov.astype(np.float32), (3,), method=method))
        assert np.isnan(x).all() != fine and np.isfinite(x).all() == fine


@pytest.mark.parametrize("lower, upper, by_lower, by_upper", [
    (-1.2, 1.7, [0.19133487, 0.77746695, 0.12002299], [0.16075941, 0.01863845, 0.29826368]),
    (2.5, 3.2, [0.76870805, 0.98971368, 0.55624586], [0.18138014, 0.00666321, 0.38819393]),
    (-np.inf, 0.3, [0, 0, 0], [0.62965892, 0.27079816, 0.80080625]),
    (0.2, np.inf, [0.60303404, 0.96386403, 0.48234489], [0, 0, 0]), (9, 10, [0, 0, 0], [1, 1, 1])])
def test_truncated_normal_has_derivatives_by_its_bounds(lower, upper, by_lower, by_upper):
    """The last: where the distribution function is 1 at both bounds all numbers are the upper one."""
    with config.enable_x64(True), config.threefry_partitionable(True):
        for at, wanted in enumerate((by_lower, by_upper)):
            def draw(x):
                bounds = (x, np.float64(upper)) if at == 0 else (np.float64(lower), x)
                return random.truncated_normal(np.array([0, 5], np.uint32), *bounds, (3,))
            x = np.float64((lower, upper)[at])
            np.testing.assert_allclose(jvp(draw, (x,), (np.float64(1),))[1], wanted, rtol=1e-6, atol=1e-12)
            np.testing.assert_allclose(grad(lambda y: lax.reduce_sum(draw(y), (0,)))(x), sum(wanted), rtol=1e-6, atol=1e-12)
            assert np.isfinite(grad(grad(lambda y: lax.reduce_sum(draw(y), (0,))))(x))


@pytest.mark.parametrize("draw, x", [
    (lambda a: random.dirichlet(KEY, a * np.array([1., 2, 3]), (2,)), 0.7), (lambda p: random.ball(KEY, 3, p, (2,)), 1.6)])
def test_vectors_have_the_same_derivatives_in_either_mode(draw, x):
    with config.enable_x64(True):
        x = np.float64(x)
        forward = np.asarray(jvp(draw, (x,), (np.float64(1),))[1])
        backward = [grad(lambda y, i=i: lax.reduce_sum(lax.index_in_dim(draw(y), i, 1), (0, 1)))(x) for i in range(3)]
        np.testing.assert_allclose(forward.sum(0), backward, rtol=1e-12)
        assert np.abs(forward).min() > 1e-3
        if float(np.asarray(draw(x)).min()) > 0:  # of parts of 1 the derivatives sum to 0
            np.testing.assert_allclose(forward.sum(1), 0, atol=1e-14)


def test_complex_weights_are_refused():
    with pytest.raises(DTypeError, match="^choice: the parameters must be real; got complex64"):
        random.choice(random.PRNGKey(0), 2, p=ODD)


@pytest.mark.parametrize("n", [2, 1500])
@pytest.mark.parametrize("alpha", [(-1., -1., -1.), (1., -.5, 2.), (np.nan, np.nan, np.nan), (-np.inf, -np.inf, -np.inf)])
def test_concentrations_that_are_none_give_nan_also_where_the_compiler_knows_them(alpha, n):
    alpha = np.array(alpha, np.float32)
    for drawn in (random.dirichlet(KEY, alpha, (n,)), jit(lambda key: random.dirichlet(key, alpha, (n,)))(KEY)):
        assert np.isnan(drawn).all()


def test_axes_of_length_one_are_covariances_of_all():
    root = np.array([[1., 0], [.5, 2]], np.float32)
    cov = root @ root.T
    for lead in ((1,), (1, 1), (3, 1), (1, 5)):
        stack = np.broadcast_to(cov, (*lead, 2, 2))
        alone = random.multivariate_normal(KEY, np.zeros(2, np.float32), cov, (3, 5))
        drawn = random.multivariate_normal(KEY, np.zeros((1, 2), np.float32), stack, (3, 5))
        np.testing.assert_allclose(drawn, alone, 1e-5, 1e-6)


def test_derivatives_of_many_threes():
    def draw(cov):
        return random.multivariate_normal(KEY, np.zeros(3, np.float32), cov, (3, 500))

    cov = np.eye(3, dtype=np.float32) + .5
    x, derivative = jvp(draw, (cov,), (cov,))
    np.testing.assert_allclose(derivative, x / 2, 1e-4, 1e-6)  # a multiple of the covariance is one of its root
    assert np.isnan(jvp(draw, (-cov,), (cov,))[1]).all()


def test_multivariate_normal_has_the_dtype_of_its_arguments():
    narrow, half = np.float32, np.float16
    with config.enable_x64(True):
        for kinds, expected in [((narrow, narrow), "float32"), ((narrow, float), "float64"), ((int, int), "float64"),
                                ((half, half), "float32")]:
            mean, cov = np.zeros(2, kinds[0]), np.eye(2, dtype=kinds[1])
            assert random.multivariate_normal(random.PRNGKey(0), mean, cov).dtype == expected
