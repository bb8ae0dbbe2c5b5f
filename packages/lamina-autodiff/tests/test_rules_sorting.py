"""Tangents are permuted like the elements."""
from __future__ import annotations

import numpy as np
from lamina_autodiff import grad, jvp
from lamina_tracing import lax


def test_tangents_follow_integer_keys():
    keys, x = np.array([[3, 1, 2]], np.int32), np.array([[5, 6, 7]], np.float32)
    weights = np.array([[1, 10, 100]], np.float32)
    g = grad(lambda x: lax.reduce_sum(lax.mul(lax.sort_key_val(keys, x)[1], weights), (0, 1)))(x)
    np.testing.assert_array_equal(np.asarray(g), [[100, 1, 10]])


def test_tangents_of_ties_keep_their_order():
    _, t = jvp(lax.sort, (np.array([2, 1, 2, 1], np.float32),), (np.array([1, 2, 3, 4], np.float32),))
    np.testing.assert_array_equal(np.asarray(t), [2, 4, 1, 3])


def test_top_k_tangents():
    g = grad(lambda x: lax.reduce_sum(lax.top_k(x, 2)[0], (0,)))(np.array([1, 5, 5, 5], np.float32))
    np.testing.assert_array_equal(np.asarray(g), [0, 1, 1, 0])
