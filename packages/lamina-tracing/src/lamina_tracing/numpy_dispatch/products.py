"""Products of vectors, matrices and stacks of matrices, with `dot_general`."""
from __future__ import annotations


import numpy as np

from .. import lax
from .._core.array import Array, ArrayLike
from .._core.tracer import typeof
from ._registry import broadcast_to, common_dtype, implementations, implements, ndim_of, shape_of

__all__: list[str] = []


@implements("matmul")
def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    x, y = common_dtype(x1, x2)
    s, t = shape_of(x), shape_of(y)
    if not s or not t:
        raise ValueError("matmul: operands must have at least one axis; got a number. Use `*`")
    if s[-1] != t[-2 if len(t) > 1 else 0]:
        raise ValueError(f"matmul: {typeof(x).str_long()} and {typeof(y).str_long()} do not fit: the last axis of the "
                         f"first must be as long as the {'last but one' if len(t) > 1 else 'only'} axis of the second")
    contract = (len(s) - 1,), (max(len(t) - 2, 0),)
    if len(s) <= 2 or len(t) <= 2:
        out = lax.dot_general(x, y, (contract, ((), ())))
        # a matrix times a stack of matrices: move the rows of the matrix behind the axes of the stack
        n = len(t) - 1
        return lax.transpose(out, (*range(1, n), 0, n)) if len(s) == 2 and len(t) > 2 else out
    batch = np.broadcast_shapes(s[:-2], t[:-2])
    n = len(batch)
    x, y = broadcast_to(x, batch + s[-2:]), broadcast_to(y, batch + t[-2:])
    return lax.dot_general(x, y, (((n + 1,), (n,)), (tuple(range(n)), tuple(range(n)))))


@implements("dot")
def dot(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    x, y = common_dtype(a, b)
    if not ndim_of(x) or not ndim_of(y):
        return implementations["multiply"](x, y)
    i, j = ndim_of(x) - 1, max(ndim_of(y) - 2, 0)
    if shape_of(x)[i] != shape_of(y)[j]:
        raise ValueError(f"numpy.dot: {typeof(x).str_long()} and {typeof(y).str_long()} do not fit: axes of lengths "
                         f"{shape_of(x)[i]} and {shape_of(y)[j]} meet")
    return lax.dot_general(x, y, (((i,), (j,)), ((), ())))
