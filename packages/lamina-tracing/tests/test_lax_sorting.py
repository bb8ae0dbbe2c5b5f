"""Sorting functions."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ShapeError
from lamina_tracing import lax


def assert_equal(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-5, atol=1e-5)


def test_sort_accepts_array_or_tuple():
    x = np.array([[3, 1, 2]], np.int32)
    assert_equal(lax.sort(x), [[1, 2, 3]])
    k, v = lax.sort((x, -x), num_keys=2)
    assert_equal(v, -k)


def test_top_k_prefers_low_indices_among_ties():
    values, places = lax.top_k(np.array([1, 5, 5, 2], np.float32), 3)
    assert values.tolist() == [5, 5, 2] and places.tolist() == [1, 2, 3]
    with pytest.raises(ShapeError, match="k=9"):
        lax.top_k(np.zeros(3, np.float32), 9)
