"""Types and evaluation of reductions and cumulative primitives."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, prims, shaped

F32, I32, BOOL = np.dtype("float32"), np.dtype("int32"), np.dtype("bool")


def test_reduced_axes_are_removed():
    assert prims.reduce_sum_p.infer(shaped((2, 3, 4), F32), axes=(0, 2)) == shaped((3,), F32)
    assert prims.argmax_p.infer(shaped((2, 3), F32), axes=(1,), index_dtype=I32) == shaped((2,), I32)


@pytest.mark.parametrize(("prim", "aval", "params", "error", "words"), [
    (prims.reduce_sum_p, shaped((2,), BOOL), dict(axes=(0,)), DTypeError, r"bool\[2\]"),
    (prims.reduce_and_p, shaped((2,), F32), dict(axes=(0,)), DTypeError, "boolean or integer"),
    (prims.reduce_max_p, shaped((2,), F32), dict(axes=(1,)), ShapeError, "out of range"),
    (prims.reduce_sum_p, shaped((2,), F32), dict(axes=(0, 0)), ShapeError, "twice"),
    (prims.argmin_p, shaped((0, 3), F32), dict(axes=(0,), index_dtype=I32), ShapeError, "must not be empty"),
    (prims.cumsum_p, shaped((3,), F32), dict(axis=2, reverse=False), ShapeError, "axis 2"),
])
def test_ill_formed_reductions_are_rejected(prim, aval, params, error, words):
    with pytest.raises(error, match=words):
        prim.infer(aval, **params)


def test_empty_reduction_is_the_identity():
    x = np.zeros((0, 2), np.float32)
    np.testing.assert_array_equal(prims.reduce_max_p.numpy(x, axes=(0,)), [-np.inf, -np.inf])
    np.testing.assert_array_equal(prims.reduce_prod_p.numpy(x, axes=(0,)), [1, 1])


def test_bfloat16_sums_accumulate_in_float32():
    x = np.full(1000, 1.0, ml_dtypes.bfloat16)
    assert prims.reduce_sum_p.numpy(x, axes=(0,)) == 1000


def test_nan_and_ties_in_argmax():
    x = np.array([[1, np.nan, np.nan], [2, 2, 1]], np.float32)
    np.testing.assert_array_equal(prims.argmax_p.numpy(x, axes=(1,), index_dtype=I32), [1, 0])
