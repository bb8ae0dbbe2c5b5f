"""`reduce`, `outer`, `at` and the other ufunc methods, compared with NumPy."""
import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_tracing import jit

A = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
FOLDS = ["add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_xor", "logical_or", "floor_divide"]


def assert_close(got, wanted):
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted, np.float64), rtol=1e-5)


@pytest.mark.parametrize("name", FOLDS)
def test_methods_are_numpys(name):
    ours, theirs = getattr(lnp, name), getattr(np, name)
    a = x = A
    assert isinstance(ours, lnp.ufunc) and (ours.nin, ours.nout, ours.nargs, ours.identity) == (2, 1, 3, theirs.identity)
    axis = 1
    assert_close(ours.reduce(x, axis), theirs.reduce(a, axis))
    assert_close(ours.reduce(x, axis, keepdims=True), theirs.reduce(a, axis, keepdims=True))
    assert_close(ours.accumulate(x, axis=1), theirs.accumulate(a, axis=1))
    assert_close(jit(lambda v: ours.accumulate(v, axis=0))(x), theirs.accumulate(a, axis=0))
    assert_close(ours.outer(x[0], x[1, :2]), theirs.outer(a[0], a[1, :2]))
    where = [0, 2, 1, 1]
    assert_close(ours.reduceat(x, np.array(where), axis=1), theirs.reduceat(a, where, axis=1))
    assert_close(jit(lambda v, i: ours.reduceat(v, i, axis=1))(x, np.array(where)), theirs.reduceat(a, where, axis=1))
    wanted = a.astype(bool) if name.startswith("logical") else a.copy()
    theirs.at(wanted, ([0, 0, 1], [1, 1, 0]), a.dtype.type(2))
    changed = x.astype(wanted.dtype) if name.startswith("logical") else x
    assert_close(ours.at(changed, ([0, 0, 1], [1, 1, 0]), x.dtype.type(2), inplace=False), wanted)


def test_folds_of_any_function():
    f = lnp.frompyfunc(lambda a, b: 10 * a + b, 2, 1, identity=0)
    assert isinstance(f, lnp.ufunc) and repr(f) == "<ufunc '<lambda>'>"
    assert f.reduce(A[0]) == 1234 and f.reduce(A[0], initial=7) == 71234 and f.reduce(A[0], where=A[0] > 2) == 34
    assert f.reduce(A[:2, :2], axis=(1, 0)) == 1526 and f.reduce(A[:0, 0]) == 0
    assert f.accumulate(A[:2, :2], axis=None).tolist() == [1, 12, 125, 1256]
    assert f.outer(A[0, :2], 3).tolist() == [13, 23]
    assert f.at(A[0], np.array([1, 1, 9]), 5, inplace=False).tolist() == [1, 255, 3, 4]
    assert lnp.sin.at(np.zeros(2, np.float32), np.array([0]), inplace=False).tolist() == [0, 0] and lnp.frexp.nout == 2
    assert_close(vmap(lnp.subtract.reduce)(A), np.subtract.reduce(A, 1))
    assert grad(lambda v: lnp.frompyfunc(lambda a, b: a * b, 2, 1).reduce(v))(np.float32([2, 3, 4])).tolist() == [12, 8, 6]
    assert jit(f)(1, 2) == 12 and f == f and hash(f) == hash(f) and f != lnp.frompyfunc(lambda a: a, 1, 1)
    assert not isinstance(None, lnp.ufunc)
    assert not isinstance(lnp.sum, lnp.ufunc) and not isinstance(jit(lnp.add), lnp.ufunc) and not isinstance(np.add, lnp.ufunc)


@pytest.mark.parametrize("use, error, words", [
    (lambda: lnp.sin.reduce(A), ValueError, "sin.reduce: the function must take two"),
    (lambda: lnp.add.at(A, 0, 1), NotImplementedError, "inplace=False"),
    (lambda: lnp.add.at(A, 0, inplace=False), TypeError, "takes 2 arguments"),
    (lambda: lnp.subtract.reduce(A[:0]), ValueError, "subtract.reduce: .*no identity.*initial="),
    (lambda: lnp.subtract.reduce(A, where=A > 2), ValueError, "no identity"),
    (lambda: lnp.add.reduceat(A, np.array([0, 9])), IndexError, "index 9 is outside of an axis of length 3"),
    (lambda: lnp.subtract.reduce(A, axis=(0, 0)), ValueError, "twice"), (lambda: lnp.subtract.reduce(A, 5), ValueError, "axis"),
    (lambda: lnp.frompyfunc(3, 1, 1), TypeError, "expected a function"),
    (lambda: lnp.frompyfunc(lambda x: x, -1, 1), ValueError, "nin"),
    (lambda: lnp.frompyfunc(lambda x, y: x, 2, 1)(1), TypeError, "takes 2 arguments; got 1"),
    (lambda: lnp.frompyfunc(lambda x: x, 1, 1)(1, where=True), NotImplementedError, "numpy.where")])
def test_what_cannot_be_is_refused(use, error, words):
    with pytest.raises(error, match=words):
        use()


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_truth_values_come_of_folding_nothing_too(name):
    fun = getattr(lnp, name)
    for empty in (np.zeros(0, np.float32), np.zeros((0, 3), np.int32)):
        assert fun.accumulate(empty).dtype == fun.reduce(empty).dtype == fun.reduce(empty, initial=3).dtype == bool
    assert bool(fun.reduce(np.zeros(0, np.float32), initial=3.0))
