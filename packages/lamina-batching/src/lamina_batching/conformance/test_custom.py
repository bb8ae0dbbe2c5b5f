"""Functions with a rule of their own, and functions that are run example by example."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_batching import custom_vmap, sequential_vmap, vmap
from lamina_tracing import jit, lax

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def ruled(seen):
    @custom_vmap
    def f(x, y):
        return lax.add(x, y)

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        seen.append((axis_size, list(in_batched), np.shape(x), np.shape(y)))
        return lax.mul(x, 100.0), in_batched[0]

    return f


def test_without_a_map_it_is_the_function():
    seen = []
    np.testing.assert_array_equal(np.asarray(ruled(seen)(X, X)), X + X)
    assert seen == []


def test_a_map_asks_the_rule():
    seen = []
    got = vmap(ruled(seen), in_axes=(0, None))(X, X[0])
    np.testing.assert_array_equal(np.asarray(got), 100 * X)
    assert seen == [(2, [True, False], (2, 3), (3,))]


def test_the_rule_finds_examples_at_the_front():
    seen = []
    got = vmap(ruled(seen), in_axes=(1, None))(X, X[:, 0])
    np.testing.assert_array_equal(np.asarray(got), 100 * X.T)
    assert seen == [(3, [True, False], (3, 2), (2,))]


def test_a_staged_call_asks_it_too():
    seen = []
    for mapped in (jit(vmap(ruled(seen))), vmap(jit(ruled(seen)))):
        np.testing.assert_array_equal(np.asarray(mapped(X, X)), 100 * X)
    assert seen and all(s == (2, [True, True], (2, 3), (2, 3)) for s in seen)


def test_a_function_without_a_rule_is_refused():
    with pytest.raises(AttributeError, match="def_vmap"):
        @custom_vmap
        def f(x):
            return x
        f(X)


def test_examples_one_after_another():
    np.testing.assert_array_equal(np.asarray(vmap(sequential_vmap(lambda x: lax.mul(x, 2.0)))(X)), 2 * X)
    got = vmap(sequential_vmap(lax.sub), in_axes=(1, None))(X, X[:, 0])
    np.testing.assert_array_equal(np.asarray(got), X.T - X[:, 0])


def test_a_sequential_function_is_the_function_where_nothing_is_mapped():
    np.testing.assert_array_equal(np.asarray(sequential_vmap(lambda x: lax.mul(x, 2.0))(X)), 2 * X)
