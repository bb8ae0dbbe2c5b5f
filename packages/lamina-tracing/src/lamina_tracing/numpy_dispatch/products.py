"""Products of vectors, matrices and stacks of them, on `dot_general`."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import lax
from ..lax._util.operands import check_axes
from .._core.tracer import typeof
from .elementwise import conjugate, outer as each_with_each
from ._registry import as_array, axis_of, common, moved_last, ndim_of, row, rows, shape_of, stretched

__all__ = ["matmul", "tensordot"]


@row("matmul", "linalg.matmul")
def matmul(x1: Any, x2: Any, /) -> Any:
    x, y = common(x1, x2)
    s, t = shape_of(x), shape_of(y)
    if not s or not t:
        raise ValueError("matmul: operands must have at least one axis; got a number. Use `*`")
    if s[-1] != t[-2 if len(t) > 1 else 0]:
        raise ValueError(f"matmul: {typeof(x).str_long()} and {typeof(y).str_long()} do not fit: the last axis of the "
                         f"first must be as long as the {'last but one' if len(t) > 1 else 'only'} axis of the second")
    if len(s) <= 2 or len(t) <= 2 and max(len(s), len(t)) <= 2:
        return _flat_matmul(x, y)
    if len(t) <= 2:
        return lax.dot_general(x, y, (((len(s) - 1,), (max(len(t) - 2, 0),)), ((), ())))
    batch = np.broadcast_shapes(s[:-2], t[:-2])
    n = len(batch)
    x, y = stretched(x, batch + s[-2:]), stretched(y, batch + t[-2:])
    return lax.dot_general(x, y, (((n + 1,), (n,)), (tuple(range(n)), tuple(range(n)))))


def _flat_matmul(x: Any, y: Any) -> Any:
    """With a vector or one matrix first."""
    s, t = shape_of(x), shape_of(y)
    out = lax.dot_general(x, y, (((len(s) - 1,), (max(len(t) - 2, 0),)), ((), ())))
    if len(s) == 2 and len(t) > 2:  # the rows of the matrix go behind the stack's axes
        return rows["moveaxis"](out, 0, -2)
    return out


@row("dot")
def dot(a: Any, b: Any, out: None = None) -> Any:
    x, y = common(a, b)
    if not ndim_of(x) or not ndim_of(y):
        return rows["multiply"](x, y)
    return _contracted("dot", x, y, ndim_of(x) - 1, max(ndim_of(y) - 2, 0))


def _contracted(call: str, x: Any, y: Any, i: int, j: int) -> Any:
    if shape_of(x)[i] != shape_of(y)[j]:
        raise ValueError(f"numpy.{call}: {typeof(x).str_long()} and {typeof(y).str_long()} do not fit: axes of lengths "
                         f"{shape_of(x)[i]} and {shape_of(y)[j]} meet")
    return lax.dot_general(x, y, (((i,), (j,)), ((), ())))


@row("inner")
def inner(a: Any, b: Any, /) -> Any:
    x, y = common(a, b)
    if not ndim_of(x) or not ndim_of(y):
        return rows["multiply"](x, y)
    return _contracted("inner", x, y, ndim_of(x) - 1, ndim_of(y) - 1)


def _flat(x: Any) -> Any:
    x = as_array(x)
    return lax.reshape(x, (typeof(x).size,))


@row("outer")
def outer(a: Any, b: Any, out: None = None) -> Any:
    return each_with_each(rows["multiply"], _flat(a), _flat(b))


@row("linalg.outer")
def vector_outer(x1: Any, x2: Any, /) -> Any:
    return outer(x1, x2)


@row("vdot")
def vdot(a: Any, b: Any, /) -> Any:
    return dot(_flat(conjugate(as_array(a))), _flat(b))


@row("vecdot")
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    product = rows["multiply"](conjugate(as_array(x1)), x2)
    return rows["sum"](product, axis)


@row("linalg.vecdot")
def matrix_vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return vecdot(x1, x2, axis=axis)


@row("matvec")
def matvec(x1: Any, x2: Any, /) -> Any:
    x2 = as_array(x2)
    return lax.squeeze(matmul(x1, lax.expand_dims(x2, (ndim_of(x2),))), (-1,))


@row("vecmat")
def vecmat(x1: Any, x2: Any, /) -> Any:
    x1 = conjugate(as_array(x1))
    return lax.squeeze(matmul(lax.expand_dims(x1, (ndim_of(x1) - 1,)), x2), (-2,))


@row("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = common(a, b)
    if isinstance(axes, (int, np.integer)):
        left, right = tuple(range(ndim_of(x) - axes, ndim_of(x))), tuple(range(axes))
    else:
        left, right = (check_axes("tensordot", i, ndim_of(v)) for i, v in zip(axes, (x, y)))
    if [shape_of(x)[i] for i in left] != [shape_of(y)[j] for j in right]:
        raise ValueError(f"numpy.tensordot: axes {left} of {typeof(x).str_long()} and {right} of "
                         f"{typeof(y).str_long()} do not fit")
    return lax.dot_general(x, y, ((left, right), ((), ())))


@row("kron")
def kron(a: Any, b: Any) -> Any:
    x, y = common(a, b)
    n = max(ndim_of(x), ndim_of(y))
    s, t = ((1,) * (n - ndim_of(v)) + shape_of(v) for v in (x, y))
    x = lax.reshape(x, [k for m in s for k in (m, 1)])
    y = lax.reshape(y, [k for m in t for k in (1, m)])
    return lax.reshape(rows["multiply"](x, y), [i * j for i, j in zip(s, t)])


@row("cross")
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    x, y = common(a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moved_last(x, axis_of("cross", axisa, x)), moved_last(y, axis_of("cross", axisb, y))
    if shape_of(x)[-1] not in (2, 3) or shape_of(y)[-1] not in (2, 3):
        raise ValueError(f"numpy.cross: vectors must have 2 or 3 components; got {typeof(x).str_long()} and "
                         f"{typeof(y).str_long()}")
    xs, ys = rows["unstack"](x, axis=-1), rows["unstack"](y, axis=-1)

    def part(i: int, j: int) -> Any:
        """x_i y_j - x_j y_i; third components that are not there are 0."""
        found = None
        for p, q, op in ((i, j, "add"), (j, i, "subtract")):
            if p < len(xs) and q < len(ys):
                term = rows["multiply"](xs[p], ys[q])
                found = term if found is None and op == "add" else lax.neg(term) if found is None else lax.sub(found, term)
        return found

    if len(xs) == len(ys) == 2:
        return part(0, 1)
    return rows["moveaxis"](rows["stack"]([part(1, 2), part(2, 0), part(0, 1)], -1), -1, axisc)


@row("linalg.cross")
def vector_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return cross(x1, x2, axis=axis)

