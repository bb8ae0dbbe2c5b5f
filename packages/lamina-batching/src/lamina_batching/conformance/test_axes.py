"""Mapped axes of arguments and results: ints, `None`, and trees of them."""
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
def test_every_in_axis_and_out_axis(axis, out):
    check(lambda x: lax.mul(x, x), lambda x: x * x, [X], [axis], out)


@pytest.mark.parametrize("seed", range(12))
def test_two_arguments_over_different_axes(seed):
    rng = np.random.default_rng(seed)
    size, shape = 3, tuple(rng.integers(1, 4, 2))
    axes = [[0, None], [None, 1], [1, 0], [2, 1], [-1, 0], [0, -3]][seed % 6]
    args = [rng.normal(size=shape if a is None else np.insert(shape, a % 3, size)).astype(np.float32) for a in axes]
    check(lambda x, y: lax.sub(lax.mul(x, y), x), lambda x, y: x * y - x, args, axes, seed % 3)


def test_unmapped_argument_is_passed_whole_to_each_example():
    seen = []
    shared = np.float32([1, 2, 3])

    def fun(x, y):
        seen.append(np.shape(y))
        return lax.add(x, lax.reduce_sum(y, (0,)))

    got = vmap(fun, in_axes=(0, None))(np.float32([10, 20]), shared)
    np.testing.assert_array_equal(np.asarray(got), [16, 26])
    assert set(seen) == {(3,)}


@pytest.mark.parametrize("other", ["text", {"n": "text"}, object(), len], ids=["text", "tree", "object", "function"])
def test_unmapped_argument_may_be_any_object(other):
    seen = []
    got = vmap(lambda given, x: (seen.append(given), lax.neg(x))[1], (None, 0))(other, X[0])
    np.testing.assert_array_equal(np.asarray(got), -X[0])
    assert seen and all(type(s) is type(other) for s in seen)


def test_axes_can_be_tree_prefixes():
    tree = {"a": X[0], "b": (X[0].T, np.float32(2))}
    out = vmap(lambda t: {"sum": lax.add(t["a"], t["b"][0]), "two": t["b"][1]},
               in_axes=({"a": 0, "b": (1, None)},), out_axes={"sum": 1, "two": None})(tree)
    np.testing.assert_array_equal(np.asarray(out["sum"]), (2 * X[0]).T)
    np.testing.assert_array_equal(np.asarray(out["two"]), np.float32(2))


def test_one_axis_for_a_tree_argument():
    got = vmap(lambda t: lax.sub(t[0], t[1]["x"]), in_axes=1)((X[0], {"x": X[1]}))
    np.testing.assert_array_equal(np.asarray(got), (X[0] - X[1]).T)


def test_results_keep_their_tree():
    out = vmap(lambda p: Point(p.y, [p.x, None]))(Point(X[0], X[1]))
    assert type(out) is Point and type(out.y) is list and out.y[1] is None
    np.testing.assert_array_equal(np.asarray(out.x), X[1])
    np.testing.assert_array_equal(np.asarray(out.y[0]), X[0])


def test_results_may_have_different_out_axes():
    a, b = vmap(lambda x: (x, lax.neg(x)), out_axes=(0, 1))(X[0])
    np.testing.assert_array_equal(np.asarray(a), X[0])
    np.testing.assert_array_equal(np.asarray(b), -X[0].T)


def test_keyword_arguments_are_mapped_over_axis_0():
    got = vmap(lambda x, *, scale: lax.mul(x, scale), in_axes=1)(X[0], scale=np.float32([1, 10, 100, 1000]))
    np.testing.assert_array_equal(np.asarray(got), (X[0] * [1, 10, 100, 1000]).T)


def test_result_independent_of_axis_is_broadcast():
    got = vmap(lambda x: np.float32([1, 2]), out_axes=1)(X[0])
    np.testing.assert_array_equal(np.asarray(got), [[1, 1, 1], [2, 2, 2]])


def test_result_independent_of_axis_with_out_axes_none():
    shared, own = vmap(lambda x, y: (lax.neg(y), x), (0, None), (None, 0))(X[0], np.float32([1, 2]))
    np.testing.assert_array_equal(np.asarray(shared), [-1, -2])
    np.testing.assert_array_equal(np.asarray(own), X[0])


def test_axis_size_without_mapped_argument():
    np.testing.assert_array_equal(np.asarray(vmap(lambda: np.float32(3), axis_size=4)()), [3, 3, 3, 3])
    got = vmap(lambda x: x, in_axes=None, axis_size=4)(X[0])
    np.testing.assert_array_equal(np.asarray(got), np.stack([X[0]] * 4))


def test_batch_of_one_example():
    got = vmap(lambda x: lax.reduce_sum(x, (0,)))(X[:1, 0])
    np.testing.assert_array_equal(np.asarray(got), X[:1, 0].sum(1))


def test_examples_keep_their_order():
    order = np.random.default_rng(0).permutation(50).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(vmap(lambda x: lax.mul(x, 2.0))(order)), 2 * order)


def test_examples_are_independent():
    x = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    check(lambda a: lax.dot(a, a), lambda a: a @ a, [x], [0])
