"""Distributions and summaries: values that SciPy 1.17 gives, frozen; samples of densities are JAX 0.4.30's."""
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import DTypeError, ShapeError, config, dtypes, trees
from lamina_random import PRNGKey
from lamina_scipy import signal, stats
from lamina_tracing import jit

VALUES = json.loads((Path(__file__).parent / "stats_values.json").read_text())
NAMES = sorted({name.split(".")[0] for name in VALUES})


def numbers(row):
    return np.array([np.nan if v is None else float(v) for v in row])


@pytest.mark.parametrize("law", NAMES)
def test_values(law):
    for name, table in VALUES.items():
        if name.split(".")[0] != law:
            continue
        f = getattr(getattr(stats, law), name.split(".")[1].rstrip("01"))
        want, at, given = numbers(table["is"]), numbers(table["at"]), numbers(table["with"])
        with config.enable_x64(True):
            np.testing.assert_allclose(f(at, *given), want, 1e-8 if law == "cauchy" else 1e-9, 1e-300, err_msg=name)
        got = f(at.astype(np.float32), *given.astype(np.float32))
        assert got.dtype == np.float32
        fits = ~(np.abs(want) > 1e38) & ~((want != 0) & (np.abs(want) < 1e-37))
        np.testing.assert_allclose(np.asarray(got)[fits], want[fits], 5e-4, 2e-6, err_msg=name)


WIDE = [name for name in NAMES if "scale" in inspect.signature(next(
    getattr(getattr(stats, name), kind) for kind in ("logpdf", "logpmf") if hasattr(getattr(stats, name), kind))).parameters]


@pytest.mark.parametrize("law", WIDE)
def test_a_parameter_without_meaning_gives_nan(law):
    for kind in getattr(stats, law).__all__:
        f = getattr(getattr(stats, law), kind)
        shapes = [2.0, 3.0][:len(inspect.signature(f).parameters) - 3]
        assert np.isnan(f(np.full(4, 0.5, np.float32), *shapes, 0.0, -1.0)).all(), kind
        assert np.isnan(f(np.float32(np.nan), *shapes)), kind


def test_derivatives():
    with config.enable_x64(True):
        h = 1e-5
        for f, x in ((lambda x: stats.norm.logcdf(x), -40.0), (lambda a: stats.beta.logpdf(0.3, a, 2.0), 1.5),
                     (lambda a: stats.beta.cdf(0.3, a, 2.0), 1.5), (lambda a: stats.gamma.sf(0.7, a), 1.3),
                     (lambda d: stats.t.logpdf(0.7, d), 3.0), (lambda b: stats.truncnorm.logpdf(6.0, 5.0, b), 9.0),
                     (lambda a: stats.truncnorm.logsf(0.2, a, 2.0), -1.0), (lambda p: stats.binom.logpmf(3, 10, p), 0.25),
                     (lambda m: stats.poisson.cdf(3, m), 2.5), (lambda b: stats.gennorm.cdf(-0.4, b), 1.5),
                     (lambda k: stats.vonmises.logpdf(0.3, k), 1.5), (lambda s: stats.cauchy.ppf(0.9, 0.0, s), 2.0)):
            np.testing.assert_allclose(grad(f)(x), (f(x + h) - f(x - h)) / (2 * h), 1e-6, 1e-9)
        for f in (lambda x: stats.beta.logpdf(x, 2.0, 3.0), stats.expon.logpdf, lambda x: stats.pareto.logpdf(x, 2.0)):
            assert grad(f)(-1.0) == 0  # outside of the support, not NaN


def test_laws_of_vectors():
    shares, weights = np.array([0.2, 0.3, 0.5], np.float32), np.array([1.0, 2.0, 3.0], np.float32)
    np.testing.assert_allclose(stats.dirichlet.logpdf(shares, weights), 1.504077, 1e-5)
    np.testing.assert_allclose(stats.dirichlet.pdf(np.stack([shares[:2]] * 2, 1), weights), [4.5, 4.5], 1e-5)
    assert stats.dirichlet.pdf(2 * shares, weights) == 0 and np.isnan(stats.dirichlet.pdf(shares, -weights))
    with pytest.raises(ShapeError, match="dirichlet.pdf: `alpha` must have shape"):
        stats.dirichlet.pdf(shares, np.ones(5))
    chances = np.array([0.2, 0.3, 0.5], np.float32)
    np.testing.assert_allclose(stats.multinomial.logpmf(np.array([1, 2, 0]), 3, chances), -2.918771, 1e-6)
    np.testing.assert_allclose(stats.multinomial.pmf(np.array([[1, 2, 0], [0, 0, 3]]), 3, chances), [0.054, 0.125], 1e-5)
    assert stats.multinomial.logpmf(np.array([1, 2, 1]), 3, chances) == -np.inf
    mean, cov = np.array([1.0, -1.0], np.float32), np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
    x = np.zeros((3, 2), np.float32)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x, mean, cov), [-3.2605425] * 3, 1e-6)
    assert stats.multivariate_normal.pdf(x, np.zeros((5, 1, 2), np.float32), cov).shape == (5, 3)
    assert stats.multivariate_normal.logpdf(x[0], mean, np.stack([cov] * 4)).shape == (4,)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(1.0, 0.0, 2.0), -1.5155121, 1e-6)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x[0], 0.0, cov), -0.5 * np.log(4 * np.pi ** 2 * 1.75), 1e-6)
    assert np.isnan(stats.multivariate_normal.logpdf(x[0], mean, -cov))
    with pytest.raises(NotImplementedError, match="allow_singular"):
        stats.multivariate_normal.logpdf(x, mean, cov, allow_singular=True)
    with pytest.raises(ShapeError, match=r"multivariate_normal.logpdf: expected x \[..., n\]"):
        stats.multivariate_normal.logpdf(x, mean, np.ones(2))


DATA = np.random.RandomState(0).randn(2, 7).astype(np.float32)


def test_integer_counts_with_half_precision_parameters():
    half = dtypes.bfloat16
    shares, counts, x = np.array([.25, .25, .5], half), np.array([100, 101, 0], np.int8), np.array([.5, .25], half)
    for got, want in ((stats.multinomial.logpmf(counts, np.int16(201), shares), -142.20375),
                      (stats.dirichlet.logpdf(shares, counts[:2].repeat([1, 2])), -11.187292),
                      (stats.multivariate_normal.logpdf(x, 0 * x, 2.), -2.6091493)):
        assert got.dtype == half
        np.testing.assert_allclose(float(got), want, rtol=2 ** -8)


def test_an_estimated_density_of_half_precision():
    x = np.array([-1., .5, 2, 3], np.float16)
    y = x.astype(np.float32)
    np.testing.assert_allclose(stats.gaussian_kde(x)(x), stats.gaussian_kde(y)(y), rtol=1e-6)
    with config.enable_x64(True):
        np.testing.assert_allclose(stats.gaussian_kde(y)(x.astype(np.float64)), stats.gaussian_kde(y)(y), rtol=1e-6)


def test_an_estimated_density():
    kde = stats.gaussian_kde(DATA, weights=np.arange(1, 8.0, dtype=np.float32))
    assert kde.d == 2 and kde.n == 7
    np.testing.assert_allclose(kde.covariance, [[0.83946964, -0.00840681], [-0.00840681, 0.18720338]], 1e-5)
    np.testing.assert_allclose(kde.inv_cov, np.linalg.inv(kde.covariance), 1e-5)
    np.testing.assert_allclose(kde.evaluate(DATA[:, :2]), [0.1325676, 0.13365599], 1e-5)
    np.testing.assert_allclose(kde.logpdf(DATA[:, :2]), np.log(kde.pdf(DATA[:, :2])), 1e-5)
    np.testing.assert_allclose(kde.integrate_gaussian(np.zeros(2), np.eye(2)), 0.059072833744, 1e-5)
    np.testing.assert_allclose(kde.integrate_kde(kde), 0.08603497, 1e-5)
    assert len(trees.tree_leaves(kde)) == 5 and jit(lambda k: k.evaluate(DATA[:, 0]))(kde).shape == (1,)
    one = stats.gaussian_kde(DATA[0], "silverman")
    np.testing.assert_allclose(one.covariance, [[0.6131567]], 1e-5)
    np.testing.assert_allclose(stats.gaussian_kde(DATA[0]).integrate_box_1d(0, 1), 0.24785489707846403, 1e-5)
    for wrong, error in ((lambda: stats.gaussian_kde(np.zeros(1)), ShapeError),
                         (lambda: stats.gaussian_kde(1j * DATA), DTypeError),
                         (lambda: stats.gaussian_kde(DATA, weights=np.ones(3)), ShapeError),
                         (lambda: stats.gaussian_kde(DATA, "x"), ValueError),
                         (lambda: kde.evaluate(np.zeros((3, 2))), ShapeError),
                         (lambda: kde.integrate_box_1d(0, 1), ValueError), (kde.set_bandwidth, NotImplementedError),
                         (lambda: kde.integrate_box(0, 1), NotImplementedError)):
        with pytest.raises(error, match="gaussian_kde"):
            wrong()


def test_samples_of_an_estimated_density_are_the_known_ones():
    kde = stats.gaussian_kde(DATA, weights=np.arange(1, 8.0, dtype=np.float32))
    want = [[2.092032, -2.336687, 0.97689426], [-0.13729736, 0.8340762, 0.29457816]]
    np.testing.assert_allclose(kde.resample(PRNGKey(3), (3,)), want, 1e-4)
    assert stats.gaussian_kde(DATA[0]).resample(PRNGKey(3), (2, 2)).shape == (1, 2, 2)


A = np.array([[1, 2, np.nan], [3, 2, np.nan], [3, 2, 1]], np.float32)


def test_mode():
    for given, value, count in (({}, [3, 2, np.nan], [2, 3, 2]), ({"nan_policy": "omit"}, [3, 2, 1], [2, 3, 1]),
                                ({"axis": None}, 2, 3), ({"axis": 1, "keepdims": True}, [[1], [2], [1]], [[1], [1], [1]])):
        found = stats.mode(A, **given)
        np.testing.assert_array_equal(found.mode, value)
        np.testing.assert_array_equal(found.count, count)
    assert stats.mode(np.array([2, 2, 1, 1])).mode == 1 and stats.mode(np.zeros((0, 2))).count.tolist() == [0, 0]
    with pytest.raises(ValueError, match="mode: nan_policy"):
        stats.mode(A, nan_policy="x")


def test_ranks_and_standard_errors():
    x = np.array([3, 1, 2, 1])
    for method, want in (("average", [4, 1.5, 3, 1.5]), ("min", [4, 1, 3, 1]), ("max", [4, 2, 3, 2]), ("dense", [3, 1, 2, 1]),
                         ("ordinal", [4, 1, 3, 2])):
        found = stats.rankdata(x, method)
        np.testing.assert_array_equal(found, want)
        assert found.dtype == (np.float32 if method == "average" else np.int32)
    np.testing.assert_array_equal(stats.rankdata(A, axis=0), [[1, 2, np.nan], [2.5, 2, np.nan], [2.5, 2, np.nan]])
    np.testing.assert_array_equal(stats.rankdata(A[:, 2], nan_policy="omit"), [np.nan, np.nan, 1])
    with pytest.raises(ValueError, match="rankdata: method must be one of"):
        stats.rankdata(x, "x")
    np.testing.assert_allclose(stats.sem(A), [2 / 3, 0, np.nan], 1e-6)
    np.testing.assert_allclose(stats.sem(A[:, 0], nan_policy="omit"), 2 / 3, 1e-6)
    with pytest.raises(NotImplementedError, match="nan_policy='raise'"):
        stats.sem(A, nan_policy="raise")


def test_names_of_mapped_axes():
    z = np.array([[3, 1], [1, 2], [2, 2]], np.float32)
    error, common, ranks = vmap(lambda v: (stats.sem(v, "i"), stats.mode(v, "i").mode, stats.rankdata(v, axis="i")),
                                axis_name="i")(z)
    np.testing.assert_allclose(error[1], stats.sem(z), 1e-6)
    np.testing.assert_array_equal(common[2], stats.mode(z).mode)
    np.testing.assert_array_equal(ranks, stats.rankdata(z, axis=0))


def test_arguments():
    assert stats.norm.logpdf(1).dtype == np.float32 and stats.norm.pdf(np.float16(1)).dtype == np.float16
    np.testing.assert_allclose(stats.norm.cdf(x=1.0, scale=2.0, loc=0.5), stats.norm.cdf(0.25), 1e-6)
    assert stats.norm.pdf(np.ones((3, 1)), np.ones(2)).shape == (3, 2)
    with pytest.raises(TypeError, match="gamma.pdf: missing a required argument: 'a'; it takes x, a, loc, scale"):
        stats.gamma.pdf(1.0)
    with pytest.raises(DTypeError, match="norm.pdf: expected real numbers"):
        stats.norm.pdf(1j)


def test_beta_beyond_places_whose_distance_from_1_is_rounded():
    """Numbers of SciPy in float64."""
    x, a, b = np.float32([1e-30, 1e-10, 0.01]), np.float32(1e-3), np.float32(50.0)
    np.testing.assert_allclose(stats.beta.sf(x, a, b), [0.06255684666, 0.01837651197, 0.00056309898], 1e-4)
    np.testing.assert_allclose(stats.beta.logsf(x, a, b), [-2.77167959, -3.99668195, -7.48205514], 1e-4)
    np.testing.assert_allclose(stats.beta.logcdf(x, a, b), [-0.06459916, -0.01854746, -0.00056325758], 1e-4)


def test_densities_of_large_shapes_keep_the_digits_of_float32():
    """Numbers of SciPy in float64; the derivative is log(x / a) + 1 / (2 a)."""
    f = np.float32
    np.testing.assert_allclose(stats.gamma.logpdf(f([1e6, 999000, 1002000]), f(1e6)), [-7.826694, -8.326027, -9.826029], 3e-5)
    np.testing.assert_allclose(stats.chi2.logpdf(f([1e6, 999000, 1002000]), f(1e6)), [-8.173268, -8.422434, -9.173934], 3e-5)
    np.testing.assert_allclose(stats.poisson.logpmf(f([1e6, 999000, 1002000]), f(1e6)), [-7.826694, -8.32636, -9.826361], 3e-5)
    np.testing.assert_allclose(grad(lambda a: stats.gamma.logpdf(f(1002000), a))(f(1e6)), 0.0019985, 1e-4)
    at, want = f([0.5, 0.4999, 0.501]), [7.028537, 6.988548, 3.028636]
    np.testing.assert_allclose(stats.beta.logpdf(at, f(1e6), f(1e6)), want, 1e-3)
    got = stats.binom.logpmf(f([500000, 499000, 500500]), f(1e6), f(0.5))
    np.testing.assert_allclose(got, [-7.133547, -9.133546, -7.633546], 3e-5)


@pytest.mark.parametrize("law, args, want", [
    ("nbinom", ([1e6, 1003000, 3, 0, 250], [1e6, 1e6, 1e6, 7e5, 1e-3], [0.5, 0.5, 0.999996, 0.99999, 1e-4]),
     [-8.17326752747, -10.4221456147, -1.63126311152, -7.00954132095, -12.4573318842]),
    ("betabinom", ([50, 6e5, 3, 1e5], [100, 1e6, 5, 3e5], [1e6, 3e6, 2e4, 1e6], [9e5, 2e6, 1e6, 2.5e6]),
     [-2.66959189985, -7.20429668545, -9.53235586993, -1491.77581978]),
    ("binom", ([1000, 0, 999000, 5e5], [1e6, 1e6, 1e6, 1e6], [0.001, 1e-7, 0.999, 0.5004]),
     [-4.37239925594, -0.100000006169, -4.3723993389, -7.45355781787]),
    ("poisson", ([0, 1e6, 1001000, 2], [0, 1001000, 1e6, 1e-5]), [0.0, -8.32636081199, -8.32702706222, -23.719008161])])
def test_probabilities_of_large_shapes(law, args, want):
    """Numbers of 60 digits, by the logarithm of gamma, at these arguments in float32."""
    args = [np.float32(a) for a in args]
    np.testing.assert_allclose(getattr(stats, law).logpmf(*args), want, 1e-5)
    with config.enable_x64(True):
        np.testing.assert_allclose(getattr(stats, law).logpmf(*[a.astype(np.float64) for a in args]), want, 3e-11)


def test_certain_counts_have_no_logarithm_left():
    assert stats.binom.logpmf(0, 7, 0.0) == 0 and stats.binom.logpmf(7, 7, 1.0) == 0 and stats.nbinom.logpmf(0, 3.3, 1.0) == 0
    assert stats.binom.logpmf(1, 7, 0.0) == -np.inf and stats.nbinom.logpmf(2, 3.3, 1.0) == -np.inf
    assert stats.betabinom.logpmf(0, 0, 2.0, 3.0) == 0 and stats.poisson.logpmf(0, 0.0) == 0


def test_derivatives_of_probabilities_of_large_shapes():
    f = np.float32
    np.testing.assert_allclose(grad(stats.binom.logpmf, 2)(f(0), f(1e6), f(0.0)), -1e6)
    p = float(f(0.001))
    np.testing.assert_allclose(grad(stats.binom.logpmf, 2)(f(1100), f(1e6), f(p)), 1100 / p - 998900 / (1 - p), 1e-5)
    np.testing.assert_allclose(grad(stats.nbinom.logpmf, 2)(f(1003000), f(1e6), f(0.5)), -6000, 1e-5)
    np.testing.assert_allclose(grad(stats.poisson.logpmf, 1)(f(1e6), f(1001000)), 1e6 / 1001000 - 1, 1e-5)
    np.testing.assert_allclose(grad(stats.betabinom.logpmf, 2)(f(600000), f(1e6), f(3e6), f(2e6)), 0.0, atol=1e-6)


@pytest.mark.parametrize("a, b, x, density, share", [  # by 40 digits
    (1.0, 1.000001, 1.00000025, 13.815510808046634, 0.25000009380555803),
    (-0.25, -0.2499, -0.24993, 9.2103453711669283, 0.69999737559057208),
    (30.0, 30.01, 30.004, 4.6314304253812506, 0.43630002067426533),
    (-0.5, 0.25, 0.125, 0.31054146811777749, 0.83124270061452869)])
def test_a_normal_cut_off_closely_keeps_its_digits(a, b, x, density, share):
    with config.enable_x64(True):
        assert abs(float(stats.truncnorm.logpdf(x, a, b)) - density) < 1e-13
        assert abs(float(stats.truncnorm.cdf(x, a, b)) - share) < 1e-13
        assert float(grad(stats.truncnorm.logpdf, 1)(-1.5, -np.inf, -1.0)) == 0


def test_valid_correlations_in_a_larger_matrix_are_scipys():
    x, y = np.array([[1 + 2j]]), np.array([[1, 1j], [2, 3]])
    assert np.allclose(signal.correlate2d(x, y, "valid"), [[3 * (1 - 2j), 2 * (1 - 2j)], [1j * (1 - 2j), 1 - 2j]])
    assert np.allclose(signal.correlate2d(y, x, "valid"), y * (1 - 2j))


def test_gennorm_of_large_exponents():
    """Its share is next to (1 + x) / 2 inside, whose power x ** beta underflows; numbers of mpmath."""
    beta = np.float32([4e4, 1e6, 811186.5, 336378.66, 30502.53])
    x = np.float32([-0.99, -0.5, -1.0000014, -1.0000025, 1.3673786])
    want = [0.00499285, 0.24999986, 6.31494605e-09, 4.69587979e-08, 1.0]
    np.testing.assert_allclose(stats.gennorm.cdf(x, beta), want, 2e-5)
    derivative = grad(lambda x: stats.gennorm.cdf(x, beta).sum())(x)
    np.testing.assert_allclose(derivative, stats.gennorm.pdf(x, beta), 2e-5, 1e-12)
    assert np.isfinite(grad(lambda b: stats.gennorm.cdf(x, b).sum())(beta)).all()
