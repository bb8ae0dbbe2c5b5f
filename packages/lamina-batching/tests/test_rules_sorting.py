"""Batching of sorting."""
from __future__ import annotations

import numpy as np
from lamina_batching import vmap
from lamina_tracing import lax


def test_keys_batched_and_values_not():
    keys = np.array([[3, 1, 2], [1, 3, 2]], np.int32)
    k, v = vmap(lambda k: lax.sort_key_val(k, np.array([10, 20, 30], np.int32)))(keys)
    np.testing.assert_array_equal(np.asarray(k), [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(np.asarray(v), [[20, 30, 10], [10, 30, 20]])


def test_sort_with_batch_axis_last():
    x = np.array([[3, 1], [2, 5]], np.float32)
    np.testing.assert_array_equal(np.asarray(vmap(lax.sort, in_axes=1)(x)), [[2, 3], [1, 5]])
