"""Covariances of too few, padding of nothing, interpolation of what has no order, polynomials in rows."""
import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_ir import ShapeError, config

_I, _V = np.array([3, 1, 1, 5]), np.array([3., 1., 2.], np.float32)


@pytest.mark.parametrize("settings", [{"ddof": 3}, {"ddof": 5}, {"ddof": 9, "aweights": _V}, {"ddof": 9, "fweights": _I[:3]}])
def test_covariances_of_too_few_observations_are_not_numbers(settings):
    assert np.isnan(lnp.cov(_V, **settings))
    assert np.isnan(lnp.cov(np.zeros(0)))


@pytest.mark.parametrize("call, error, words", [
    (lambda: lnp.cov(_V, fweights=np.ones(1)), ShapeError, "fweights must have one number"),
    (lambda: lnp.cov(_V, aweights=2.), ShapeError, "aweights must have one number"),
    (lambda: lnp.interp(1j, _V, _V), TypeError, "real"), (lambda: lnp.interp(1., _V + 1j, _V), TypeError, "real"),
    (lambda: lnp.interp(1., _V, _V, period=0.), ValueError, "period"),
    (lambda: lnp.ediff1d(_I, to_end=9.5), TypeError, "to_end must fit"),
    (lambda: lnp.pad(_I, 2, "reflect", reflect_type="both"), ValueError, "reflect_type"),
    (lambda: lnp.pad(_I, 2, "mean", stat_length=-1), ValueError, "stat_length must not be negative"),
    (lambda: lnp.pad(_I, 2, "mean", stat_length=1.5), TypeError, "stat_length must be integers"),
    *((lambda m=m: lnp.pad(_V[:0], 1, m), ValueError, "axis 0 is empty") for m in ("edge", "wrap", "linear_ramp", "mean")),
    (lambda: lnp.polyval(3., 3.), ValueError, "polyval"), (lambda: lnp.polydiv(_V, _V[:0]), ValueError, "no coefficients"),
])
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_numbers_put_around_differences():
    np.testing.assert_array_equal(lnp.ediff1d(_I, 9, [7, 8]), np.ediff1d(_I, 9, [7, 8]))
    np.testing.assert_array_equal(lnp.ediff1d(_V, 9), np.ediff1d(_V, 9))


@pytest.mark.parametrize("shape, x", [((3, 2), np.arange(2.)), ((3, 2), 2.), ((3, 2, 1), np.arange(4.)), ((3,), np.arange(4.))])
def test_polynomials_with_further_axes(shape, x):
    p = np.arange(float(np.prod(shape))).reshape(shape)
    np.testing.assert_array_equal(lnp.polyval(p, x), np.polyval(p, x))


@pytest.mark.parametrize("lengths", [2, (1, 3), [(2, 1)]])
def test_padding_by_some_of_the_elements(lengths):
    np.testing.assert_array_equal(lnp.pad(_I, 2, "mean", stat_length=lengths), np.pad(_I, 2, "mean", stat_length=lengths))


def test_trapezoids_are_as_wide_as_the_wider_of_samples_and_places():
    with config.enable_x64(True):
        y, x = np.arange(3.0), np.float32([0.1, 0.25, 1 / 3])
        got = lnp.trapezoid(y, x)
        assert got.dtype == np.float64 and got == np.trapezoid(y, np.float64(x)) != np.trapezoid(y, x)
        assert lnp.trapezoid(np.float32(y), np.float64(x)).dtype == np.float64
