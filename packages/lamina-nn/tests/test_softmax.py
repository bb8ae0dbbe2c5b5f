"""Softmax and its kin: infinities, masks, dtypes and derivatives; numbers of classes as vectors."""
import numpy as np
import pytest
from lamina_autodiff import grad, hessian, linearize
from lamina_batching import vmap
from lamina_ir import ShapeError, UnboundAxisError
from lamina_tracing import make_jaxpr

import lamina_nn as nn
import lamina_numpy as lnp

inf, nan = np.inf, np.nan
X = np.round(np.random.default_rng(0).normal(size=(4, 3, 5)) * 3, 2).astype(np.float32)
MASK = np.random.default_rng(1).random(X.shape) > 0.4


def compute_with_numpy(x, axis, mask=True):
    e = np.where(mask, np.exp(np.where(mask, x, -inf) - x.max(axis, keepdims=True)), 0)
    total = e.sum(axis, keepdims=True)
    return e / np.where(total, total, 1)


@pytest.mark.parametrize("axis", [-1, 0, (0, 2), None, ()])
def test_values_along_axes(axis):
    where = tuple(range(X.ndim)) if axis is None else axis
    want = compute_with_numpy(X.astype(np.float64), where)
    np.testing.assert_allclose(nn.softmax(X, axis), want, rtol=2e-6)
    np.testing.assert_allclose(nn.log_softmax(X, axis), np.log(want), rtol=2e-6, atol=2e-6)
    wide = X.astype(np.float64)
    np.testing.assert_allclose(nn.logmeanexp(X, axis), np.log(np.exp(wide).mean(where)), rtol=2e-6, atol=1e-6)
    mean, var = wide.mean(where, keepdims=True), wide.var(where, keepdims=True)
    np.testing.assert_allclose(nn.standardize(X, axis), (wide - mean) / np.sqrt(var + 1e-5), rtol=1e-5, atol=1e-6)


def test_what_is_masked_counts_for_nothing():
    bad = np.where(MASK, X, nan)
    np.testing.assert_allclose(nn.softmax(bad, 1, MASK), compute_with_numpy(X, 1, MASK), rtol=2e-6)
    np.testing.assert_allclose(nn.standardize(bad, 1, where=MASK)[MASK], nn.standardize(X, 1, where=MASK)[MASK])
    none = np.zeros_like(MASK)
    assert not nn.softmax(X, 1, none).any() and (nn.log_softmax(X, 1, none) == -inf).all()
    assert np.isnan(nn.logmeanexp(X, 1, none)).all()
    for f in (nn.softmax, nn.logmeanexp):
        derivative = grad(lambda x: lnp.where(True, f(x, axis=1, where=MASK[0]), 0).sum())(bad[:1] * 0 + X[:1])  # noqa: B023
        assert np.isfinite(derivative).all() and not derivative[0][~MASK[0]].any()
    assert np.array_equal(grad(lambda x: (nn.softmax(x, 1, none) * X).sum())(X), np.zeros_like(X))


def test_infinities():
    np.testing.assert_array_equal(nn.softmax(np.array([-inf, 0., 1e30])), [0, 0, 1])
    np.testing.assert_array_equal(nn.log_softmax(np.array([-inf, 1e30, 0.])), [-inf, 0, np.float32(-1e30)])
    for rows in ([-inf, -inf], [inf, 0.], [nan, 0.]):
        assert np.isnan(nn.softmax(np.array(rows))).all()
    derivative = grad(lambda x: nn.log_softmax(x)[1])(np.array([-inf, 0., 0.], np.float32))
    np.testing.assert_allclose(derivative, [0, 0.5, -0.5])
    second = hessian(lambda x: nn.softmax(x)[1])(np.array([-inf, 0., 0.], np.float32))
    np.testing.assert_allclose(second, np.zeros((3, 3)), atol=1e-7)


def test_dtypes():
    for dtype in ("float16", "int8", "uint8", "bool"):
        x = (np.abs(X) * 2).astype(dtype)
        for f in (nn.softmax, nn.log_softmax, nn.standardize):
            got, want = f(x), f(x.astype(np.float32))
            assert got.dtype == (dtype if dtype == "float16" else "float32")
            np.testing.assert_allclose(np.asarray(got, np.float32), want, rtol=2e-3, atol=1e-3)
    many = np.zeros(70_000, np.float16)  # more than the largest float16
    assert nn.softmax(many)[0] == np.float16(1 / 70_000) and abs(nn.log_softmax(many)[0] + np.log(70_000)) < 0.01


def test_standardize_far_from_zero_and_with_numbers_given():
    np.testing.assert_allclose(nn.standardize(X + 1000), nn.standardize(X), rtol=2e-3, atol=2e-4)
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(nn.standardize(x, mean=1., variance=4.), (x - 1) / 2, rtol=1e-5)
    np.testing.assert_allclose(nn.standardize(x, mean=1.), [-0.6324543, 0., 0.6324543, 1.2649086], rtol=1e-6)
    np.testing.assert_allclose(nn.standardize(x, variance=4.), (x - 1.5) / 2, rtol=1e-5)
    assert nn.standardize(np.zeros(3, np.float32), epsilon=0).shape == (3,)


def test_one_hot():
    rows = nn.one_hot(np.array([[0, 2], [5, -1]]), 3)
    np.testing.assert_array_equal(rows, [[[1, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 0, 0]]])
    for axis in (0, 1, -1, -2):
        np.testing.assert_array_equal(nn.one_hot(np.arange(6).reshape(2, 3), 6, axis=axis),
                                      np.moveaxis(np.eye(6)[np.arange(6).reshape(2, 3)], -1, axis))
    assert nn.one_hot(2, 3, dtype="int8").tolist() == [0, 0, 1] and nn.one_hot(np.float16(1), 2).tolist() == [0, 1]
    wide = nn.one_hot(np.arange(3, dtype=np.uint8), 300)
    assert wide.sum() == 3 and wide[:, :3].sum() == 3  # numbers of classes do not wrap
    assert nn.one_hot([True, False], 2, dtype=bool).tolist() == [[False, True], [True, False]]


def test_one_hot_refuses():
    for n, error, words in ((-1, ValueError, "one_hot: num_classes must not be negative; got -1"),
                            (2.5, TypeError, "one_hot: num_classes must be an integer; got 2.5")):
        with pytest.raises(error, match=words):
            nn.one_hot(np.arange(3), n)
    with pytest.raises(ShapeError, match="one_hot: axis 5 is out of range"):
        nn.one_hot(np.arange(3), 3, axis=5)
    with pytest.raises(ValueError, match="one_hot: axis 'b' has 4 positions; expected num_classes=5"):
        vmap(lambda i: nn.one_hot(i, 5, axis="b"), axis_name="b")(np.arange(4))
    with pytest.raises(UnboundAxisError):
        nn.one_hot(np.arange(3), 3, axis="b")


def test_refusals_name_the_call():
    for f in (nn.softmax, nn.log_softmax, nn.logmeanexp, nn.standardize):
        with pytest.raises(ShapeError, match=rf"{f.__name__}: axis 7 is out of range for an array with 3 axes"):
            f(X, axis=7)
        with pytest.raises(ShapeError, match=rf"{f.__name__}: where has shape \(2, 5\); expected one that broadcasts"):
            f(X[0, 0], where=np.ones((2, 5), bool))
    with pytest.raises(ShapeError, match="softmax: axis -1 is out of range for an array with 0 axes"):
        nn.softmax(1.5)


def test_a_gradient_of_softmax_keeps_its_result_alone():
    _, push = linearize(nn.softmax, X)
    assert len(make_jaxpr(push)(X).consts) == 1
