"""Which axes of arguments hold the examples, and where results are stacked: ints, `None`, and trees of them."""
from __future__ import annotations

import collections

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_tracing import lax

from lamina_batching.conformance.reference_loop import check

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize("out", range(-3, 3))
@pytest.mark.parametrize("axis", range(-3, 3))
def test_any_axis_goes_to_any_place(axis, out):
    check(lambda x: lax.mul(x, x), lambda x: x * x, [X], [axis], out)


@pytest.mark.parametrize("seed", range(12))
def test_two_arguments_over_axes_of_their_own(seed):
    rng = np.random.default_rng(seed)
    size, shape = 3, tuple(rng.integers(1, 4, 2))
    axes = [[0, None], [None, 1], [1, 0], [2, 1], [-1, 0], [0, -3]][seed % 6]
    args = [rng.normal(size=shape if a is None else np.insert(shape, a % 3, size)).astype(np.float32) for a in axes]
    check(lambda x, y: lax.sub(lax.mul(x, y), x), lambda x, y: x * y - x, args, axes, seed % 3)


def test_an_argument_that_is_not_mapped_comes_whole_to_every_example():
    seen = []
    shared = np.float32([1, 2, 3])

    def fun(x, y):
        seen.append(np.shape(y))
        return lax.add(x, lax.reduce_sum(y, (0,)))

    got = vmap(fun, in_axes=(0, None))(np.float32([10, 20]), shared)
    np.testing.assert_array_equal(np.asarray(got), [16, 26])
    assert set(seen) == {(3,)}


@pytest.mark.parametrize("other", ["text", {"n": "text"}, object(), len], ids=["text", "tree", "object", "function"])
def test_what_is_not_mapped_may_be_anything(other):
    seen = []
    got = vmap(lambda given, x: (seen.append(given), lax.neg(x))[1], (None, 0))(other, X[0])
    np.testing.assert_array_equal(np.asarray(got), -X[0])
    assert seen and all(type(s) is type(other) for s in seen)


def test_axes_are_prefixes_of_trees():
    tree = {"a": X[0], "b": (X[0].T, np.float32(2))}
    out = vmap(lambda t: {"sum": lax.add(t["a"], t["b"][0]), "two": t["b"][1]},
               in_axes=({"a": 0, "b": (1, None)},), out_axes={"sum": 1, "two": None})(tree)
    np.testing.assert_array_equal(np.asarray(out["sum"]), (2 * X[0]).T)
    np.testing.assert_array_equal(np.asarray(out["two"]), np.float32(2))


def test_one_entry_for_a_whole_argument():
    got = vmap(lambda t: lax.sub(t[0], t[1]["x"]), in_axes=1)((X[0], {"x": X[1]}))
    np.testing.assert_array_equal(np.asarray(got), (X[0] - X[1]).T)


def test_results_keep_their_tree():
    out = vmap(lambda p: Point(p.y, [p.x, None]))(Point(X[0], X[1]))
    assert type(out) is Point and type(out.y) is list and out.y[1] is None
    np.testing.assert_array_equal(np.asarray(out.x), X[1])
    np.testing.assert_array_equal(np.asarray(out.y[0]), X[0])


def test_several_results_go_to_places_of_their_own():
    a, b = vmap(lambda x: (x, lax.neg(x)), out_axes=(0, 1))(X[0])
    np.testing.assert_array_equal(np.asarray(a), X[0])
    np.testing.assert_array_equal(np.asarray(b), -X[0].T)


def test_keyword_arguments_are_mapped_over_their_first_axis():
    got = vmap(lambda x, *, scale: lax.mul(x, scale), in_axes=1)(X[0], scale=np.float32([1, 10, 100, 1000]))
    np.testing.assert_array_equal(np.asarray(got), (X[0] * [1, 10, 100, 1000]).T)


def test_a_result_that_no_example_decides_is_repeated():
    got = vmap(lambda x: np.float32([1, 2]), out_axes=1)(X[0])
    np.testing.assert_array_equal(np.asarray(got), [[1, 1, 1], [2, 2, 2]])


def test_a_result_that_no_example_decides_stays_one_value_where_out_axes_is_none():
    shared, own = vmap(lambda x, y: (lax.neg(y), x), (0, None), (None, 0))(X[0], np.float32([1, 2]))
    np.testing.assert_array_equal(np.asarray(shared), [-1, -2])
    np.testing.assert_array_equal(np.asarray(own), X[0])


def test_the_size_can_be_given_alone():
    np.testing.assert_array_equal(np.asarray(vmap(lambda: np.float32(3), axis_size=4)()), [3, 3, 3, 3])
    got = vmap(lambda x: x, in_axes=None, axis_size=4)(X[0])
    np.testing.assert_array_equal(np.asarray(got), np.stack([X[0]] * 4))


def test_one_example_is_a_batch():
    got = vmap(lambda x: lax.reduce_sum(x, (0,)))(X[:1, 0])
    np.testing.assert_array_equal(np.asarray(got), X[:1, 0].sum(1))


def test_examples_keep_their_order():
    order = np.random.default_rng(0).permutation(50).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(vmap(lambda x: lax.mul(x, 2.0))(order)), 2 * order)


def test_no_example_is_made_twice_of_another():
    x = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    check(lambda a: lax.dot(a, a), lambda a: a @ a, [x], [0])
