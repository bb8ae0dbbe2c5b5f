"""Derivatives of primitives that move elements, in cases without samples."""
from __future__ import annotations

import numpy as np
from lamina_autodiff import grad, vjp
from lamina_tracing import lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_cotangent_of_broadcast_axis_is_summed():
    _, pull = vjp(lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (1, 2)), X[:, :1])
    np.testing.assert_array_equal(np.asarray(pull(np.ones((4, 2, 3), np.float32))[0]), np.full((2, 1), 12))


def test_cotangent_of_concatenate_is_split():
    def f(x, y):
        return lax.concatenate([x, X, y], 0)
    _, pull = vjp(f, X, X[:1])
    dx, dy = pull(np.arange(15, dtype=np.float32).reshape(5, 3))
    np.testing.assert_array_equal(np.asarray(dx), np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(np.asarray(dy), [[12, 13, 14]])


def test_padding_value_gets_cotangent_of_padding():
    g = grad(lambda v: lax.reduce_sum(lax.pad(X, v, [(1, 0, 1), (0, -1, 0)]), (0, 1)))(np.float32(2))
    assert np.asarray(g) == 4  # 4 rows of 2, of which 2 rows are X


def test_empty_slice_has_zero_derivative():
    g = grad(lambda x: lax.reduce_sum(lax.slice(x, (1, 1), (1, 3)), (0, 1)))(X)
    np.testing.assert_array_equal(np.asarray(g), np.zeros((2, 3)))


def test_transpose_of_strided_slice_fills_gaps_with_zeros():
    g = grad(lambda x: lax.reduce_sum(lax.slice(x, (0, 0), (2, 3), (1, 2)), (0, 1)))(X)
    np.testing.assert_array_equal(np.asarray(g), [[1, 0, 1]] * 2)
