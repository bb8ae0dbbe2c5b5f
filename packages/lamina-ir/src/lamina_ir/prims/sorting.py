"""`sort`: sort operands along one axis, by the first one or several as keys; `top_k`: the largest values and their
indices.

The order is NumPy's: -0 equals 0 and NaN comes last. Complex numbers are ordered by real, then imaginary part, those
with a NaN last.
"""
from __future__ import annotations


import numpy as np

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._core.primitive import Primitive
from ..typing import Value

__all__ = ["sort_p", "top_k_p"]

_I32 = np.dtype("int32")


def _sort_infer(*xs: ShapedArray, dimension: int, is_stable: bool, num_keys: int) -> tuple[ShapedArray, ...]:
    if not xs:
        # StableHLO sort C1
        raise ShapeError("sort: expected at least one operand; got none")
    shape = xs[0].shape
    for x in xs:
        if x.shape != shape:
            # StableHLO sort C2
            raise ShapeError(f"sort: operands must have one shape; got {xs[0].str_long()} and {x.str_long()}")
        if dtypes.is_key(x.dtype):
            raise DTypeError(f"sort: PRNG keys have no order; got {x.str_long()}. Sort numbers, and index the keys with their "
                             "argsort")
    if not 0 <= dimension < len(shape):
        # StableHLO sort C4
        raise ShapeError(f"sort: dimension {dimension} is out of range for operand {xs[0].str_long()}")
    if not 1 <= num_keys <= len(xs):
        raise ShapeError(f"sort: num_keys must be between 1 and the number of operands {len(xs)}; got {num_keys}")
    return xs


def _sort(*xs: Value, dimension: int, is_stable: bool, num_keys: int) -> tuple[Value, ...]:
    keys = [x.astype(np.float32) if dtypes.is_float(x.dtype) and x.dtype.itemsize < 4 else x for x in xs[:num_keys]]
    order = np.lexsort(keys[::-1], axis=dimension)
    return tuple([np.take_along_axis(x, order, dimension) for x in xs])


sort_p = Primitive("sort", params=("dimension", "is_stable", "num_keys"), family="sorting", infer=_sort_infer,
                   numpy=_sort, multiple=True, spec="sort")


def _top_k_infer(x: ShapedArray, *, axis: int, k: int) -> tuple[ShapedArray, ShapedArray]:
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"top_k: axis {axis} is out of range for operand {x.str_long()}")
    if not 0 <= k <= x.shape[axis]:
        # CHLO top_k C3
        raise ShapeError(f"top_k: k must be between 0 and the length of axis {axis}; got k={k} for {x.str_long()}")
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"top_k: expected an operand that can be ordered; got {x.str_long()}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1:])
    return shaped(shape, x.dtype, x.weak_type), shaped(shape, _I32)


def _top_k(x: Value, *, axis: int, k: int) -> tuple[Value, Value]:
    """Reverse a stable ascending sort of the reversed array, so that among equals the first comes first."""
    keys = np.flip(x.astype(np.float32) if dtypes.is_float(x.dtype) and x.dtype.itemsize < 4 else x, axis)
    places = x.shape[axis] - 1 - np.flip(np.argsort(keys, axis=axis, kind="stable"), axis)
    places = np.take(places, np.arange(k), axis).astype(_I32)
    return np.take_along_axis(x, places, axis), places


top_k_p = Primitive("top_k", params=("axis", "k"), family="sorting", infer=_top_k_infer, numpy=_top_k, multiple=True,
                    spec="chlo.top_k")
