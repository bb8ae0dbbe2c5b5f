"""Types and evaluation of the primitives that move elements."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, aval_of, prims, shaped

F32 = np.dtype("float32")


def f32(*shape, weak=False):
    return shaped(shape, F32, weak)


def test_shapes_of_results():
    assert prims.broadcast_in_dim_p.infer(f32(3, 1), shape=(2, 3, 4), broadcast_dimensions=(1, 2)) == f32(2, 3, 4)
    assert prims.slice_p.infer(f32(7), start_indices=(1,), limit_indices=(7,), strides=(4,)) == f32(2)
    assert prims.pad_p.infer(f32(4), f32(), padding_config=((-1, 2, 1),)) == f32(8)
    assert prims.expand_dims_p.infer(f32(3), dimensions=(0, 2)) == f32(1, 3, 1)
    assert prims.iota_p.infer(dtype=F32, shape=(2, 3), dimension=1) == f32(2, 3)


def test_weak_types_propagate_and_yield_to_strong_types():
    assert prims.reshape_p.infer(f32(2, weak=True), new_sizes=(1, 2), dimensions=None).weak_type
    assert not prims.concatenate_p.infer(f32(2, weak=True), f32(1), dimension=0).weak_type


@pytest.mark.parametrize(("prim", "avals", "params", "words"), [
    (prims.reshape_p, [f32(2, 3)], dict(new_sizes=(5,), dimensions=None), r"float32\[2,3\] \(6 elements\)"),
    (prims.broadcast_in_dim_p, [f32(2)], dict(shape=(3,), broadcast_dimensions=(0,)), r"float32\[2\]"),
    (prims.transpose_p, [f32(2, 3)], dict(permutation=(0, 0)), "permutation"),
    (prims.squeeze_p, [f32(2, 1)], dict(dimensions=(0,)), "axis 0 of float32"),
    (prims.concatenate_p, [f32(2, 3), f32(2, 4)], dict(dimension=0), r"float32\[2,3\] and float32\[2,4\]"),
    (prims.slice_p, [f32(3)], dict(start_indices=(2,), limit_indices=(5,), strides=None), "slice"),
    (prims.pad_p, [f32(3), f32()], dict(padding_config=((-9, 0, 0),)), "negative"),
    (prims.rev_p, [f32(3)], dict(dimensions=(1,)), "out of range"),
])
def test_shape_errors_name_the_types(prim, avals, params, words):
    with pytest.raises(ShapeError, match=words):
        prim.infer(*avals, **params)


def test_concatenate_rejects_mixed_dtypes():
    with pytest.raises(DTypeError, match=r"float32\[2\] and int32\[2\]"):
        prims.concatenate_p.infer(f32(2), shaped((2,), np.dtype("int32")), dimension=0)


def test_pad_with_negative_edges():
    x = np.array([1, 2, 3], np.float32)
    out = prims.pad_p.numpy(x, np.float32(9), padding_config=((-1, 1, 1),))
    np.testing.assert_array_equal(out, [9, 2, 9, 3, 9])
    assert prims.pad_p.infer(aval_of(x), f32(), padding_config=((-1, 1, 1),)).shape == out.shape
