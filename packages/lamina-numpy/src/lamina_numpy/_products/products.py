"""Products of vectors, matrices and tensors: every one is one `dot_general`, after reshapes where axes differ."""
from __future__ import annotations

from functools import partial
from collections.abc import Sequence
from typing import Any

from lamina_ir.typing import Sharding

import numpy as np
from lamina_ir import ShapeError, config, dtypes, prims
from lamina_ir.extend import docstring_entries
from lamina_ir.prims import as_dot_precision
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import (call_with_out_sharding, check_axes, check_axis, check_no_axis_name, check_out_sharding,
                                   is_axis_name, resolve_requested_dtype, typeof)

from .._core.promotion import (aval, broadcast, broadcast_shapes_of, cast, convert, equation, pair, promote_all,
                               refuse_out)
from .._core.public_api import public_api
from .._core.axes import insert_axes, permute_axes
from .._core.conversion import to_array
from .._core.named_axes import axes_of, reduce_axes
from .._elementwise.ufuncs import multiply
from .._shape.layout import moveaxis, ravel, reshape
from .._shape.joining import stack

__all__ = ["cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot", "vecmat"]

_PRODUCT = docstring_entries("""
    precision: precision of the products, if the hardware has several: None for the configured one, a name such as
      "high" or "highest", or one per operand.
    preferred_element_type: element type to sum in, and of the result; None for that of the operands.
    TypeError: `a` or `b` is neither an array nor a number, or `preferred_element_type` cannot hold the products.
    ValueError: `precision` is unknown.
    ShapeError: an operand has too few axes, the summed ones have different lengths, or the leading ones do not
      broadcast.
    """)
_MATRIX_VECTOR = {**_PRODUCT, **docstring_entries("""
    TypeError: `x1` or `x2` is neither an array nor a number.
    """)}

_I32 = np.dtype("int32")


def dot_general(x: Any, y: Any, contract: tuple[Any, Any], batch: tuple[Any, Any] = ((), ()), precision: Any = None,
                preferred: Any = None) -> Any:
    """One `dot_general` equation on operands of one dtype; booleans go through integers."""
    if typeof(x).dtype == dtypes.BOOL and preferred is None:
        x, y = convert(x, _I32), convert(y, _I32)
        return cast(lax.dot_general(x, y, (contract, batch), precision), dtypes.BOOL)
    if precision is None:
        precision = config.default_matmul_precision.value
    return equation(prims.dot_general_p, x, y, dimension_numbers=(contract, batch),
                    precision=None if precision is None else as_dot_precision(precision),
                    preferred_element_type=None if preferred is None else resolve_requested_dtype(preferred))


def _get_avals(call: str, x: Any, y: Any) -> tuple[Any, Any, tuple[int, ...], tuple[int, ...]]:
    a, b = aval(call, x, 0), aval(call, y, 1)
    if a.dtype is not b.dtype and a.dtype != b.dtype:
        x, y = promote_all(call, (x, y))
    return x, y, a.shape, b.shape


def _make_shape_error(call: str, a: Any, b: Any, n: int, m: int) -> Exception:
    return ShapeError(f"{call}: dot_general requires contracting dimensions to have the same shape, got [{n}] and [{m}] for "
                      f"operands of shapes {a} and {b}; transpose or reshape one of them")


@public_api("precision", "preferred_element_type", entries=_PRODUCT)
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None,
         preferred_element_type: DTypeLike | None = None) -> Array:
    """Sum of the products of all elements, those of `a` conjugated.

    Args:
      a, b: number or boolean arrays with as many elements, taken as flat.
      {precision, preferred_element_type}
    Returns:
      Array `[]`, in the dtype that both promote to (integers keep theirs and may overflow; booleans are combined by
      and, summed by or) or `preferred_element_type`, and the product of their units; 0 of no elements.
    Raises:
      ShapeError: the operands have different numbers of elements.
      {TypeError, ValueError}

    Derivative: linear in either operand.
    Source: meaning of `numpy.vdot`.

    >>> vdot(np.array([1., 2.]), np.array([3., 4.]))
    Array(11., dtype=float32)
    """
    x, y, s, t = _get_avals("vdot", a, b)
    if dtypes.is_complex(typeof(x).dtype) and dtypes.is_complex(typeof(a).dtype):
        x = lax.conj(x)
    x, y = (ravel(x) if len(s) != 1 else x), (ravel(y) if len(t) != 1 else y)
    n, m = typeof(x).shape[0], typeof(y).shape[0]
    if n != m:
        raise _make_shape_error("vdot", s, t, n, m)
    return dot_general(x, y, ((0,), (0,)), precision=precision, preferred=preferred_element_type)


@public_api("precision", "preferred_element_type", entries=_PRODUCT)
def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """Sums of products over the last axis of `a` and the last but one, or only, of `b`.

    Args:
      a, b: number or boolean arrays `[*s, n]` and `[n]` or `[*t, n, k]`; or a number and an array of any shape, for
        their plain product.
      {precision, preferred_element_type}
    Returns:
      Array `[*s]` or `[*s, *t, k]`, in the dtype that both promote to (integers keep theirs and may overflow;
      booleans are combined by and, summed by or) or `preferred_element_type`, and the product of their units.
    Raises:
      ShapeError: the two axes have different lengths.
      {TypeError, ValueError}

    Derivative: linear in either operand.
    Source: meaning of `numpy.dot`; one `dot_general` of StableHLO.

    >>> dot(np.array([[1., 2.], [3., 4.]]), np.array([1., 1.]))
    Array([3., 7.], dtype=float32)
    """
    x, y, s, t = _get_avals("dot", a, b)
    if not s or not t:
        x, y = pair("dot", x, y)
        d = typeof(x).dtype
        out = lax.bitwise_and(x, y) if d == dtypes.BOOL else lax.mul(x, y)
        return out if preferred_element_type is None else cast(out, resolve_requested_dtype(preferred_element_type))
    left, right = len(s) - 1, max(len(t) - 2, 0)
    if s[left] != t[right]:
        raise _make_shape_error("dot", s, t, s[left], t[right])
    return dot_general(x, y, ((left,), (right,)), precision=precision, preferred=preferred_element_type)


@public_api("precision", "preferred_element_type", "out_sharding", entries=_PRODUCT)
def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None,
           out_sharding: Sharding = None) -> Array:
    """Matrix product; leading axes broadcast.

    Args:
      a, b: number or boolean arrays `[..., m, n]` and `[..., n, k]`; `[n]` on the left is a row, on the right a
        column, which the result drops.
      {precision, preferred_element_type}
      out_sharding: None, or the sharding of the result over `Explicit` axes: a `PartitionSpec` or a `NamedSharding`.
    Returns:
      Array `[..., m, k]`, in the dtype that both promote to (integers keep theirs and may overflow; booleans are
      combined by and, summed by or) or `preferred_element_type`, and the product of their units.
    Raises:
      ShapeError: the summed axes have different lengths, an operand has no axes, or the leading ones do not
        broadcast.
      {TypeError}
      ValueError: `precision` is unknown, or `out_sharding` names an axis that is not `Explicit`.

    Derivative: linear in either operand.
    Source: meaning of `numpy.matmul`; one `dot_general` of StableHLO.

    >>> matmul(np.ones((2, 3)), np.ones(3))
    Array([3., 3.], dtype=float32)
    """
    if out_sharding is not None:
        check_out_sharding("matmul", out_sharding)
        return call_with_out_sharding("matmul", partial(
            matmul, precision=precision, preferred_element_type=preferred_element_type), (a, b), out_sharding)
    x, y, s, t = _get_avals("matmul", a, b)
    n, m = len(s), len(t)
    if not n or not m:
        raise ShapeError(f"matmul: operands need at least one axis; got shapes {s} and {t}. Use multiply with numbers")
    left, right = n - 1, max(m - 2, 0)
    if s[left] != t[right]:
        raise _make_shape_error("matmul", s, t, s[left], t[right])
    if m <= 2 or n == 1:  # no axes to pair up: the free axes of the two sides just follow one another
        out = dot_general(x, y, ((left,), (right,)), precision=precision, preferred=preferred_element_type)
        return out
    if n == 2:
        # [m, k] @ [..., k, n]: contract, then move the rows behind the leading axes of the right side
        out = dot_general(x, y, ((left,), (right,)), precision=precision, preferred=preferred_element_type)
        return moveaxis(out, 0, -2)
    return _multiply_batched(x, y, s, t, precision, preferred_element_type)


def _multiply_batched(x: Any, y: Any, s: tuple[int, ...], t: tuple[int, ...], precision: Any, preferred: Any) -> Any:
    lead = broadcast_shapes_of("matmul", (s[:-2], t[:-2]))
    if s[:-2] == t[:-2]:
        batch = tuple(range(len(lead)))
        return dot_general(x, y, ((len(s) - 1,), (len(t) - 2,)), (batch, batch), precision, preferred)
    # axes of length 1 on one side only are free on the other side, so nothing is repeated in memory
    k = len(lead)
    s_lead, t_lead = (1,) * (k - len(s) + 2) + s[:-2], (1,) * (k - len(t) + 2) + t[:-2]
    both = [i for i in range(k) if s_lead[i] == t_lead[i]]
    on_left = [i for i in range(k) if i not in both and t_lead[i] == 1]
    on_right = [i for i in range(k) if i not in both and t_lead[i] != 1]
    x = reshape(x, tuple(s_lead[i] for i in range(k) if i in both or i in on_left) + s[-2:])
    y = reshape(y, tuple(t_lead[i] for i in range(k) if i in both or i in on_right) + t[-2:])
    order_l = [i for i in range(k) if i in both or i in on_left]
    order_r = [i for i in range(k) if i in both or i in on_right]
    out = dot_general(x, y, ((len(order_l) + 1,), (len(order_r),)),
                      (tuple(order_l.index(i) for i in both), tuple(order_r.index(i) for i in both)), precision,
                      preferred)
    # result axes: both, left-only, row, right-only, column
    names: list[Any] = [*both, *on_left, "row", *on_right, "column"]
    return permute_axes(out, tuple(names.index(i) for i in [*range(k), "row", "column"]))


@public_api("axis", "precision", "preferred_element_type", entries=_PRODUCT)
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None,
           preferred_element_type: DTypeLike | None = None) -> Array:
    """Sum of products along one axis, `x1` conjugated; the other axes broadcast.

    Args:
      x1, x2: number or boolean arrays, of one length along `axis`.
      axis: the axis to sum over, of either operand; negative counts from its end. Or the name of a mapped axis.
      {precision, preferred_element_type}
    Returns:
      Array of the broadcast other axes, in the dtype that both promote to (integers keep theirs and may overflow;
      booleans are combined by and, summed by or) or `preferred_element_type`, and the product of their units.
    Raises:
      ShapeError: the axes have different lengths, are not there, or the others do not broadcast.
      TypeError: `x1` or `x2` is neither an array nor a number, or `preferred_element_type` cannot hold the
        products.
      ValueError: `precision` is unknown.

    Derivative: linear in either operand.
    Source: meaning of `numpy.vecdot`.

    >>> vecdot(np.array([[1., 2.], [3., 4.]]), np.array([1., 1.]))
    Array([3., 7.], dtype=float32)
    """
    x, y, s, t = _get_avals("vecdot", x1, x2)
    if type(axis) is not int and is_axis_name(axis):
        one = vecdot(insert_axes(x, (len(s),)), insert_axes(y, (len(t),)), precision=precision,
                     preferred_element_type=preferred_element_type)
        summed = prims.reduce_or_p if typeof(one).dtype == dtypes.BOOL else prims.reduce_sum_p
        return reduce_axes(summed, one, axes_of("vecdot", axis, 0))
    if not s or not t:
        raise ShapeError(f"vecdot: operands need at least one axis; got shapes {s} and {t}")
    x, y = moveaxis(x, check_axis("vecdot", axis, len(s)), -1), moveaxis(y, check_axis("vecdot", axis, len(t)), -1)
    s, t = typeof(x).shape, typeof(y).shape
    if s[-1] != t[-1]:
        raise _make_shape_error("vecdot", s, t, s[-1], t[-1])
    if dtypes.is_complex(typeof(x).dtype):
        x = lax.conj(x)
    lead = broadcast_shapes_of("vecdot", (s[:-1], t[:-1]))
    x, y = broadcast(x, s, (*lead, s[-1])), broadcast(y, t, (*lead, t[-1]))
    batch = tuple(range(len(lead)))
    return dot_general(x, y, ((len(lead),), (len(lead),)), (batch, batch), precision, preferred_element_type)


@public_api(entries=_MATRIX_VECTOR)
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors; leading axes broadcast.

    Args:
      x1: number or boolean array `[..., m, n]`.
      x2: number or boolean array `[..., n]`.
    Returns:
      Array `[..., m]`, in the dtype that both promote to and the product of their units; integers may overflow.
    Raises: {ShapeError, TypeError}

    Derivative: linear in either operand.
    Source: meaning of `numpy.matvec`.

    >>> matvec(np.array([[1., 2.], [3., 4.]]), np.array([1., 1.]))
    Array([3., 7.], dtype=float32)
    """
    n, m = len(aval("matvec", x1).shape), len(aval("matvec", x2, 1).shape)
    if n < 2 or not m:
        raise ShapeError(f"matvec: expected matrices [..., m, n] and vectors [..., n]; got shapes {typeof(x1).shape} and "
                         f"{typeof(x2).shape}")
    out = matmul(x1, insert_axes(x2, (m,)))
    return reshape(out, typeof(out).shape[:-1])


@public_api(entries=_MATRIX_VECTOR)
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Vectors, conjugated, times matrices; leading axes broadcast.

    Args:
      x1: number or boolean array `[..., m]`.
      x2: number or boolean array `[..., m, n]`.
    Returns:
      Array `[..., n]`, in the dtype that both promote to and the product of their units; integers may overflow.
    Raises: {ShapeError, TypeError}

    Derivative: linear in either operand.
    Source: meaning of `numpy.vecmat`.

    >>> vecmat(np.array([1., 1.]), np.array([[1., 2.], [3., 4.]]))
    Array([4., 6.], dtype=float32)
    """
    n, m = len(aval("vecmat", x1).shape), len(aval("vecmat", x2, 1).shape)
    if not n or m < 2:
        raise ShapeError(f"vecmat: expected vectors [..., m] and matrices [..., m, n]; got shapes {typeof(x1).shape} and "
                         f"{typeof(x2).shape}")
    if dtypes.is_complex(typeof(x1).dtype):
        x1 = lax.conj(x1)
    out = matmul(insert_axes(x1, (n - 1,)), x2)
    return reshape(out, typeof(out).shape[:-2] + typeof(out).shape[-1:])


@public_api("precision", "preferred_element_type", entries=_PRODUCT)
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None,
          preferred_element_type: DTypeLike | None = None) -> Array:
    """Sums of products over the last axes of both operands.

    Args:
      a, b: number or boolean arrays `[*s, n]` and `[*t, n]`; or a number and an array of any shape, for their plain
        product.
      {precision, preferred_element_type}
    Returns:
      Array `[*s, *t]`, in the dtype that both promote to (integers keep theirs and may overflow; booleans are
      combined by and, summed by or) or `preferred_element_type`, and the product of their units.
    Raises:
      ShapeError: the last axes have different lengths.
      {TypeError, ValueError}

    Derivative: linear in either operand.
    Source: meaning of `numpy.inner`.

    >>> inner(np.array([[1., 2.], [3., 4.]]), np.array([[1., 1.]]))
    Array([[3.],
           [7.]], dtype=float32)
    """
    x, y, s, t = _get_avals("inner", a, b)
    if not s or not t:
        return dot(x, y, precision=precision, preferred_element_type=preferred_element_type)
    if s[-1] != t[-1]:
        raise _make_shape_error("inner", s, t, s[-1], t[-1])
    return dot_general(x, y, ((len(s) - 1,), (len(t) - 1,)), precision=precision, preferred=preferred_element_type)


@public_api("out")
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Every element of `a` times every element of `b`.

    Args:
      a, b: number or boolean arrays, taken as flat.
      out: not supported, must be None: arrays never change.
    Returns:
      Array `[a.size, b.size]`, in the dtype that both promote to and the product of their units.
    Raises:
      TypeError: `a` or `b` is neither an array nor a number.
      NotImplementedError: `out` is given.

    Derivative: linear in either operand.
    Source: meaning of `numpy.outer`.

    >>> outer(np.array([1, 2]), np.array([1, 10]))
    Array([[ 1, 10],
           [ 2, 20]], dtype=int32)
    """
    refuse_out("outer", out)
    x, y, _, _ = _get_avals("outer", a, b)
    x, y = ravel(x), ravel(y)
    return multiply(insert_axes(x, (1,)), insert_axes(y, (0,)))


@public_api("axes", "precision", "preferred_element_type", entries=_PRODUCT)
def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[Any] = 2, *, precision: Any = None,
              preferred_element_type: DTypeLike | None = None) -> Array:
    """Sums of products over axes of `a` paired with axes of `b`.

    Args:
      a, b: number or boolean arrays.
      axes: a number n, for the last n axes of `a` with the first n of `b` in order. Or two axes, or two sequences of
        axes, one of `a` and one of `b`. Negative ones count from the end.
      {precision, preferred_element_type}
    Returns:
      Array of the other axes of `a`, then those of `b`. Its dtype is the one that both promote to, or
      `preferred_element_type`; its units are the product of theirs. Integers keep their dtype and may overflow;
      booleans are combined by and, summed by or.
    Raises:
      ShapeError: paired axes have different lengths, are not there, or are named twice.
      TypeError: `a` or `b` is neither an array nor a number, has too few axes, or `axes` names more of one than of
        the other.
      ValueError: `axes` has not two parts, or `precision` is unknown.

    Derivative: linear in either operand.
    Source: meaning of `numpy.tensordot`; one `dot_general` of StableHLO.

    >>> tensordot(np.ones((2, 3, 4)), np.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    x, y, s, t = _get_avals("tensordot", a, b)
    if isinstance(axes, (int, np.integer)):
        n = int(axes)
        if n > min(len(s), len(t)) or n < 0:
            raise TypeError(f"tensordot: {n} axes cannot be contracted for operands of shapes {s} and {t}")
        left, right = tuple(range(len(s) - n, len(s))), tuple(range(n))
    else:
        check_no_axis_name("tensordot", "axes", axes)
        if len(axes) != 2:
            raise ValueError(f"tensordot: axes must be a number or two sequences; got {axes!r}")
        left = check_axes("tensordot", axes[0], len(s), "axes")
        right = check_axes("tensordot", axes[1], len(t), "axes")
        if len(left) != len(right):
            raise TypeError(f"tensordot: axes must name the same number of axes of both operands; got {axes!r}")
    for i, j in zip(left, right):
        if s[i] != t[j]:
            raise _make_shape_error("tensordot", s, t, s[i], t[j])
    return dot_general(x, y, (left, right), precision=precision, preferred=preferred_element_type)


@public_api()
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product: each element of `a` replaced by itself times `b`.

    Args:
      a, b: number or boolean arrays; the one with fewer axes gets axes of length 1 in front.
    Returns:
      Array whose axes have the products of the operands' lengths, in the dtype that both promote to and the product
      of their units.
    Raises:
      TypeError: `a` or `b` is neither an array nor a number.

    Derivative: linear in either operand.
    Source: meaning of `numpy.kron`.

    >>> kron(np.array([1, 2]), np.array([1, 10]))
    Array([ 1, 10,  2, 20], dtype=int32)
    """
    x, y, s, t = _get_avals("kron", a, b)
    n = max(len(s), len(t))
    s, t = (1,) * (n - len(s)) + s, (1,) * (n - len(t)) + t
    x = reshape(x, tuple(d for size in s for d in (size, 1)))
    y = reshape(y, tuple(d for size in t for d in (1, size)))
    return reshape(multiply(x, y), tuple(i * j for i, j in zip(s, t)))


@public_api("axisa", "axisb", "axisc", "axis")
def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Array:
    """Cross product of vectors of length 3, or of length 2, in the plane.

    Args:
      a, b: number arrays with vectors of length 2 or 3 along an axis; the other axes broadcast.
      axisa, axisb: the axis of the vectors in `a` and in `b`; negative counts from the end.
      axisc: their axis in the result; without meaning where all vectors have length 2.
      axis: one axis for all three, in place of the others; None for none.
    Returns:
      Array of the broadcast shape with vectors of length 3; without their axis, the third component alone, where
      all vectors have length 2. Dtype that both promote to; the product of their units.
    Raises:
      ValueError: the vectors do not have length 2 or 3.
      ShapeError: an axis is not there, or the other axes do not broadcast.
      TypeError: `a` or `b` is neither an array nor a number, or holds booleans.

    Derivative: linear in either operand.
    Source: meaning of `numpy.cross`, which is giving up vectors of length 2.

    >>> cross(np.array([1., 0., 0.]), np.array([0., 1., 0.]))
    Array([0., 0., 1.], dtype=float32)
    """
    check_no_axis_name("cross", "axis", axis)
    for argument, at in (("axisa", axisa), ("axisb", axisb), ("axisc", axisc)):
        check_no_axis_name("cross", argument, at)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = to_array("cross", a), to_array("cross", b, 1)
    x, y = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    n, m = typeof(x).shape[-1], typeof(y).shape[-1]
    if n not in (2, 3) or m not in (2, 3):
        raise ValueError(f"cross: vectors must have length 2 or 3; got {n} and {m}")
    first = [x[..., i] for i in range(n)]
    second = [y[..., i] for i in range(m)]
    if n == 2 and m == 2:
        return first[0] * second[1] - first[1] * second[0]
    if n == 3 == m:
        (p, q, r), (u, v, w) = first, second
        parts = [q * w - r * v, r * u - p * w, p * v - q * u]
    elif n == 2:  # a missing component is no product with zero: that of an infinity is NaN
        (p, q), (u, v, w) = first, second
        parts = [q * w, -(p * w), p * v - q * u]
    else:
        (p, q, r), (u, v) = first, second
        parts = [-(r * v), r * u, p * v - q * u]
    out = stack(parts, axis=-1)
    return moveaxis(out, -1, axisc)
