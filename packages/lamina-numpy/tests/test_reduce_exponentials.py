"""`logsumexp`: infinities, nothing, weights, signs, complex numbers, names, derivatives of any order."""
import numpy as np
import pytest
from lamina_autodiff import grad, hessian, jvp
from lamina_batching import vmap
from lamina_ir import ShapeError

import lamina_numpy as lnp
from lamina_numpy.special import logsumexp

inf, nan = np.inf, np.nan
X = np.round(np.random.default_rng(0).normal(size=(3, 4, 5)) * 3, 2)


@pytest.mark.parametrize("axis", [None, 1, (0, 2), (), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_values(axis, keepdims):
    b = np.where(X > 1, 0, np.cos(X))
    total = (b * np.exp(X)).sum(axis, keepdims=keepdims)
    np.testing.assert_allclose(logsumexp(X, axis, keepdims=keepdims), np.log(np.exp(X).sum(axis, keepdims=keepdims)), rtol=3e-6,
                               atol=1e-6)
    size, sign = logsumexp(X, axis, b, keepdims, True)
    np.testing.assert_array_equal(sign, np.sign(total))
    sure = np.abs(total) > 0.05
    np.testing.assert_allclose(size[sure], np.log(np.abs(total[sure])), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(np.isnan(logsumexp(X, axis, b, keepdims)), total < 0)


@pytest.mark.parametrize("row, want", [([-inf, -inf], -inf), ([], -inf), ([inf, 0.], inf), ([nan, 0.], nan), ([-inf, 3.], 3.),
                                       ([1e30, 1e30], 1e30), ([inf, -inf], inf), ([inf, nan], nan), ([1000.] * 3, 1001.0986)])
def test_infinities_and_nothing(row, want):
    np.testing.assert_allclose(logsumexp(np.array(row)), want, rtol=1e-6)
    np.testing.assert_allclose(logsumexp(np.array(row), return_sign=True)[1], nan if want != want else want != -inf)


def test_what_does_not_count():
    np.testing.assert_allclose(logsumexp(np.array([0., inf, nan]), b=np.array([2., 0., 0.])), np.log(2), rtol=1e-6)
    np.testing.assert_allclose(logsumexp(np.array([0., inf, nan]), where=np.array([True, False, False])), 0, atol=1e-7)
    assert logsumexp(np.array([1., 1.]), b=np.array([1., -1.])) == -inf
    size, sign = logsumexp(np.array([1., 1.]), b=np.array([1., -1.]), return_sign=True)
    assert size == -inf and sign == 0
    np.testing.assert_allclose(logsumexp(2., b=np.ones(3)), 2 + np.log(3), rtol=1e-6)
    with pytest.raises(ShapeError, match="logsumexp"):
        logsumexp(np.zeros((2, 3)), b=np.ones(2))
    for f in (logsumexp, lnp.mean, lnp.var):
        with pytest.raises(ShapeError, match=rf"{f.__name__}: where has shape \(2, 3\); expected one that broadcasts"):
            f(np.zeros(3), 0, where=np.ones((2, 3), bool))


def test_complex_numbers():
    z = (X + 1j * X[::-1]).astype(np.complex64)
    total = np.exp(z.astype(complex)).sum(1)
    np.testing.assert_allclose(logsumexp(z, 1), np.log(total), rtol=1e-4, atol=1e-5)
    size, sign = logsumexp(z, 1, return_sign=True)
    assert size.dtype == np.float32
    np.testing.assert_allclose(size, np.log(np.abs(total)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sign, total / np.abs(total), rtol=1e-4, atol=1e-5)


def test_dtypes():
    for dtype in ("float16", "int8", "bool", "uint8"):
        y = logsumexp(np.abs(X).astype(dtype), 1)
        assert y.dtype == ("float16" if dtype == "float16" else "float32")
    assert abs(logsumexp(np.zeros(70_000, np.float16)) - np.log(70_000)) < 0.01  # its sum is no float16
    assert logsumexp(np.zeros(2, np.float32), b=np.ones(2, np.int8)).dtype == np.float32


def test_derivatives_are_those_of_softmax():
    x = np.array([-inf, 0., 1., -1000.], np.float32)
    p = np.exp(x) / np.exp(x).sum()
    np.testing.assert_allclose(grad(logsumexp)(x), p, rtol=1e-6)
    np.testing.assert_allclose(hessian(logsumexp)(x), np.diag(p) - np.outer(p, p), atol=1e-6)
    third = grad(lambda x: hessian(logsumexp)(x)[1, 1])(x)
    np.testing.assert_allclose(third[1], p[1] * (1 - p[1]) * (1 - 2 * p[1]), atol=1e-6)


def test_the_derivative_in_a_weight_that_is_zero():
    a, b = np.array([0., 1., 2.], np.float32), np.array([0., 1., 2.], np.float32)
    derivatives = grad(lambda b: logsumexp(a, b=b))(b)
    np.testing.assert_allclose(derivatives, np.exp(a) / (b * np.exp(a)).sum(), rtol=1e-6)
    assert np.isfinite(grad(lambda a: logsumexp(a, b=b))(np.array([inf, 1., 2.], np.float32))).all()


def test_derivatives_where_elements_are_infinite():
    for a, b, want in (([inf, 1.], None, [1, 0]), ([inf, -inf, 2.], None, [1, 0, 0]), ([inf, inf, 0.], None, [.5, .5, 0]),
                       ([-inf, 1.], None, [0, 1]), ([inf, 1.], [2., .5], [1, 0]), ([inf, inf, 0.], [2., .5, 1.], [.8, .2, 0]),
                       ([inf, 1.], [0., .5], [0, 1]), ([nan, inf], [0., .5], [0, 1]), ([inf, 1.], [2., -.5], [1, 0])):
        a, b = np.array(a, np.float32), None if b is None else np.array(b, np.float32)
        for f in (lambda a: logsumexp(a, b=b), lambda a: logsumexp(a, b=b, return_sign=True)[0]):  # noqa: B023
            np.testing.assert_allclose(grad(f)(a), want, rtol=1e-6)
            np.testing.assert_allclose([jvp(f, (a,), (t,))[1] for t in np.eye(len(a), dtype=np.float32)], want, rtol=1e-6)
    np.testing.assert_array_equal(hessian(logsumexp)(np.array([inf, 1.], np.float32)), np.zeros((2, 2)))
    np.testing.assert_array_equal(grad(lambda b: logsumexp(np.array([inf, 1.]), b=b))(np.array([2., 1.])), [.5, 0])
    for a, b in (([inf, inf], [1., -1.]), ([inf, 1.], [1., nan]), ([inf, nan], [1., 1.])):
        assert np.isnan(logsumexp(np.array(a), b=np.array(b)))


@pytest.mark.parametrize("axis, whole", [("b", 0), (("b", 0), (0, 1)), ((-1, "b"), (0, 2))])
def test_names(axis, whole):
    x, b = X.astype(np.float32), np.cos(X).astype(np.float32) + 2
    got = vmap(lambda x, b: logsumexp(x, axis, b), axis_name="b", out_axes=None)(x, b)
    np.testing.assert_allclose(got, logsumexp(x, whole, b), rtol=2e-6)


def test_logaddexp_has_derivatives_of_higher_order_where_both_are_equal():
    for f, base in ((lnp.logaddexp, np.e), (lnp.logaddexp2, 2.0)):
        np.testing.assert_allclose(hessian(lambda v: f(v[0], v[1]))(np.zeros(2, np.float32)),  # noqa: B023
                                   np.log(base) * np.array([[.25, -.25], [-.25, .25]]), rtol=1e-6)
        assert grad(f)(-inf, -inf) == 1 and grad(f, 1)(-inf, -inf) == 0 and grad(f, 1)(-inf, 0.) == 1
        assert np.isnan(f(nan, 0.)) and np.isnan(f(0., nan)) and f(inf, inf) == inf and f(-inf, -inf) == -inf


def test_running_logsumexp_has_derivatives_of_higher_order_where_values_are_equal():
    from lamina_tracing import lax
    second = hessian(lambda x: lax.cumlogsumexp(x)[-1])(np.zeros(4, np.float32))
    np.testing.assert_allclose(second, np.eye(4) / 4 - 1 / 16, atol=1e-6)
