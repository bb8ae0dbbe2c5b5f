"""Derivatives of moving elements, in the places the samples do not reach."""
from __future__ import annotations

import numpy as np
from lamina_autodiff import grad, vjp
from lamina_tracing import lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_repeated_axis_is_summed():
    _, pull = vjp(lambda x: lax.broadcast_in_dim(x, (4, 2, 3), (1, 2)), X[:, :1])
    np.testing.assert_array_equal(np.asarray(pull(np.ones((4, 2, 3), np.float32))[0]), np.full((2, 1), 12))


def test_concatenate_gives_each_operand_its_piece():
    def f(x, y):
        return lax.concatenate([x, X, y], 0)
    _, pull = vjp(f, X, X[:1])
    dx, dy = pull(np.arange(15, dtype=np.float32).reshape(5, 3))
    np.testing.assert_array_equal(np.asarray(dx), np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(np.asarray(dy), [[12, 13, 14]])


def test_padding_value_gets_what_the_operand_does_not():
    g = grad(lambda v: lax.reduce_sum(lax.pad(X, v, [(1, 0, 1), (0, -1, 0)]), (0, 1)))(np.float32(2))
    assert np.asarray(g) == 4  # 4 rows of 2, of which 2 rows are X


def test_an_empty_slice_has_zero_derivative():
    g = grad(lambda x: lax.reduce_sum(lax.slice(x, (1, 1), (1, 3)), (0, 1)))(X)
    np.testing.assert_array_equal(np.asarray(g), np.zeros((2, 3)))


def test_slice_with_strides_fills_the_gaps_with_zeros():
    g = grad(lambda x: lax.reduce_sum(lax.slice(x, (0, 0), (2, 3), (1, 2)), (0, 1)))(X)
    np.testing.assert_array_equal(np.asarray(g), [[1, 0, 1]] * 2)
