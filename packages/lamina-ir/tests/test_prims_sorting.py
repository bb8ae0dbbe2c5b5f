"""Order and types of sort."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ShapeError, prims, shaped

F32 = np.dtype("float32")
PARAMS = dict(dimension=0, is_stable=True, num_keys=1)


def test_nan_sorts_last_and_zeros_are_equal():
    x = np.array([np.nan, 0.0, -0.0, -1.0, np.inf], np.float32)
    keys, places = prims.sort_p.numpy(x, np.arange(5), **PARAMS)
    np.testing.assert_array_equal(places, [3, 1, 2, 4, 0])
    assert np.isnan(keys[-1])


def test_complex_nan_sorts_last():
    x = np.array([complex(0, np.nan), complex(2, 1), complex(np.nan, 0), complex(2, 0)], np.complex64)
    _, places = prims.sort_p.numpy(x, np.arange(4), **PARAMS)
    np.testing.assert_array_equal(places, [3, 1, 0, 2])


def test_operands_must_have_equal_shapes():
    with pytest.raises(ShapeError, match=r"float32\[2\] and float32\[3\]"):
        prims.sort_p.infer(shaped((2,), F32), shaped((3,), F32), **PARAMS)
    with pytest.raises(ShapeError, match="num_keys"):
        prims.sort_p.infer(shaped((2,), F32), dimension=0, is_stable=True, num_keys=2)
