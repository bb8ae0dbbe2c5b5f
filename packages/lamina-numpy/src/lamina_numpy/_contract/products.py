"""Products of vectors, matrices and tensors: every one is one `dot_general`, after reshapes where axes differ."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ShapeError, config, dtypes, prims
from lamina_ir.prims import as_precision
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import check_axes, check_axis, typeof

from .._ground.promotion import aval, broadcast, broadcast_shapes_of, cast, convert, equation, no_out, pair, promote_all
from .._ground.publishing import public
from .._ground.axes import permuted, with_axes
from .._ground.conversion import own_array
from .._elementwise.ufuncs import multiply
from .._shape.layout import moveaxis, ravel, reshape
from .._shape.joining import stack

__all__ = ["cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot", "vecmat"]

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
                    precision=None if precision is None else as_precision(precision),
                    preferred_element_type=None if preferred is None else dtypes.canonical(preferred))


def _two(call: str, x: Any, y: Any) -> tuple[Any, Any, tuple[int, ...], tuple[int, ...]]:
    a, b = aval(call, x, 0), aval(call, y, 1)
    if a.dtype is not b.dtype and a.dtype != b.dtype:
        x, y = promote_all(call, (x, y))
    return x, y, a.shape, b.shape


def _bad(call: str, a: Any, b: Any, n: int, m: int) -> Exception:
    return ShapeError(f"dot_general requires contracting dimensions to have the same shape, got [{n}] and [{m}]."
                      f" That was {call} of shapes {a} and {b}: transpose or reshape one of them")


@public("precision", "preferred_element_type")
def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None,
         preferred_element_type: DTypeLike | None = None) -> Array:
    """Sum of the products of all elements, those of `a` conjugated.

    >>> vdot(np.array([1., 2.]), np.array([3., 4.]))
    Array(11., dtype=float32)
    """
    x, y, s, t = _two("vdot", a, b)
    if dtypes.is_complex(typeof(x).dtype) and dtypes.is_complex(typeof(a).dtype):
        x = lax.conj(x)
    x, y = (ravel(x) if len(s) != 1 else x), (ravel(y) if len(t) != 1 else y)
    n, m = typeof(x).shape[0], typeof(y).shape[0]
    if n != m:
        raise _bad("vdot", s, t, n, m)
    return dot_general(x, y, ((0,), (0,)), precision=precision, preferred=preferred_element_type)


@public("precision", "preferred_element_type")
def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: DTypeLike | None = None) -> Array:
    """Last axis of `a` with the last but one (or only) of `b`; a plain product with numbers.

    Args:
      a, b: arrays or numbers.
      precision: of the products, where the hardware offers several; None, "high", "highest", or a pair.
      preferred_element_type: dtype of the sums.
    """
    x, y, s, t = _two("dot", a, b)
    if not s or not t:
        x, y = pair("dot", x, y)
        d = typeof(x).dtype
        out = lax.bitwise_and(x, y) if d == dtypes.BOOL else lax.mul(x, y)
        return out if preferred_element_type is None else cast(out, dtypes.canonical(preferred_element_type))
    left, right = len(s) - 1, max(len(t) - 2, 0)
    if s[left] != t[right]:
        raise _bad("dot", s, t, s[left], t[right])
    return dot_general(x, y, ((left,), (right,)), precision=precision, preferred=preferred_element_type)


@public("precision", "preferred_element_type")
def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None,
           preferred_element_type: DTypeLike | None = None) -> Array:
    """Matrix product; leading axes broadcast, one-dimensional operands are a row (left) and a column (right).

    >>> matmul(np.ones((2, 3)), np.ones(3))
    Array([3., 3.], dtype=float32)
    """
    x, y, s, t = _two("matmul", a, b)
    n, m = len(s), len(t)
    if not n or not m:
        raise ShapeError(f"matmul: operands need at least one axis; got shapes {s} and {t}. Use multiply with numbers")
    left, right = n - 1, max(m - 2, 0)
    if s[left] != t[right]:
        raise _bad("matmul", s, t, s[left], t[right])
    if m <= 2 or n == 1:  # no axes to pair up: the free axes of the two sides just follow one another
        out = dot_general(x, y, ((left,), (right,)), precision=precision, preferred=preferred_element_type)
        return out
    if n == 2:
        # [m, k] @ [..., k, n]: contract, then move the rows behind the leading axes of the right side
        out = dot_general(x, y, ((left,), (right,)), precision=precision, preferred=preferred_element_type)
        return moveaxis(out, 0, -2)
    return _batched(x, y, s, t, precision, preferred_element_type)


def _batched(x: Any, y: Any, s: tuple[int, ...], t: tuple[int, ...], precision: Any, preferred: Any) -> Any:
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
    return permuted(out, tuple(names.index(i) for i in [*range(k), "row", "column"]))


@public("axis", "precision", "preferred_element_type")
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: Any = None,
           preferred_element_type: DTypeLike | None = None) -> Array:
    """Sum of products along one axis, `x1` conjugated; the other axes broadcast."""
    x, y, s, t = _two("vecdot", x1, x2)
    if not s or not t:
        raise ShapeError(f"vecdot: operands need at least one axis; got shapes {s} and {t}")
    x, y = moveaxis(x, check_axis("vecdot", axis, len(s)), -1), moveaxis(y, check_axis("vecdot", axis, len(t)), -1)
    s, t = typeof(x).shape, typeof(y).shape
    if s[-1] != t[-1]:
        raise _bad("vecdot", s, t, s[-1], t[-1])
    if dtypes.is_complex(typeof(x).dtype):
        x = lax.conj(x)
    lead = broadcast_shapes_of("vecdot", (s[:-1], t[:-1]))
    x, y = broadcast(x, s, (*lead, s[-1])), broadcast(y, t, (*lead, t[-1]))
    batch = tuple(range(len(lead)))
    return dot_general(x, y, ((len(lead),), (len(lead),)), (batch, batch), precision, preferred_element_type)


@public()
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices times vectors; leading axes broadcast."""
    y = with_axes(x2, (len(aval("matvec", x2, 1).shape),))
    out = matmul(x1, y)
    return reshape(out, typeof(out).shape[:-1])


@public()
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Vectors (conjugated) times matrices; leading axes broadcast."""
    if dtypes.is_complex(aval("vecmat", x1).dtype):
        x1 = lax.conj(x1)
    n = len(typeof(x1).shape)
    out = matmul(with_axes(x1, (n - 1,)), x2)
    return reshape(out, typeof(out).shape[:-2] + typeof(out).shape[-1:])


@public("precision", "preferred_element_type")
def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None,
          preferred_element_type: DTypeLike | None = None) -> Array:
    """Last axis of `a` with the last axis of `b`; a plain product with numbers."""
    x, y, s, t = _two("inner", a, b)
    if not s or not t:
        return dot(x, y, precision=precision, preferred_element_type=preferred_element_type)
    if s[-1] != t[-1]:
        raise _bad("inner", s, t, s[-1], t[-1])
    return dot_general(x, y, ((len(s) - 1,), (len(t) - 1,)), precision=precision, preferred=preferred_element_type)


@public("out")
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Every element of `a` times every element of `b`, `[a.size, b.size]`."""
    no_out("outer", out)
    x, y, _, _ = _two("outer", a, b)
    x, y = ravel(x), ravel(y)
    return multiply(with_axes(x, (1,)), with_axes(y, (0,)))


@public("axes", "precision", "preferred_element_type", lists=True)
def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[Any] = 2, *, precision: Any = None,
              preferred_element_type: DTypeLike | None = None) -> Array:
    """Products summed over axes of `a` paired with axes of `b`.

    Args:
      a, b: arrays.
      axes: a number n (the last n axes of `a` with the first n of `b`), or two sequences of axes.
    """
    x, y, s, t = _two("tensordot", a, b)
    if isinstance(axes, (int, np.integer)):
        n = int(axes)
        if n > min(len(s), len(t)) or n < 0:
            raise TypeError(f"tensordot: {n} axes cannot be contracted for operands of shapes {s} and {t}")
        left, right = tuple(range(len(s) - n, len(s))), tuple(range(n))
    else:
        if len(axes) != 2:
            raise ValueError(f"tensordot: axes must be a number or two sequences; got {axes!r}")
        left, right = check_axes("tensordot", axes[0], len(s)), check_axes("tensordot", axes[1], len(t))
        if len(left) != len(right):
            raise TypeError(f"tensordot: as many axes of both operands are needed; got {axes!r}")
    for i, j in zip(left, right):
        if s[i] != t[j]:
            raise _bad("tensordot", s, t, s[i], t[j])
    return dot_general(x, y, (left, right), precision=precision, preferred=preferred_element_type)


@public()
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product: each element of `a` replaced by itself times `b`."""
    x, y, s, t = _two("kron", a, b)
    n = max(len(s), len(t))
    s, t = (1,) * (n - len(s)) + s, (1,) * (n - len(t)) + t
    x = reshape(x, tuple(d for size in s for d in (size, 1)))
    y = reshape(y, tuple(d for size in t for d in (1, size)))
    return reshape(multiply(x, y), tuple(i * j for i, j in zip(s, t)))


@public("axisa", "axisb", "axisc", "axis")
def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Array:
    """Cross product of vectors of length 3 (or 2: the third component alone, when both are)."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = own_array("cross", a), own_array("cross", b, 1)
    x, y = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    n, m = typeof(x).shape[-1], typeof(y).shape[-1]
    if n not in (2, 3) or m not in (2, 3):
        raise ValueError(f"cross: vectors must have length 2 or 3; got {n} and {m}")
    first = [x[..., i] for i in range(n)]
    second = [y[..., i] for i in range(m)]
    if n == 2 and m == 2:
        return first[0] * second[1] - first[1] * second[0]
    first += [first[0] * 0] * (3 - n)
    second += [second[0] * 0] * (3 - m)
    (p, q, r), (u, v, w) = first, second
    out = stack([q * w - r * v, r * u - p * w, p * v - q * u], axis=-1)
    return moveaxis(out, -1, axisc)
