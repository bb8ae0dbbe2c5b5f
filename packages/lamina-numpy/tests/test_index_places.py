"""Inserting at traced places; places among complex numbers; nothing to take a median of; counts in half precision."""
from __future__ import annotations

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_tracing import jit


@pytest.mark.parametrize("place", [0, 2, -1, -2])
@pytest.mark.parametrize("shape, axis, values", [
    ((4,), None, 9), ((4,), 0, [7, 8]), ((4, 3), 0, 9), ((3, 4), 1, [5, 6, 7]), ((2, 4), 1, [[5, 6], [7, 8]]),
    ((2, 2), None, 1), ((2, 3), 0, [[1, 2, 3], [4, 5, 6]]), ((2, 3, 2), 1, np.arange(4).reshape(2, 2))])
def test_insert_at_a_traced_place(place, shape, axis, values):
    x = np.arange(np.prod(shape)).reshape(shape)
    got = jit(lambda i: jnp.insert(x, i, np.asarray(values), axis))(place)
    np.testing.assert_array_equal(np.asarray(got), np.insert(x, place, values, axis))
    for known in (place, [place]):
        if not isinstance(known, list) or np.ndim(values) == 0 or axis is None or np.ndim(values) == x.ndim:
            try:
                want = np.insert(x, known, values, axis)
            except ValueError:
                continue
            np.testing.assert_array_equal(np.asarray(jnp.insert(x, known, np.asarray(values), axis)), want)


@pytest.mark.parametrize("places", [[0, 0, 4], [3, 1], [1, 1, 1], [4, 0, 2, -1]])
def test_insert_at_several_traced_places(places):
    x, values = np.arange(4), np.arange(10, 10 + len(places))
    got = jit(lambda i: jnp.insert(x, i, values))(np.array(places))
    np.testing.assert_array_equal(np.asarray(got), np.insert(x, places, values))
    np.testing.assert_array_equal(np.asarray(jit(lambda i: jnp.insert(x, i, 7))(np.array(places))), np.insert(x, places, 7))


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_among_complex_numbers_with_nan(side):
    nan = np.nan
    values = np.array([complex(a, b) for a in (0, 1, nan) for b in (-1, 2, nan)], np.complex64)
    a = np.sort(values)
    np.testing.assert_array_equal(np.asarray(jnp.searchsorted(a, values, side)), np.searchsorted(a, values, side))


def test_median_of_an_empty_result():
    assert jnp.median(jnp.zeros((0, 4, 2)), axis=1).shape == (0, 2)
    assert jnp.quantile(jnp.zeros((3, 0)), np.array([0.1, 0.9]), axis=0, keepdims=True).shape == (2, 1, 0)
    with pytest.raises(ValueError, match="no elements along axes"):
        jnp.median(jnp.zeros((0, 4)), axis=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_histograms_of_half_precision_count_all(dtype):
    x = jnp.zeros(5000, dtype)
    for counts in (jnp.histogram(x)[0], jnp.histogram2d(x, x)[0], jnp.histogramdd([x, x])[0]):
        assert counts.dtype == np.float32 and float(counts.max()) == 5000


def test_nan_of_small_floats_counts_once():
    found, counts = jnp.unique(jnp.array([1, np.nan, 1, np.nan], jnp.bfloat16), return_counts=True)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(found, np.float32), [1, np.nan])
    np.testing.assert_array_equal(np.asarray(counts), [2, 2])
