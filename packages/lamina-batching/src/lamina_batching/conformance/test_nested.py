"""Nested maps: each has a separate axis, and the innermost one is mapped first."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_tracing import lax

pytestmark = pytest.mark.order

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
A, B = np.float32([1, 2, 3]), np.float32([10, 20])


def test_outer_product():
    got = vmap(vmap(lax.sub, in_axes=(None, 0)), in_axes=(0, None))(A, B)
    np.testing.assert_array_equal(np.asarray(got), A[:, None] - B)
    other = vmap(vmap(lax.sub, in_axes=(0, None)), in_axes=(None, 0))(A, B)
    np.testing.assert_array_equal(np.asarray(other), (A[:, None] - B).T)


def test_inner_map_reads_example_of_outer_map():
    outer = vmap(lambda x: vmap(lambda y: lax.sub(x, y))(B))(A)
    np.testing.assert_array_equal(np.asarray(outer), A[:, None] - B)


@pytest.mark.parametrize(("outer", "inner"), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (-1, -1), (0, -1)])
def test_two_axes_of_one_array(outer, inner):
    got = vmap(vmap(lambda v: lax.reduce_sum(v, (0,)), inner), outer)(X)
    rows = np.moveaxis(X, outer, 0)
    want = np.stack([np.stack([v.sum() for v in np.moveaxis(r, inner, 0)]) for r in rows])
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize(("outer", "inner"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_two_out_axes_in_one_result(outer, inner):
    got = vmap(vmap(lambda v: lax.mul(v, 2.0), 0, inner), 1, outer)(X)
    want = np.stack([np.stack([2 * v for v in X[:, i]], inner) for i in range(3)], outer)
    np.testing.assert_array_equal(np.asarray(got), want)


def test_three_nested_maps():
    f = vmap(vmap(vmap(lambda x, y, z: lax.add(lax.mul(x, y), z), (None, None, 0)), (None, 0, None)), (0, None, None))
    c = np.float32([5, 6, 7, 8])
    np.testing.assert_array_equal(np.asarray(f(A, B, c)), A[:, None, None] * B[:, None] + c)


def test_batch_of_matrix_products():
    got = vmap(lambda m: vmap(lambda row: lax.dot(row, np.ones(4, np.float32)))(m))(X)
    np.testing.assert_array_equal(np.asarray(got), X.sum(-1))


def test_value_mapped_only_outside_is_shared_inside():
    got = vmap(lambda x: vmap(lambda y: lax.add(y, lax.exp(x)), out_axes=0)(B))(np.float32([0, 0, 0]))
    np.testing.assert_array_equal(np.asarray(got), np.stack([B + 1] * 3))


def test_inner_map_returns_value_of_outer_map_unchanged():
    got = vmap(lambda x: vmap(lambda y: x, out_axes=None)(B))(A)
    np.testing.assert_array_equal(np.asarray(got), A)
    repeated = vmap(lambda x: vmap(lambda y: x)(B))(A)
    np.testing.assert_array_equal(np.asarray(repeated), np.repeat(A[:, None], 2, 1))


def test_nested_calls_of_one_mapped_function_are_independent():
    f = vmap(lambda x, y: lax.sub(x, y))
    got = vmap(lambda x: f(x, f(x, x)))(X[0])
    np.testing.assert_array_equal(np.asarray(got), X[0])
