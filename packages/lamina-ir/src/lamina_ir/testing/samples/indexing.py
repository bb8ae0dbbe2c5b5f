"""Samples of indexing primitives: starts inside and outside, batching axes, every mode."""
import numpy as np

from ... import prims as p
from ...prims.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from ..sampling import away, bools, distinct, floats, ints, sample

CLIP, FILL, PROMISE = GatherScatterMode


def _i32(values: object) -> np.ndarray:
    return np.array(values, np.int32)


sample(p.dynamic_slice_p, floats(5), _i32(2), slice_sizes=(2,))
sample(p.dynamic_slice_p, floats(4, 3), _i32(3), _i32(-1), slice_sizes=(2, 3))
sample(p.dynamic_slice_p, ints(4, 3), _i32(1), _i32(1), slice_sizes=(1, 2))
sample(p.dynamic_update_slice_p, floats(5), floats(2), _i32(1))
sample(p.dynamic_update_slice_p, floats(4, 3), floats(2, 2), _i32(9), _i32(0))
sample(p.dynamic_update_slice_p, bools(4), bools(2), _i32(1))

_common = dict(indices_are_sorted=False, unique_indices=False)
_rows = GatherDimensionNumbers((1,), (0,), (0,))
_points = GatherDimensionNumbers((), (0, 1), (0, 1))
_corners = GatherDimensionNumbers((0, 2), (), (1, 0))
_each = GatherDimensionNumbers((1,), (1,), (1,), (0,), (0,))

for _mode in (CLIP, FILL):
    sample(p.gather_p, floats(4, 3), _i32([[1], [3], [1], [7]]), dimension_numbers=_rows, slice_sizes=(1, 3),
           mode=_mode, fill_value=None if _mode is CLIP else 0.5, **_common)
    sample(p.gather_p, floats(4, 3), _i32([[0, 1], [3, -2]]), dimension_numbers=_points, slice_sizes=(1, 1),
           mode=_mode, fill_value=None if _mode is CLIP else -1.0, **_common)
    sample(p.gather_p, ints(4, 3), _i32([[[0, 1], [2, 5]]]), dimension_numbers=_points, slice_sizes=(1, 1),
           mode=_mode, fill_value=None, **_common)
sample(p.gather_p, floats(4, 5), _i32([[1, 0], [2, 2], [3, 9]]), dimension_numbers=_corners, slice_sizes=(2, 2),
       mode=CLIP, fill_value=None, **_common)
sample(p.gather_p, floats(2, 5, 3), _i32([[4], [0]]), dimension_numbers=_each, slice_sizes=(1, 1, 3), mode=PROMISE,
       fill_value=None, **_common)
sample(p.gather_p, floats(4, 3), np.array([[1], [3]], np.uint8), dimension_numbers=_rows, slice_sizes=(1, 3), mode=CLIP,
       fill_value=None, indices_are_sorted=True, unique_indices=True)

_put_rows = ScatterDimensionNumbers((1,), (0,), (0,))
_put_points = ScatterDimensionNumbers((), (0, 1), (0, 1))
_put_each = ScatterDimensionNumbers((1,), (1,), (1,), (0,), (0,))

for _op in (p.scatter_p, p.scatter_add_p, p.scatter_mul_p, p.scatter_min_p, p.scatter_max_p):
    _numbers = distinct if _op in (p.scatter_min_p, p.scatter_max_p) else away
    _again = [[0], [2]] if _op is p.scatter_p else [[2], [2]]  # which of two updates to one element wins is unspecified
    sample(_op, _numbers(4, 3), _i32([[3], [1]]), floats(2, 3), dimension_numbers=_put_rows, mode=FILL,
           indices_are_sorted=False, unique_indices=True)
    sample(_op, _numbers(4, 3), _i32(_again), _numbers(2, 3), dimension_numbers=_put_rows, mode=CLIP, **_common)
    sample(_op, _numbers(4, 3), _i32([[0, 1], [5, 0], [1, 1]]), floats(3), dimension_numbers=_put_points, mode=FILL,
           **_common)
    sample(_op, _numbers(2, 5, 3), _i32([[4], [0]]), floats(2, 3), dimension_numbers=_put_each, mode=PROMISE,
           indices_are_sorted=False, unique_indices=True)
    sample(_op, ints(4, 3), _i32([[9], [1]]), ints(2, 3), dimension_numbers=_put_rows, mode=CLIP,
           indices_are_sorted=False, unique_indices=True)

for _op in (p.scatter_min_p, p.scatter_max_p):  # complex numbers are ordered by real, then imaginary parts
    sample(_op, np.array([1 + 1j, 2, 3 - 1j], np.complex64), _i32([[0], [0], [2]]),
           np.array([1.5 + 2j, 0.5, 2.5 + 1j], np.complex64),
           dimension_numbers=ScatterDimensionNumbers((), (0,), (0,)), mode=FILL, **_common)
