"""Slopes of distributions: by differences of 70 digits at float32 arguments, frozen; tails, ends of counts, outside of the
support, infinity."""
import json
from pathlib import Path

import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_ir import config
from ml_dtypes import bfloat16
from lamina_scipy import stats
from lamina_tracing import jit

SLOPES = json.loads((Path(__file__).parent / "stats_slopes.json").read_text())


def slopes_of(f, *args):
    every = tuple(range(len(args)))
    return [np.asarray(g) for g in jit(grad(lambda *a: f(*a).sum(), every))(*args)]


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name):
    table = SLOPES[name]
    law, kind = name.split(".")
    wide = table["wide"]
    with config.enable_x64(wide):
        args = [np.float32(a).astype(np.float64 if wide else np.float32) for a in table["at"]]
        got = slopes_of(getattr(getattr(stats, law), kind), *args)
    for found, want in zip(got, table["slopes"]):
        np.testing.assert_allclose(found, want, 1e-8 if wide else 3e-4, 1e-300)


@pytest.mark.parametrize("law, shapes, outside", [
    ("gamma", (0.5,), -1.0), ("chi2", (1.0,), -1.0), ("beta", (0.5, 0.5), 1.5), ("truncnorm", (-1.0, 2.0), 3.0),
    ("expon", (), -1.0), ("pareto", (2.0,), 0.5)])
def test_places_with_one_value_around_them_have_no_slope(law, shapes, outside):
    """Forward too, where a slope that is infinite or no number would meet a tangent of zero."""
    args = [np.array([outside, -np.inf, np.inf]), *(np.full(3, s) for s in (*shapes, 0.0, 1.0))]
    args = [a.astype(np.float32) for a in args]
    for kind in ("cdf", "logsf"):
        f = getattr(getattr(stats, law), kind)
        for found in slopes_of(f, *args):
            np.testing.assert_array_equal(found, 0)
        assert (jvp(f, args, [np.ones_like(a) for a in args])[1] == 0).all()


@pytest.mark.parametrize("kind", ["cdf", "logcdf", "sf", "logsf", "pdf", "logpdf"])
def test_slopes_at_infinity_are_none(kind):
    x = np.array([np.inf, -np.inf], np.float32)
    for found in slopes_of(getattr(stats.norm, kind), x, np.zeros_like(x), np.ones_like(x)):
        np.testing.assert_array_equal(found, 0)


def test_cauchy_quantiles_rise_without_end_at_the_ends():
    want = np.array([np.inf, np.inf, np.pi, 2 * np.pi])
    for kind, sign in (("ppf", 1), ("isf", -1)):
        found = [float(grad(getattr(stats.cauchy, kind))(q)) for q in (0.0, 1.0, 0.5, 0.25)]
        np.testing.assert_allclose(found, sign * want, 1e-6)


def test_a_uniform_density_beside_a_tiny_support_has_no_slope():
    """Where the slope of 1 / scale overflows."""
    for found in slopes_of(stats.uniform.pdf, np.float32([-1e-31, 1]), np.zeros(2, np.float32), np.full(2, 1e-30, np.float32)):
        np.testing.assert_array_equal(found, 0)


def test_second_slopes_where_the_distribution_stands():
    for law, want in (("cauchy", -2.0), ("logistic", -0.5), ("norm", -1.0)):
        assert grad(grad(getattr(stats, law).logpdf))(0.0) == want
    np.testing.assert_allclose(grad(grad(stats.t.logpdf))(0.0, 3.0), -4 / 3, 1e-6)
    np.testing.assert_allclose(grad(stats.laplace.cdf)(0.0, 0.0, 2.0), 0.25)
    np.testing.assert_allclose([grad(grad(stats.gennorm.logpdf))(0.0, beta) for beta in (2.0, 3.0)], [-2, 0])
    assert grad(stats.expon.cdf)(0.0) == 1 and grad(stats.gamma.cdf)(0.0, 1.0) == 1  # at the end what it is inside


def test_second_slopes_at_shapes_of_one():
    """Where a power is 0: the slope in the place has one in the shape, 1 / x."""
    assert grad(grad(stats.gamma.logpdf, 1))(0.25, 1.0) == 4 and grad(grad(stats.chi2.logpdf, 1))(0.25, 2.0) == 2
    np.testing.assert_allclose(grad(grad(stats.geom.logpmf, 1), 0)(1.0, 0.5), -2.0, 1e-6)


def test_densities_that_are_none_at_an_end_have_no_slope_in_their_shapes():
    for f, args in ((stats.gamma.pdf, (0.0, 2.5)), (stats.chi2.pdf, (0.0, 5.0)), (stats.beta.pdf, (0.0, 2.5, 3.0)),
                    (stats.beta.pdf, (1.0, 2.5, 3.0))):
        assert f(*args) == 0 and all(found == 0 for found in grad(f, tuple(range(len(args))))(*args))


def test_counts_at_their_ends_have_the_slopes_of_the_gamma_function():
    f = np.float32
    euler = float(np.euler_gamma)
    np.testing.assert_allclose(grad(stats.poisson.logpmf)(f(0), f(2)), np.log(2) + euler, 1e-5)
    np.testing.assert_allclose(grad(stats.binom.logpmf, 1)(f(3), f(3), f(0.25)), 11 / 6 + np.log(0.75), 1e-5)
    assert grad(stats.bernoulli.logpmf, 1)(0, 0.0) == -1 and grad(stats.bernoulli.logpmf, 1)(1, 1.0) == 1


def test_slopes_in_shapes_of_small_expectations_keep_their_digits():
    """By 70 digits: the logarithm is all there is, and no parts of the inverse of an expectation."""
    f = np.float32
    np.testing.assert_allclose(grad(stats.gamma.logpdf, 1)(f(1e-4), f(100)), -13.8105022, 1e-6)
    np.testing.assert_allclose(grad(stats.beta.logpdf, 1)(f(2.0 ** -100), f(0.125), f(0.25)), -63.6802244, 1e-6)
    np.testing.assert_allclose(grad(stats.nbinom.logpmf, 1)(f(10), f(100), f(2.0 ** -20)), -13.7671774, 1e-6)


def test_pareto_of_an_infinite_exponent_stands_at_its_end():
    x = np.array([0.5, 1.0, 2.0], np.float32)
    for kind, want in (("cdf", [0, 0, 1]), ("sf", [1, 1, 0]), ("logsf", [0, 0, -np.inf]),
                       ("logpdf", [-np.inf, np.inf, -np.inf]), ("pdf", [0, np.inf, 0]), ("logcdf", [-np.inf, -np.inf, 0])):
        np.testing.assert_array_equal(getattr(stats.pareto, kind)(x, np.inf), want, kind)
    np.testing.assert_array_equal(stats.pareto.ppf(np.array([0, 0.5, 1, 2], np.float32), np.inf), [1, 1, 1, np.nan])


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_densities_of_vectors_in_half_precision_are_exponentials_of_unrounded_logarithms(dtype):
    shares, weights = np.array([0.2, 0.3, 0.5], dtype), np.array([1, 2, 3], dtype)
    step = 2.0 ** -10 if dtype is np.float16 else 2.0 ** -7
    for found, want in (
            (stats.dirichlet.pdf(shares, weights), 4.5), (stats.dirichlet.pdf(shares[:2], weights), 4.5),
            (stats.multivariate_normal.pdf(np.array([3, 2], dtype), np.zeros(2, dtype), np.eye(2, dtype=dtype)), 2.39279779e-4),
            (stats.multinomial.pmf(np.array([10, 20, 30]), 60, np.array([0.25, 0.25, 0.5], dtype)), 2.8703014801e-3)):
        assert found.dtype == dtype
        np.testing.assert_allclose(float(found), want, step)


def test_the_logarithm_of_a_far_cauchy_density_keeps_its_digits():
    """log(1 + y^2) + log(pi) by 40 digits."""
    y = np.array([1e-9, 0.3, 1000001.0, 1e90, 1e200])
    want = [1.1447298858494002, 1.2309075820904525, 28.77575300177795, 415.6100466247776, 922.1787670834676]
    with config.enable_x64(True):
        np.testing.assert_allclose(-stats.cauchy.logpdf(y), want, 4e-16)
