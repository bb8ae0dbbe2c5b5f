"""Compiled gathers and scatters: index types, windows partly outside, empty arrays, and the operations of each mode."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
from lamina_ir import aval_of, prims
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from lamina_lowering import lower
from lamina_lowering.testing import check_lowering, single_eqn_program

CLIP, FILL, PROMISE = GatherScatterMode
FLAGS = dict(indices_are_sorted=False, unique_indices=False)
X = np.arange(20, dtype=np.float32).reshape(5, 4)
PAIR = GatherDimensionNumbers((1, 2), (), (0, 1))
PUT_PAIR = ScatterDimensionNumbers((1, 2), (), (0, 1))
LINE = GatherDimensionNumbers((), (0,), (0,))
PUT_LINE = ScatterDimensionNumbers((), (0,), (0,))


def gather_params(dims, sizes, mode, fill=None):
    return dict(dimension_numbers=dims, slice_sizes=sizes, mode=mode, fill_value=fill, **FLAGS)


@pytest.mark.parametrize("mode", [CLIP, FILL], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_index_types(mode, dtype):
    x = np.arange(200, dtype=np.float32)
    top = np.iinfo(dtype).max
    indices = np.array([[0], [100], [top], [np.iinfo(dtype).min]], dtype)
    check_lowering(prims.gather_p, (x, indices), gather_params(LINE, (1,), mode, None if mode is CLIP else -1.0))
    updates = np.array([5, 6, 7, 8], np.float32)
    check_lowering(prims.scatter_add_p, (x, indices, updates), dict(dimension_numbers=PUT_LINE, mode=mode, **FLAGS))


@pytest.mark.parametrize("mode", [CLIP, FILL], ids=str)
def test_windows_when_partly_outside(mode):
    starts = np.array(list(itertools.product((-2, -1, 0, 3, 4, 6), (-1, 0, 2, 3))), np.int32)
    check_lowering(prims.gather_p, (X, starts), gather_params(PAIR, (2, 2), mode, None if mode is CLIP else 0.5))
    updates = np.random.default_rng(0).normal(size=(len(starts), 2, 2)).astype(np.float32)
    for op in (prims.scatter_add_p, prims.scatter_max_p):
        check_lowering(op, (X, starts, updates), dict(dimension_numbers=PUT_PAIR, mode=mode, **FLAGS))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "bool", "uint8"])
@pytest.mark.parametrize("op", [prims.scatter_p, prims.scatter_add_p, prims.scatter_min_p], ids=str)
def test_gather_and_scatter_of_element_types(op, dtype):
    from lamina_ir.dtypes import as_dtype
    x, updates = np.arange(4).astype(as_dtype(dtype)), np.array([1, 0]).astype(as_dtype(dtype))
    where = np.array([[2], [9]], np.int32)
    check_lowering(op, (x, where, updates), dict(dimension_numbers=PUT_LINE, mode=FILL, **FLAGS))
    check_lowering(prims.gather_p, (x, where), gather_params(LINE, (1,), FILL))


def test_dynamic_slices_when_starts_differ_in_type():
    starts = (np.uint8(3), np.int32(-1))
    check_lowering(prims.dynamic_slice_p, (X, *starts), dict(slice_sizes=(2, 2)))
    check_lowering(prims.dynamic_update_slice_p, (X, X[:1, :1] - 5, *starts), {})
    check_lowering(prims.dynamic_slice_p, (np.float32(3),), dict(slice_sizes=()))
    far = np.uint64(2**64 - 1), np.int64(3)
    check_lowering(prims.dynamic_slice_p, (X, *far), dict(slice_sizes=(2, 2)))


def test_empty_arrays():
    none = np.zeros((0,), np.float32)
    check_lowering(prims.gather_p, (none, np.array([[0], [1]], np.int32)),
                   gather_params(GatherDimensionNumbers((1,), (), (0,)), (0,), FILL, 3.0))
    check_lowering(prims.gather_p, (X, np.zeros((0, 2), np.int32)), gather_params(PAIR, (1, 1), CLIP))
    check_lowering(prims.scatter_p, (X, np.zeros((0, 2), np.int32), np.zeros((0, 1, 1), np.float32)),
                   dict(dimension_numbers=PUT_PAIR, mode=FILL, **FLAGS))


def test_one_window_without_index():
    everything = GatherDimensionNumbers((0, 1), (), ())
    check_lowering(prims.gather_p, (X, np.zeros((0,), np.int32)), gather_params(everything, (5, 4), FILL, 0.0))


def test_mask_is_emitted_for_fill_mode_only():
    avals = [aval_of(X), aval_of(np.zeros((3, 2), np.int32))]
    programs = {m: single_eqn_program(prims.gather_p, avals, gather_params(PAIR, (1, 1), m)) for m in (CLIP, FILL)}
    texts = {m: str(lower(closed).module) for m, closed in programs.items()}
    assert "select" not in texts[CLIP] and "clamp" not in texts[CLIP]
    assert "select" in texts[FILL]
