"""`sort`: along one axis, by one or several keys, other operands carried along.

The order is NumPy's: -0 equals 0 and NaN comes last; complex numbers by real, then imaginary part, those with a NaN
last.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..avals import ShapedArray
from ..errors import ShapeError
from ..primitive import Primitive

__all__ = ["sort_p"]


def _sort_infer(*xs: ShapedArray, dimension: int, is_stable: bool, num_keys: int) -> tuple[ShapedArray, ...]:
    if not xs:
        raise ShapeError("sort: expected at least one operand; got none [StableHLO sort C1]")
    shape = xs[0].shape
    for x in xs:
        if x.shape != shape:
            raise ShapeError(f"sort: operands must have one shape; got {xs[0].long()} and {x.long()} "
                             "[StableHLO sort C2]")
    if not 0 <= dimension < len(shape):
        raise ShapeError(f"sort: dimension {dimension} is out of range for operand {xs[0].long()} [StableHLO sort C4]")
    if not 1 <= num_keys <= len(xs):
        raise ShapeError(f"sort: num_keys must be between 1 and the number of operands {len(xs)}; got {num_keys}")
    return xs


def _sort(*xs: Any, dimension: int, is_stable: bool, num_keys: int) -> tuple[Any, ...]:
    keys = [x.astype(np.float32) if dtypes.is_float(x.dtype) and x.dtype.kind != "f" else x for x in xs[:num_keys]]
    order = np.lexsort(keys[::-1], axis=dimension)
    return tuple([np.take_along_axis(x, order, dimension) for x in xs])


sort_p = Primitive("sort", params=("dimension", "is_stable", "num_keys"), family="sorting", infer=_sort_infer,
                   numpy=_sort, multiple=True, spec="sort")
