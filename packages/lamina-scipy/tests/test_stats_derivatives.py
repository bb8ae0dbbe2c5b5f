"""Derivatives of distributions, compared with recorded 70-digit differences at float32 arguments; in tails, at ends of counts,
outside of the support and at infinity."""
import json
from pathlib import Path

import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_ir import config
from ml_dtypes import bfloat16
from lamina_scipy import stats
from lamina_tracing import jit

DERIVATIVES = json.loads((Path(__file__).parent / "stats_derivatives.json").read_text())


def derivatives_of(f, *args):
    every = tuple(range(len(args)))
    return [np.asarray(g) for g in jit(grad(lambda *a: f(*a).sum(), every))(*args)]


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    table = DERIVATIVES[name]
    law, kind = name.split(".")
    wide = table["wide"]
    with config.enable_x64(wide):
        args = [np.float32(a).astype(np.float64 if wide else np.float32) for a in table["at"]]
        got = derivatives_of(getattr(getattr(stats, law), kind), *args)
    for found, want in zip(got, table["derivatives"]):
        np.testing.assert_allclose(found, want, 1e-8 if wide else 3e-4, 1e-300)


@pytest.mark.parametrize("law, shapes, outside", [
    ("gamma", (0.5,), -1.0), ("chi2", (1.0,), -1.0), ("beta", (0.5, 0.5), 1.5), ("truncnorm", (-1.0, 2.0), 3.0),
    ("expon", (), -1.0), ("pareto", (2.0,), 0.5)])
def test_places_with_one_value_around_them_have_no_derivative(law, shapes, outside):
    """Forward too, where a derivative that is infinite or no number would meet a tangent of zero."""
    args = [np.array([outside, -np.inf, np.inf]), *(np.full(3, s) for s in (*shapes, 0.0, 1.0))]
    args = [a.astype(np.float32) for a in args]
    for kind in ("cdf", "logsf"):
        f = getattr(getattr(stats, law), kind)
        for found in derivatives_of(f, *args):
            np.testing.assert_array_equal(found, 0)
        assert (jvp(f, args, [np.ones_like(a) for a in args])[1] == 0).all()


@pytest.mark.parametrize("kind", ["cdf", "logcdf", "sf", "logsf", "pdf", "logpdf"])
def test_derivatives_at_infinity_are_none(kind):
    x = np.array([np.inf, -np.inf], np.float32)
    for found in derivatives_of(getattr(stats.norm, kind), x, np.zeros_like(x), np.ones_like(x)):
        np.testing.assert_array_equal(found, 0)


def test_cauchy_quantiles_rise_without_end_at_the_ends():
    want = np.array([np.inf, np.inf, np.pi, 2 * np.pi])
    for kind, sign in (("ppf", 1), ("isf", -1)):
        found = [float(grad(getattr(stats.cauchy, kind))(q)) for q in (0.0, 1.0, 0.5, 0.25)]
        np.testing.assert_allclose(found, sign * want, 1e-6)


def test_uniform_density_outside_of_a_tiny_support_has_derivative_zero():
    """Where the derivative of 1 / scale overflows."""
    for found in derivatives_of(stats.uniform.pdf, np.float32([-1e-31, 1]), np.zeros(2, np.float32),
                                np.full(2, 1e-30, np.float32)):
        np.testing.assert_array_equal(found, 0)


def test_second_derivatives_at_the_location():
    for law, want in (("cauchy", -2.0), ("logistic", -0.5), ("norm", -1.0)):
        assert grad(grad(getattr(stats, law).logpdf))(0.0) == want
    np.testing.assert_allclose(grad(grad(stats.t.logpdf))(0.0, 3.0), -4 / 3, 1e-6)
    np.testing.assert_allclose(grad(stats.laplace.cdf)(0.0, 0.0, 2.0), 0.25)
    np.testing.assert_allclose([grad(grad(stats.gennorm.logpdf))(0.0, beta) for beta in (2.0, 3.0)], [-2, 0])
    assert grad(stats.expon.cdf)(0.0) == 1 and grad(stats.gamma.cdf)(0.0, 1.0) == 1  # at the end what it is inside


def test_gennorm_derivatives_at_the_location():
    """The derivative of the share is the density, of every exponent; the second one of the logarithm is infinite
    between 1 and 2."""
    cdf, beta = stats.gennorm.cdf, np.float32([0.5, 1, 1.5, 2, 2.5, 8])
    x = np.zeros_like(beta)
    in_x, in_beta = derivatives_of(cdf, x, beta)
    np.testing.assert_allclose(in_x, [0.25, 0.5, 0.55386608, 0.56418958, 0.56353025, 0.53093058], 1e-6)
    np.testing.assert_array_equal(in_beta, 0)
    want = [0.92278433, 0.21139217, 0.04474391, 0.00514682, -0.00553473, -0.00322285]
    np.testing.assert_allclose([grad(grad(cdf), 1)(0.0, b) for b in beta], want, 2e-4)
    found = [grad(grad(stats.gennorm.logpdf))(0.0, b) for b in (1.0, 1.2, 1.5, 2.0, 2.5)]
    np.testing.assert_array_equal(found, [0, -np.inf, -np.inf, -2, 0])


def test_second_derivatives_at_shapes_of_one():
    """Where a power is 0: the derivative in the place has one in the shape, 1 / x."""
    assert grad(grad(stats.gamma.logpdf, 1))(0.25, 1.0) == 4 and grad(grad(stats.chi2.logpdf, 1))(0.25, 2.0) == 2
    np.testing.assert_allclose(grad(grad(stats.geom.logpmf, 1), 0)(1.0, 0.5), -2.0, 1e-6)


def test_densities_that_are_none_at_an_end_have_no_derivative_in_their_shapes():
    for f, args in ((stats.gamma.pdf, (0.0, 2.5)), (stats.chi2.pdf, (0.0, 5.0)), (stats.beta.pdf, (0.0, 2.5, 3.0)),
                    (stats.beta.pdf, (1.0, 2.5, 3.0))):
        assert f(*args) == 0 and all(found == 0 for found in grad(f, tuple(range(len(args))))(*args))


@pytest.mark.parametrize("at, want", [  # 7/12 is digamma(5) - digamma(3), 1/3 digamma(4) - digamma(3)
    ((0.0, 1.0, 3.0), (-2, -np.inf, 1 / 3)), ((0.0, 2.0, 3.0), (np.inf, -np.inf, 7 / 12)),
    ((1.0, 3.0, 2.0), (-np.inf, 7 / 12, -np.inf)), ((1.0, 3.0, 1.0), (2, 1 / 3, -np.inf)),
    ((0.0, 0.5, 3.0), (-np.inf, -np.inf, 0.18037230555))])
def test_derivatives_of_a_beta_density_at_an_end_are_those_of_its_terms(at, want):
    found = grad(stats.beta.logpdf, (0, 1, 2))(*np.float32(at))
    np.testing.assert_allclose([float(v) for v in found], want, 1e-6)


def test_counts_at_their_ends_have_the_derivatives_of_the_gamma_function():
    f = np.float32
    euler = float(np.euler_gamma)
    np.testing.assert_allclose(grad(stats.poisson.logpmf)(f(0), f(2)), np.log(2) + euler, 1e-5)
    np.testing.assert_allclose(grad(stats.binom.logpmf, 1)(f(3), f(3), f(0.25)), 11 / 6 + np.log(0.75), 1e-5)
    assert grad(stats.bernoulli.logpmf, 1)(0, 0.0) == -1 and grad(stats.bernoulli.logpmf, 1)(1, 1.0) == 1


def test_derivatives_in_shapes_of_small_expectations_keep_their_digits():
    """By 70 digits: the logarithm is all there is, and no parts of the inverse of an expectation."""
    f = np.float32
    np.testing.assert_allclose(grad(stats.gamma.logpdf, 1)(f(1e-4), f(100)), -13.8105022, 1e-6)
    np.testing.assert_allclose(grad(stats.beta.logpdf, 1)(f(2.0 ** -100), f(0.125), f(0.25)), -63.6802244, 1e-6)
    np.testing.assert_allclose(grad(stats.nbinom.logpmf, 1)(f(10), f(100), f(2.0 ** -20)), -13.7671774, 1e-6)


def test_pareto_of_an_infinite_exponent_is_a_point_mass():
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


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name, at, want", [  # the logarithm, its derivatives, and the second one in the place, by 50 digits
    ("gamma.logcdf", (2.0 ** -60, 9.0), (-387.1013049825, 1.037629354146e+19, -43.84058342266, -1.196305196206e+37)),
    ("gamma.logcdf", (500.0, 1024.0), (-213.7850212045, 1.049897925827, -0.7182768748229, -0.004092424240738)),
    ("gamma.logcdf", (2.0 ** 19, 2.0 ** 20), (-202536.655268, 1.000001907338, -0.6931486110641, -3.814693627716e-06)),
    ("gamma.logsf", (192.0, 0.5), (-195.2037000553, -1.002590776584, 7.226173629637, 1.342477366835e-05)),
    ("gamma.logsf", (1024.0, 2.0 ** -7), (-1035.725857979, -1.000967989635, 135.4968839476, 9.443836976259e-07)),
    ("gamma.logsf", (2048.0, 1024.0), (-318.603988478, -0.5009737244851, 0.6946083203743, -0.000243194305525)),
    ("gamma.logsf", (2.0 ** 21, 2.0 ** 20), (-321766.3524095, -0.5000009536716, 0.6931486110679, -2.384176696138e-07)),
    ("beta.logcdf", (2.0 ** -50, 8.0, 3.0),
     (-273.4522097342, 9007199254741000.0, -34.44624791689, 1.428968253968, -1.014120480183e+31)),
    ("beta.logcdf", (0.25, 2048.0, 1024.0),
     (-1183.156765365, 6829.06404707, -0.9813335024366, 0.8114508689881, -34582.70177725)),
    ("beta.logcdf", (0.984375, 16384.0, 0.125),
     (-264.8958784853, 16699.84713513, -0.01580155942836, 13.93746483236, -13351.7963706)),
    ("beta.logsf", (1 - 2.0 ** -20, 3.0, 40.0),
     (-547.7596518044, -41943038.04878, 2.826741876234, -13.81474384462, -43980465111040.0)),
    ("beta.logsf", (2.0 ** -10, 0.5, 2.0 ** 20),
     (-1028.538913935, -1050112.502193, 8.895956015733, -0.000977516020796, -527359.2733229)),
    ("beta.logsf", (0.75, 1024.0, 2048.0),
     (-1183.156765365, -6829.06404707, 0.8114508689881, -0.9813335024366, -34582.70177725)),
])
def test_logarithms_of_shares_that_underflow(name, at, want, wide):
    law, kind = name.split(".")
    f = getattr(getattr(stats, law), kind)
    rtol = 2e-12 if wide else 1e-5
    fits = [i for i, v in enumerate(want) if wide or abs(v) < 1e37]
    with config.enable_x64(wide):
        at = [np.asarray(v, np.float64 if wide else np.float32) for v in at]
        one, every = np.ones_like(at[0]), tuple(range(len(at)))
        second = grad(lambda x: jvp(lambda x: f(x, *at[1:]), (x,), (one,))[1])(at[0])
        got = [f(*at), *grad(f, every)(*at), second]
        np.testing.assert_allclose([float(got[i]) for i in fits], [want[i] for i in fits], rtol)
        again = jvp(lambda x: grad(f)(x, *at[1:]), (at[0],), (one,))[1]
        np.testing.assert_allclose(float(again), float(second), rtol)
        forward = [jvp(lambda v, i=i: f(*at[:i], v, *at[i + 1:]), (at[i],), (one,))[1] for i in every]
        np.testing.assert_allclose([float(v) for v in forward], [float(v) for v in got[1:-1]], rtol)


def test_logarithms_of_shares_at_ends_and_beyond():
    f = np.float32
    x, one = f([-1, 0, np.inf]), np.ones(3, f)
    np.testing.assert_array_equal(stats.gamma.logcdf(x, 2 * one), [-np.inf, -np.inf, 0])
    np.testing.assert_array_equal(stats.gamma.logsf(x, 2 * one), [0, 0, -np.inf])
    np.testing.assert_array_equal(stats.beta.logcdf(f([-1, 0, 1, 2]), f(2), f(3)), [-np.inf, -np.inf, 0, 0])
    np.testing.assert_array_equal(stats.beta.logsf(f([-1, 0, 1, 2]), f(2), f(3)), [0, 0, -np.inf, -np.inf])
    for law, args in ((stats.gamma, (x, 2 * one)), (stats.beta, (f([0, 1, 2]), 2 * one, 3 * one))):
        for found in (*derivatives_of(law.logcdf, *args), *derivatives_of(law.logsf, *args)):
            np.testing.assert_array_equal(found, 0)


def test_a_gamma_density_at_two_thirds_of_its_shape_keeps_the_digits_of_float64():
    """Compiled too, where XLA's log1p has 13 digits; by 40."""
    with config.enable_x64(True):
        found = jit(stats.gamma.logpdf)(np.array([656.0, 300.0, 5e5]), np.array([1102.0, 500.0, 7.5e5]))
        np.testing.assert_allclose(found, [-129.53349719456032, -58.928395508289564, -54106.10846890225], 4e-15)


def test_logarithms_of_far_cauchy_shares_have_derivatives():
    x = np.float32([-1e30, -1e10, -1, 0, 1, 1e10])
    want = [1e-30, 1e-10, 2 / np.pi, 2 / np.pi, 2 / (3 * np.pi), 1e-20 / np.pi]
    np.testing.assert_allclose(grad(lambda x: stats.cauchy.logcdf(x).sum())(x), want, 1e-6)
    np.testing.assert_allclose(grad(lambda x: stats.cauchy.logsf(x).sum())(-x), -np.array(want), 1e-6)
    np.testing.assert_allclose(grad(grad(stats.cauchy.logcdf))(-1.0), 2 / np.pi - 4 / np.pi ** 2, 1e-5)
