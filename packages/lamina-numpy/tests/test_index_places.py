"""Places: inserting, masks, narrow integers, places among complex numbers; nothing to take a median of; counts in half
precision."""
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


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("method", ["scan", "scan_unrolled", "compare_all"])
@pytest.mark.parametrize("size", [0, 1, 9, 600, 5000])  # few pairs, many, and so many that the bisection is a loop
def test_places_do_not_depend_on_how_they_are_found(size, method, side):
    rng = np.random.default_rng(size)
    a = np.sort(np.concatenate([rng.integers(-5, 5, size), [np.inf, np.nan][:size // 2]]).astype(np.float32))
    v = np.concatenate([rng.integers(-6, 6, 12), [np.nan, np.inf, -np.inf, -0.0]]).astype(np.float32).reshape(4, 4)
    found = np.asarray(jnp.searchsorted(a, v, side, method=method))
    np.testing.assert_array_equal(found, np.searchsorted(a, v, side))
    assert found.dtype == np.int32


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


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_positions_in_narrow_integers_do_not_overflow(dtype):
    at = np.array([100, 1], dtype)
    wide = at.astype(int)
    for got, want in zip(jnp.unravel_index(at, (200, 3)), np.unravel_index(wide, (200, 3))):
        np.testing.assert_array_equal(np.asarray(got), want)
    for mode in ("raise", "wrap", "clip"):
        got = jnp.ravel_multi_index((at, at), (200, 300), mode)
        np.testing.assert_array_equal(np.asarray(got), np.ravel_multi_index((wide, wide), (200, 300), mode))
        np.testing.assert_array_equal(np.asarray(jnp.choose(at, list(range(200)), mode=mode)), wide)
    np.testing.assert_array_equal(np.flatnonzero(jnp.put(np.zeros(300), at, 1, "wrap", inplace=False)), [1, 100])
    got = jnp.repeat(np.arange(2), np.array([100, 100], dtype), total_repeat_length=200)
    np.testing.assert_array_equal(np.asarray(got), np.repeat(np.arange(2), 100))


def test_positions_outside_in_unsigned_integers():
    large = np.array([2 ** 32 - 1], np.uint32)
    assert [int(i[0]) for i in jnp.unravel_index(large, (20, 30))] == [19, 29]
    assert jnp.ravel_multi_index((large,), (300,), "wrap") == (2 ** 32 - 1) % 300
    assert jnp.ravel_multi_index((large,), (300,), "clip") == 299
    assert [int(i[0]) for i in jnp.unravel_index(np.array([-1], np.int16), (20, 30))] == [19, 29]


def test_insert_where_a_mask_holds():
    x, mask = np.arange(3), np.array([True, False, True])
    np.testing.assert_array_equal(np.asarray(jnp.insert(x, mask, 9)), [9, 0, 1, 9, 2])
    with pytest.raises(TypeError, match="places must be integers, or a mask of length 3"):
        jnp.insert(x, 1.5, 9)
    for place in (4, [-4, 1]):
        with pytest.raises(IndexError, match=r"insert: positions must be in \[-3, 3\]"):
            jnp.insert(x, place, 1)
    with pytest.raises(TypeError, match="traced mask"):
        jit(lambda m: jnp.insert(x, m, 9))(mask)


@pytest.mark.parametrize("trim", ["fb", "f", "b", "B", ""])
@pytest.mark.parametrize("x", [[0, 1, 0, 2, 0], [0, 0], [[0, 0, 0], [0, 1, 0], [2, 0, 0]], [[0, 0], [0, 0]]])
def test_trim_zeros_of_every_axis(x, trim):
    axes = [np.nonzero(x)[i] for i in range(np.ndim(x))]
    box = tuple(slice((i.min() if i.size else n) if "f" in trim.lower() else 0,
                      (i.max() + 1 if i.size else 0) if "b" in trim.lower() else n) for i, n in zip(axes, np.shape(x)))
    np.testing.assert_array_equal(np.asarray(jnp.trim_zeros(np.array(x), trim)), np.array(x)[box])


def test_conditions_past_the_end_masks_of_other_sizes_and_nothing_to_put():
    with pytest.raises(ValueError, match="is true at index 2, past the end"):
        jnp.compress(np.array([0, 1, 1]), np.arange(2))
    np.testing.assert_array_equal(np.asarray(jnp.compress(np.array([0, 1, 0]), np.arange(2))), [1])
    with pytest.raises(ValueError, match="axis 1 is out of range"):
        jnp.compress(np.array([True]), np.arange(2), axis=1)
    with pytest.raises(ValueError, match="as many elements"):
        jnp.place(np.arange(2), np.array([True]), 5, inplace=False)
    with pytest.raises(ValueError, match="vals must not be empty"):
        jnp.place(np.arange(2), np.array([True, True]), [], inplace=False)
    np.testing.assert_array_equal(np.asarray(jnp.put(np.arange(2), np.array([0]), [], inplace=False)), [0, 1])
    with pytest.raises(ValueError, match="val must not be empty"):
        jnp.fill_diagonal(np.zeros((2, 2)), np.zeros(0), inplace=False)
    with pytest.raises(NotImplementedError, match="choose: out="):
        jnp.choose(np.array([0]), [1], out=3)
    with pytest.raises(ValueError, match="one for each of 2 axes"):
        jnp.nonzero(np.eye(2), size=3, fill_value=(7,))
    with pytest.raises(ValueError, match="trim must consist of"):
        jnp.trim_zeros(np.arange(2), "x")
    with pytest.raises(TypeError):
        jnp.diag_indices(1.5)
    for repeats, total, error in ((-1, None, ValueError), (1, -1, ValueError), (np.array([1.5]), 3, TypeError)):
        with pytest.raises(error, match="repeat: "):
            jnp.repeat(np.arange(2), repeats, total_repeat_length=total)
