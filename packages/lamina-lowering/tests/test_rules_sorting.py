"""Compiled sorts follow NumPy's order."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import prims
from lamina_lowering.testing import check_lowering

RNG = np.random.default_rng(0)


def sort(*xs, dimension=0, num_keys=1):
    check_lowering(prims.sort_p, xs, dict(dimension=dimension, is_stable=True, num_keys=num_keys))


@pytest.mark.parametrize("width", [20, 50])  # short sorts use another comparator
@pytest.mark.parametrize("dimension", [0, 1])
def test_single_float_operand_sorts_as_numpy(dimension, width):
    x = RNG.normal(size=(6, width)).astype(np.float32)
    x[2, [3, 7, 9]], x[2, [1, 2]], x[3], x[5, :9], x[5, 3:6] = np.nan, np.inf, np.nan, -0.0, 0.0
    sort(x, dimension=dimension)


def test_float_keys_with_other_operands_sort_as_numpy():
    x = np.array([np.nan, 1, -0.0, np.inf, 0.0, -np.inf, np.nan, 1], np.float32)
    sort(x, np.arange(8, dtype=np.int32))
    sort(x, x[::-1].copy(), np.arange(8, dtype=np.int32), num_keys=2)


def test_other_dtypes_sort_as_numpy():
    z = np.array([1 + 2j, complex(np.nan, 1), 1 + 1j, complex(1, np.nan), complex(np.nan, np.nan), -1j], np.complex64)
    sort(z)
    sort(RNG.normal(size=40).astype(ml_dtypes.bfloat16))
    sort(RNG.integers(0, 200, 40).astype(np.uint8))
    sort(RNG.integers(0, 2, 9) == 1)


@pytest.mark.parametrize("shape", [(9, 5000), (3, 20_000), (70_001,), (2, 270_000)])  # rows per iteration: several, one, less
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_top_k_of_long_axes_matches_numpy_order(shape, dtype):
    if np.prod(shape) * np.dtype(dtype).itemsize < 1 << 17:
        shape = (shape[0] * 4, *shape[1:])
    x = RNG.integers(-3, 3, shape).astype(np.float32)
    flat = x.reshape(-1)
    flat[RNG.integers(0, flat.size, 9)], flat[flat == 1] = np.nan, -0.0
    flat[flat.size // 3::5000] = -np.float32(np.nan)
    for k in (1, 40):
        check_lowering(prims.top_k_p, (x.astype(dtype),), dict(axis=len(shape) - 1, k=k))
