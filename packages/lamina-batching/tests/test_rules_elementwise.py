"""Batching of elementwise primitives: alignment of mapped and unmapped operands."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_tracing import lax, make_jaxpr

X = np.arange(12, dtype=np.float32).reshape(3, 4)
V = np.arange(4, dtype=np.float32)
S = np.arange(3, dtype=np.float32)


def test_operands_with_equal_batch_need_one_equation():
    program = make_jaxpr(vmap(lambda x, y: lax.mul(lax.sin(x), y)))(X, X)
    assert [e.primitive.name for e in program.jaxpr.eqns] == ["sin", "mul"]


def test_unbatched_scalar_is_not_broadcast():
    program = make_jaxpr(vmap(lambda x: lax.mul(x, 2.0)))(X)
    assert [e.primitive.name for e in program.jaxpr.eqns] == ["mul"]


def test_rank_0_examples_with_vectors():
    np.testing.assert_array_equal(vmap(lax.add)(X, S), X + S[:, None])
    np.testing.assert_array_equal(vmap(lax.add, in_axes=(None, 0))(V, S), V + S[:, None])
    np.testing.assert_array_equal(vmap(lax.sub, in_axes=(1, None))(X, np.float32(1)), (X - 1).T)


def test_unbatched_array_is_broadcast():
    np.testing.assert_array_equal(vmap(lax.mul, in_axes=(0, None))(X, V), X * V)
    np.testing.assert_array_equal(vmap(lax.mul, in_axes=(None, 1))(V, X.T), X * V)


@pytest.mark.parametrize("dims", [d for d in itertools.product((None, 0), repeat=3) if any(x is not None for x in d)])
def test_select_and_clamp_with_rank_0_bounds(dims):
    pred, t, f = (np.array([True, False, True]), X, -X)
    args = [a if d == 0 else a[0] for a, d in zip((pred, t, f), dims)]
    wanted = [np.where(*[a[i] if d == 0 else a for a, d in zip(args, dims)]) for i in range(3)]
    np.testing.assert_array_equal(vmap(lax.select, in_axes=dims)(*args), wanted)
    lo, hi = S, S + 2
    args = [a if d == 0 else a[0] for a, d in zip((lo, X, hi), dims)]
    rows = [[a[i] if d == 0 else a for a, d in zip(args, dims)] for i in range(3)]
    wanted = [np.clip(x, lo, hi) for lo, x, hi in rows]
    np.testing.assert_array_equal(vmap(lax.clamp, in_axes=dims)(*args), wanted)


def test_bitcast_keeps_its_own_last_axis():
    found = vmap(lambda x: lax.bitcast_convert_type(x, np.uint8), in_axes=1)(X)
    np.testing.assert_array_equal(found, np.ascontiguousarray(X.T).view(np.uint8).reshape(4, 3, 4))
