"""Quantiles at infinities, histograms of what does not fit, sets of nothing and of NaN."""
import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad, jacfwd
from lamina_ir import ShapeError
from lamina_numpy._sorting import histograms
from lamina_tracing import make_jaxpr

_V = np.array([3., 1., 2.], np.float32)


@pytest.mark.parametrize("x", [[1, np.inf, np.inf], [-np.inf, 1], [-np.inf, 1, np.inf]])
def test_quantiles_at_an_infinity_are_infinite(x):
    x = np.array(x, np.float32)
    assert lnp.quantile(x, 0.) == x.min() and lnp.quantile(x, 1.) == x.max() == lnp.percentile(x, 100)
    if len(x) % 2:
        assert lnp.quantile(x, 0.5) == x[len(x) // 2] == lnp.nanquantile(x, 0.5)


@pytest.mark.parametrize("call, error, words", [
    (lambda: lnp.histogram(_V, 0), ValueError, "positive"),
    (lambda: lnp.histogram(_V, np.ones((2, 2))), ValueError, "one axis"),
    (lambda: lnp.histogram(_V, 2.5), TypeError, "integer"),
    (lambda: lnp.histogram(_V, 2, (4, 0)), ValueError, "lowest"),
    (lambda: lnp.histogram(_V, 2, weights=np.ones(1)), ShapeError, "weights must have one length"),
    (lambda: lnp.histogramdd([_V, np.ones(1)], 2), ShapeError, "histogramdd: coordinates"),
    (lambda: lnp.histogram2d(_V, np.ones(1), 2), ShapeError, "histogram2d: coordinates"),
    (lambda: lnp.histogramdd(np.ones((2, 2, 2)), 2), ValueError, "samples"),
    (lambda: lnp.unique(np.eye(2), axis=2), ShapeError, "unique: axis 2"),
])
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_edges_are_arrays_of_ours_and_two_numbers_are_one_per_axis():
    edges = np.array([0., 2., 4.])
    for found in (lnp.histogram(_V, edges)[1], lnp.histogramdd([_V], [edges])[1][0], lnp.histogram2d(_V, _V, edges)[1]):
        assert isinstance(found, lnp.ndarray) and found.dtype == np.float32
    found, expected = lnp.histogram2d(_V, _V, np.array([2, 3])), np.histogram2d(_V, _V, np.array([2, 3]))
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("fun", [lnp.setdiff1d, lnp.setxor1d, lnp.intersect1d])
def test_sets_of_a_known_size_of_nothing(fun):
    nothing = np.zeros(0, np.float32)
    np.testing.assert_array_equal(fun(nothing, nothing, size=2, fill_value=7), [7, 7])
    found = np.asarray(fun(nothing, _V, size=4, fill_value=7))
    expected = getattr(np, fun.__name__)(nothing, _V)
    np.testing.assert_array_equal(found, [*expected, *[7] * (4 - len(expected))])


@pytest.mark.parametrize("first, second", [("int8", "uint8"), ("uint8", "int16"), ("int16", "float32"), ("float16", "int8")])
@pytest.mark.parametrize("size", [None, 3])
def test_what_is_left_of_a_set_keeps_its_dtype(first, second, size):
    found = lnp.setdiff1d(np.array([3, 1, 2], first), np.array([1], second), size=size)
    assert found.dtype == first and found.tolist() == [2, 3, 0][:size or 2]
    large = lnp.setdiff1d(np.array([2**24 + 1, 5], np.int32), np.array([5], np.float32), size=size)
    assert large.tolist()[0] == 2**24 + 1


def test_sets_of_a_known_size_count_nan_once():
    x = np.array([np.nan, 1, np.nan], np.float32)
    np.testing.assert_array_equal(lnp.setdiff1d(x, _V, size=3), [np.nan, 0, 0])
    values, first, second = lnp.intersect1d(x[:0], _V, return_indices=True, size=2)
    assert values.shape == first.shape == second.shape == (2,)


@pytest.mark.parametrize("edges", [4, [0, 1, 1, 2], [0, 2, 2], [-np.inf, 0, 3, np.inf], [1, 1], [0.5], [3, 4]])
@pytest.mark.parametrize("x", [[0, 1, 1, 2, 2.5, 5], [np.nan, 1, 2], [2, 2, 2], [-np.inf, np.inf, 1, 3]])
def test_both_ways_of_counting_give_the_same(monkeypatch, x, edges):
    if isinstance(edges, int) and np.isinf(x).any():
        pytest.skip("no equal bins reach from one infinity to the other")
    x, edges, found = np.float32(x), edges if isinstance(edges, int) else np.float32(edges), []
    for most in (0, 1 << 12):
        monkeypatch.setattr(histograms, "_MOST_COMPARED", most)
        found.append(np.asarray(lnp.histogram(x, edges)[0]))
    np.testing.assert_array_equal(*found)
    if np.isfinite(x).all():
        np.testing.assert_array_equal(found[0], np.histogram(x, edges)[0])


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_the_gradient_of_a_quantile_writes_its_places_alone(method):
    x = np.array([[3., 1., 2., 2.], [np.nan, 1., 0., 5.]], np.float32)
    g = np.asarray(grad(lambda v: lnp.nansum(lnp.quantile(v, 0.4, axis=1, method=method)))(x))
    weights = {"linear": (0.8, 0.2), "midpoint": (0.5, 0.5), "lower": (1, 0), "higher": (0, 1), "nearest": (1, 0)}[method]
    assert np.allclose(g, [[0, 0, *weights], [0, 0, 0, 0]])  # between the second and the third, of equals the first
    text = str(make_jaxpr(grad(lambda v: lnp.median(v, axis=1).sum()))(x))
    assert text.count("sort[") == 1 and "unique_indices=True" not in text
    derivatives = jacfwd(lambda v: lnp.nanquantile(v, 0.4, axis=1, method=method))(x)
    assert np.allclose(np.asarray(derivatives)[0, 0], g[0]) and not np.asarray(derivatives)[0, 1].any()


@pytest.mark.parametrize("size", [None, 3])
def test_sets_of_booleans_are_booleans(size):
    a, b = np.array([True, False, True]), np.array([True])
    for fun in (lnp.setdiff1d, lnp.setxor1d, lnp.intersect1d, lnp.union1d):
        assert fun(a, b, size=size).dtype == np.bool_
    assert lnp.compress(a, a, size=3).tolist() == [True, True, False]


@pytest.mark.parametrize("method", ["scan", "compare_all", "scan_unrolled"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_of_complex_nan_is_numpys(side, method):
    parts = (0.0, 1.0, np.inf, np.nan)
    a = np.sort(np.array([complex(x, y) for x in parts for y in parts], np.complex64))
    found = lnp.searchsorted(a, a, side=side, method=method)
    np.testing.assert_array_equal(np.asarray(found), np.searchsorted(a, a, side=side))


def test_largest_and_smallest_elements():
    x = np.float32([[3, np.nan, 1, 1], [-1, 0, 5, 5]])
    values, positions = lnp.top_k(x, 2)
    np.testing.assert_array_equal(values, [[np.nan, 3], [5, 5]])
    np.testing.assert_array_equal(positions, [[1, 0], [2, 3]])
    values, positions = lnp.top_k(x, 3, mode="smallest", sorted=False)
    np.testing.assert_array_equal(values, [[1, 1, 3], [-1, 0, 5]])
    np.testing.assert_array_equal(positions, [[2, 3, 0], [0, 1, 2]])
    assert positions.dtype == np.int32 and lnp.top_k(x, 0)[0].shape == (2, 0)
    np.testing.assert_array_equal(lnp.top_k(x, 1, axis=0)[1], [[0, 0, 1, 1]])
    for given in (np.uint8([3, 0, 255]), np.int8([3, -128, 127]), np.array([True, False, True])):
        np.testing.assert_array_equal(lnp.top_k(given, 3, mode="smallest")[0], np.sort(given))
    np.testing.assert_array_equal(grad(lambda x: lnp.top_k(x, 2, mode="smallest")[0].sum())(x[1]), [1, 1, 0, 0])


@pytest.mark.parametrize("call, error, words", [
    (lambda: lnp.top_k(_V, 4), ValueError, "top_k: k must be from 0 to 3"),
    (lambda: lnp.top_k(_V, -1), ValueError, "top_k: k must"),
    (lambda: lnp.top_k(_V, 1.5), TypeError, "top_k: k must be an int"),
    (lambda: lnp.top_k(_V * 1j, 1), TypeError, "top_k: expected"),
    (lambda: lnp.top_k(_V, 1, mode="low"), ValueError, 'top_k: mode must be "largest" or "smallest"; got .low.'),
    (lambda: lnp.top_k(_V, 1, axis=1), ShapeError, "top_k"), (lambda: lnp.minmax(_V[:0]), ValueError, "is empty along")])
def test_errors_of_selections(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_both_extremes():
    x = np.float32([[3, -1, 1], [4, 0, 5]])
    for axis in (None, 0, -1, (0, 1)):
        for keep in (False, True):
            low, high = lnp.minmax(x, axis, keepdims=keep)
            np.testing.assert_array_equal(low, x.min(axis, keepdims=keep))
            np.testing.assert_array_equal(high, x.max(axis, keepdims=keep))
    assert [float(v) for v in lnp.minmax(x, initial=(-2, 4), where=x > 0)] == [-2, 5]
    assert [float(v) for v in lnp.minmax(x, initial=9)] == [-1, 9]
    assert np.isnan(lnp.minmax(np.float32([1, np.nan]))).all()
