"""Functions with custom batching rules, and functions that run example by example."""
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


def test_custom_vmap_without_map_is_the_function():
    seen = []
    np.testing.assert_array_equal(np.asarray(ruled(seen)(X, X)), X + X)
    assert seen == []


def test_map_calls_the_rule():
    seen = []
    got = vmap(ruled(seen), in_axes=(0, None))(X, X[0])
    np.testing.assert_array_equal(np.asarray(got), 100 * X)
    assert seen == [(2, [True, False], (2, 3), (3,))]


def test_rule_receives_batch_at_axis_0():
    seen = []
    got = vmap(ruled(seen), in_axes=(1, None))(X, X[:, 0])
    np.testing.assert_array_equal(np.asarray(got), 100 * X.T)
    assert seen == [(3, [True, False], (3, 2), (2,))]


def test_staged_map_calls_the_rule():
    seen = []
    for mapped in (jit(vmap(ruled(seen))), vmap(jit(ruled(seen)))):
        np.testing.assert_array_equal(np.asarray(mapped(X, X)), 100 * X)
    assert seen and all(s == (2, [True, True], (2, 3), (2, 3)) for s in seen)


def test_function_without_rule_is_rejected():
    with pytest.raises(AttributeError, match="def_vmap"):
        @custom_vmap
        def f(x):
            return x
        f(X)


def test_sequential_vmap_runs_examples_in_order():
    np.testing.assert_array_equal(np.asarray(vmap(sequential_vmap(lambda x: lax.mul(x, 2.0)))(X)), 2 * X)
    got = vmap(sequential_vmap(lax.sub), in_axes=(1, None))(X, X[:, 0])
    np.testing.assert_array_equal(np.asarray(got), X.T - X[:, 0])


def test_sequential_vmap_without_map_is_the_function():
    np.testing.assert_array_equal(np.asarray(sequential_vmap(lambda x: lax.mul(x, 2.0))(X)), 2 * X)
