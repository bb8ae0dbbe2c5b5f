"""Indexing primitives: types, errors, each mode, and dimension numbers that print and parse."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import DTypeError, ShapeError, aval_of, prims, shaped
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers, gather_fill
from lamina_ir.testing.samples import samples_of

CLIP, FILL, PROMISE = GatherScatterMode
OPS = (prims.dynamic_slice_p, prims.dynamic_update_slice_p, prims.gather_p, prims.scatter_p, prims.scatter_add_p,
       prims.scatter_mul_p, prims.scatter_min_p, prims.scatter_max_p)
ROWS = GatherDimensionNumbers((1,), (0,), (0,))
PUT_ROWS = ScatterDimensionNumbers((1,), (0,), (0,))
F32 = np.dtype("float32")
F43, I21, F23 = shaped((4, 3), F32), shaped((2, 1), np.dtype("int32")), shaped((2, 3), F32)
PUT = dict(dimension_numbers=PUT_ROWS, mode=FILL, indices_are_sorted=False, unique_indices=False)


def gathered(x, indices, dims=ROWS, sizes=(1, 3), mode=CLIP, fill=None):
    return prims.gather_p.numpy(x, np.asarray(indices), dimension_numbers=dims, slice_sizes=sizes, mode=mode,
                                fill_value=fill, indices_are_sorted=False, unique_indices=False)


@pytest.mark.parametrize("row", [s for p in OPS for s in samples_of(p)], ids=lambda s: s.id)
def test_result_has_inferred_type(row):
    out = row.prim.infer(*map(aval_of, row.args), **row.params)
    got = row.prim.numpy(*row.args, **row.params)
    assert (got.shape, got.dtype) == (out.shape, out.dtype)


def test_gather_outside_bounds():
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    assert gathered(x, [[-1], [9]])[:, 0].tolist() == [0, 9]
    assert gathered(x, [[-1], [9]], mode=FILL, fill=5)[:, 0].tolist() == [5, 5]
    assert np.isnan(gathered(x, [[-1], [2]], mode=FILL)).tolist() == [[True] * 3, [False] * 3]


def test_gather_window_partly_outside_bounds():
    dims, x = GatherDimensionNumbers((0,), (), (0,)), np.arange(5.0)
    assert gathered(x, [4], dims, (2,)).tolist() == [3, 4]
    assert gathered(x, [4], dims, (2,), FILL, -1).tolist() == [-1, -1]


def test_gather_batching_axes():
    x = np.arange(6).reshape(2, 3)
    dims = GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    assert gathered(x, [[2], [0]], dims, (1, 1)).tolist() == [2, 3]


def test_scatter_with_duplicate_indices():
    x, indices, updates = np.full(3, 2.0), np.array([[1], [1], [7]]), np.array([3.0, 5.0, 100.0])
    params = {**PUT, "dimension_numbers": ScatterDimensionNumbers((), (0,), (0,))}
    found = {p.name: p.numpy(x, indices, updates, **params)[1] for p in OPS[3:]}
    assert found == {"scatter": 5, "scatter_add": 10, "scatter_mul": 30, "scatter_min": 2, "scatter_max": 5}
    assert prims.scatter_add_p.numpy(x, indices, updates, **{**params, "mode": CLIP})[2] == 102


def test_dynamic_slice_clamps():
    x = np.arange(5)
    assert prims.dynamic_slice_p.numpy(x, 4, slice_sizes=(3,)).tolist() == [2, 3, 4]
    assert prims.dynamic_update_slice_p.numpy(x, np.array([9, 9]), -3).tolist() == [9, 9, 2, 3, 4]


@pytest.mark.parametrize(("dtype", "fill"), [("float32", np.nan), ("int8", -128), ("uint16", 65535), ("bool", True)])
def test_gather_fill(dtype, fill):
    np.testing.assert_equal(gather_fill(np.dtype(dtype)), np.asarray(fill, dtype)[()])


def test_modes_can_be_strings():
    assert [GatherScatterMode.from_any(m) for m in (None, "fill", "drop", "clip", "promise_in_bounds", CLIP)] == \
        [FILL, FILL, FILL, CLIP, PROMISE, CLIP]
    assert repr(CLIP) == "GatherScatterMode.CLIP"
    with pytest.raises(ValueError, match="'wrap'"):
        GatherScatterMode.from_any("wrap")


@pytest.mark.parametrize(("dims", "sizes", "words"), [
    (GatherDimensionNumbers((1,), (0,), (0, 1)), (1, 3), "index vectors have length 1"),
    (GatherDimensionNumbers((1,), (0,), (2,)), (1, 3), "at most once"),
    (GatherDimensionNumbers((1,), (), (0,)), (1, 3), "2 window axes remain, 1 are named"),
    (GatherDimensionNumbers((2,), (0,), (0,)), (1, 3), "ascending and in range"),
    (GatherDimensionNumbers((1,), (0,), (0,)), (2, 3), "slice size 1"),
    (GatherDimensionNumbers((1,), (0,), (0,)), (0, 3), "slice size 1"),
    (GatherDimensionNumbers((1,), (0,), (0,)), (1, 4), "slice_sizes"),
    (GatherDimensionNumbers((1,), (), (0,), (1,), ()), (1, 1), "pairs of equal length"),
], ids=str)
def test_gather_errors(dims, sizes, words):
    with pytest.raises(ShapeError, match=words):
        prims.gather_p.infer(F43, I21, dimension_numbers=dims, slice_sizes=sizes, mode=CLIP, fill_value=None,
                             indices_are_sorted=False, unique_indices=False)


def test_scatter_errors():
    with pytest.raises(ShapeError, match=r"float32\[3,3\]"):
        prims.scatter_p.infer(F43, I21, shaped((3, 3), np.dtype("float32")), **PUT)
    with pytest.raises(ShapeError, match="must fit inside"):
        prims.scatter_p.infer(F43, I21, shaped((2, 4), np.dtype("float32")), **PUT)
    with pytest.raises(DTypeError, match="Convert the updates"):
        prims.scatter_add_p.infer(F43, I21, shaped((2, 3), np.dtype("int32")), **PUT)
    with pytest.raises(DTypeError, match="indices must be integers"):
        prims.scatter_p.infer(F43, shaped((2, 1), np.dtype("float32")), F23, **PUT)


def test_dynamic_slice_errors():
    i = shaped((), np.dtype("int32"))
    with pytest.raises(ShapeError, match="one start index for each axis"):
        prims.dynamic_slice_p.infer(F43, i, slice_sizes=(1, 1))
    with pytest.raises(ShapeError, match="slice_sizes"):
        prims.dynamic_slice_p.infer(F43, i, i, slice_sizes=(5, 1))
    with pytest.raises(DTypeError, match="integer scalars"):
        prims.dynamic_slice_p.infer(F43, i, F43, slice_sizes=(1, 1))
    with pytest.raises(ShapeError, match="fit inside"):
        prims.dynamic_update_slice_p.infer(F23, F43, i, i)
    with pytest.raises(DTypeError, match="one dtype"):
        prims.dynamic_update_slice_p.infer(F43, shaped((1, 1), np.dtype("int32")), i, i)


def test_maximal_unsigned_index_is_out_of_bounds():
    x, far = np.arange(3, dtype=np.float32), np.array([2**64 - 1], np.uint64)
    numbers = GatherDimensionNumbers((), (0,), (0,))
    clipped, filled = (prims.gather_p.numpy(x, far, dimension_numbers=numbers, slice_sizes=(1,), mode=mode,
                                            fill_value=None, indices_are_sorted=False, unique_indices=False)
                       for mode in (CLIP, FILL))
    assert clipped == 2 and np.isnan(filled)
    put = ScatterDimensionNumbers((), (0,), (0,))
    added, dropped = (prims.scatter_add_p.numpy(x, far, np.float32(5), dimension_numbers=put, mode=mode,
                                                indices_are_sorted=False, unique_indices=False) for mode in (CLIP, FILL))
    np.testing.assert_array_equal(added, [0, 1, 7])
    np.testing.assert_array_equal(dropped, x)
