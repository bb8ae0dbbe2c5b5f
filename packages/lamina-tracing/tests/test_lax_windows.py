"""The function reduce_window."""
import numpy as np
import pytest
from lamina_ir import ShapeError
from lamina_tracing import lax, make_jaxpr

X = np.float32([3, 1, 4, 1, 5])


def test_known_computations_become_special_primitives():
    for fun, init, name in ((lax.add, 0.0, "sum"), (lax.mul, 1.0, "prod"), (lax.max, -np.inf, "max"),
                            (lax.min, np.inf, "min")):
        program = make_jaxpr(lambda x: lax.reduce_window(x, init, fun, (2,), (1,), "VALID"))(X)
        assert [e.primitive.name for e in program.jaxpr.eqns] == [f"reduce_window_{name}"]


def test_initial_value_is_combined_once_per_window():
    out = lax.reduce_window(X, 10.0, lax.add, (2,), (2,), ((1, 0),))
    np.testing.assert_array_equal(out, [13, 15, 16])


def test_trees_and_other_computations():
    def both(a, b):
        return lax.add(a[0], b[0]), lax.max(a[1], b[1])

    sums, tops = lax.reduce_window((X, X), (0.0, -np.inf), both, (3,), None, "VALID")
    np.testing.assert_array_equal(sums, [8, 6, 10])
    np.testing.assert_array_equal(tops, [4, 4, 5])
    longest = lax.reduce_window(X, 0.0, lambda a, b: lax.select(lax.lt(a, b), b, a), (2,), (1,), "SAME")
    np.testing.assert_array_equal(longest, [3, 4, 4, 5, 5])


def test_result_shape_is_number_of_windows():
    assert lax.reduce_window_shape_tuple((10, 7), (3, 2), (2, 1), ((0, 0), (1, 1)), (2, 1), (1, 3)) == (9, 6)
    assert lax.reduce_window(X[None], 0.0, lax.add, (1, 9), (1, 1), "VALID").shape == (1, 0)


@pytest.mark.parametrize("args, error, words", [
    ((X, 0.0, lax.add, (2, 2), (1,), "SAME"), ShapeError, "one entry for each axis"),
    ((X, 0.0, lax.add, (2, 2), (1,), ((0, 0),)), ShapeError, "window_dimensions needs one entry"),
    ((X, 0.0, lax.add, (2,), (0,), ((0, 0),)), ShapeError, "positive"),
    ((X, 0.0, lax.add, (2,), (1,), 7), ValueError, "pair"),
    ((X, (0.0, 1.0), lax.add, (2,), (1,), "SAME"), ShapeError, "tree of scalars")])
def test_ill_formed_windows_are_rejected(args, error, words):
    with pytest.raises(error, match=words):
        lax.reduce_window(*args)


@pytest.mark.parametrize("padding, strides", [
    (((0, 0),), (2, 1)), (((0, 0),) * 3, (2, 1)), ("SAME", (2,)), (((0, 0),) * 2, (2,))])
def test_window_counts_need_one_entry_per_axis(padding, strides):
    with pytest.raises(ShapeError, match="reduce_window_shape_tuple: .*one\\s+entry for each axis"):
        lax.reduce_window_shape_tuple((10, 7), (3, 2), strides, padding)
