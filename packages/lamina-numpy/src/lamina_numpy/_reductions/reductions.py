"""Sums, products, extremes and their positions along axes.

Integers narrower than the default integer are summed in it; float16 and bfloat16 are summed in float32 and rounded
once at the end.
"""
from __future__ import annotations

import builtins
from typing import Any, Protocol

import numpy as np
from lamina_ir import Primitive, ShapeError, dtypes, prims
from lamina_ir.typing import Function
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax
from lamina_tracing.extend import check_axis, is_axis_name, typeof, resolve_requested_dtype

from .._core.promotion import aval, broadcast, cast, convert, equation, literal, pair, refuse_out, work_dtype
from .._core.public_api import public_api
from .._core.axes import insert_axes
from .._core.named_axes import axes_of, keep_axes, reduce_axes
from .._core.select import choose_by, truth
from .._elementwise.logic import isnan
from .._shape.layout import ravel
from ._docstrings import EXTREME, POSITION, REDUCTION, SUM

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "max", "min", "nanargmax", "nanargmin",
           "prod", "ptp", "sum"]

_sum, _prod = prims.reduce_sum_p, prims.reduce_prod_p
_max, _min, _and, _or = prims.reduce_max_p, prims.reduce_min_p, prims.reduce_and_p, prims.reduce_or_p


def sum_dtype(d: np.dtype) -> np.dtype:
    """The dtype a sum of `d` has: small integers and booleans grow to the default width."""
    if d == dtypes.BOOL:
        return dtypes.canonical_int()
    if dtypes.is_integer(d):
        least = dtypes.canonical_int()
        if dtypes.issubdtype(d, np.unsignedinteger):
            least = np.dtype(f"u{least.name}")
        return d if d.itemsize >= least.itemsize else least
    return d


def _reduce(call: str, prim: Any, a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any,
            unit: Any, op: Any, promote: bool = True) -> Any:
    """Sum-like reductions."""
    t = aval(call, a)
    d = t.dtype
    final = resolve_requested_dtype(dtype) if dtype is not None else sum_dtype(d) if promote else d
    if final == dtypes.BOOL:  # among truth values a sum is "or" and a product "and"
        prim, op = (_or, lax.bitwise_or) if prim is _sum else (_and, lax.bitwise_and)
    work = work_dtype(final)
    if d != work:
        a = cast(a, work)
    elif t.weak_type:
        a = cast(a, work)
    axes = axes_of(call, axis, len(t.shape))
    if where is not None:
        a = choose_by(where, a, literal(unit, work))
    out = equation(prim, a, axes=axes) if type(axes) is tuple else reduce_axes(prim, a, axes)
    if initial is not None:
        out = op(*pair(call, out, cast(initial, work)))
    if work != final:
        out = convert(out, final)
    return keep_axes(out, axes, keepdims)


@public_api("axis", "dtype", "out", "keepdims", "promote_integers", entries=SUM)
def sum(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
        initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
    """Sum along axes.

    Args: {a, axis, dtype, out, keepdims, initial, where, promote_integers}
    Returns:
      Array of the remaining axes, in the units of `a`; 0 (or `initial`) if there are no elements. Half
      precision is summed in float32 and rounded once.
    Raises: {TypeError, ShapeError, UnboundAxisError, NotImplementedError}

    Derivative: linear; the transpose repeats.
    Source: meaning of `numpy.sum`.

    >>> sum(np.array([1, 2, 3], dtype="int8"))
    Array(6, dtype=int32)
    >>> sum(np.ones((2, 3)), axis=1, keepdims=True)
    Array([[3.],
           [3.]], dtype=float32)
    """
    refuse_out("sum", out)
    return _reduce("sum", _sum, a, axis, dtype, keepdims, initial, where, 0, lax.add, promote_integers)


@public_api("axis", "dtype", "out", "keepdims", "promote_integers", entries=SUM)
def prod(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
         initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True) -> Array:
    """Product along axes.

    Args: {a, axis, dtype, out, keepdims, initial, where, promote_integers}
    Returns:
      Array of the remaining axes; 1 (or `initial`) if there are no elements. Half precision is multiplied in
      float32.
    Raises: {TypeError, ShapeError, UnboundAxisError, NotImplementedError}

    Derivative: exact where elements are zero, too.
    Source: meaning of `numpy.prod`.

    >>> prod(np.array([2., 3., 4.]))
    Array(24., dtype=float32)
    """
    refuse_out("prod", out)
    return _reduce("prod", _prod, a, axis, dtype, keepdims, initial, where, 1, lax.mul, promote_integers)


def _get_neutral(d: np.dtype, sign: int) -> Any:
    """The value that never wins: the lowest for max (sign -1), the highest for min (+1)."""
    if d == dtypes.BOOL:
        return literal(sign > 0, d)
    if dtypes.is_integer(d):
        info = dtypes.iinfo(d)
        return literal(int(info.min if sign < 0 else info.max), d)
    return literal(sign * np.inf, d)


def _reduce_extreme(call: str, prim: Any, op: Any, sign: int, a: Any, axis: Any, keepdims: bool, initial: Any,
                    where: Any) -> Any:
    t = aval(call, a)
    axes = axes_of(call, axis, len(t.shape))
    if initial is None and builtins.any(t.shape[i] == 0 for i in axes):
        raise ValueError(f"{call}: {t.str_long()} is empty along axes {axes}; pass initial=")
    if where is not None:
        if initial is None:
            raise ValueError(f"{call}: where= needs initial=, the result if no element is included")
        a = choose_by(where, a, _get_neutral(t.dtype, sign))
    a = cast(a, t.dtype) if t.weak_type else a
    out = equation(prim, a, axes=axes) if type(axes) is tuple else reduce_axes(prim, a, axes)
    if initial is not None:
        out = op(*pair(call, out, cast(initial, t.dtype)))
    return keep_axes(out, axes, keepdims)


class Extreme(Protocol):
    """The type of `max`, `min` and their variants that ignore NaN."""

    def __call__(self, a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False,
                 initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array: ...


def _make_extreme(name: str, prim: Primitive, op: Function, sign: int, size: str, example: str) -> Extreme:
    def extreme(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False,
                initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        refuse_out(name, out)
        return _reduce_extreme(name, prim, op, sign, a, axis, keepdims, initial, where)
    doc = f"""{size.capitalize()} element along axes; NaN if there is one.

    Args: {{a, axis, out, keepdims, initial, where}}
    Returns:
      Array of the remaining axes, dtype and units of `a`.
    Raises: {{ValueError, TypeError, ShapeError, UnboundAxisError, NotImplementedError}}

    Derivative: equal {size} elements share equally.
    Source: meaning of `numpy.{name}`.

    {example}
    """
    return public_api("axis", "out", "keepdims", name=name, doc=doc, entries=EXTREME)(extreme)


max = _make_extreme("max", _max, lax.max, -1, "largest",
                    ">>> max(np.array([[1, 5], [7, 2]]), axis=0)\n    Array([7, 5], dtype=int32)")
min = _make_extreme("min", _min, lax.min, 1, "smallest",
                    ">>> min(np.array([[1, 5], [7, 2]]), axis=0)\n    Array([1, 2], dtype=int32)")
amax, amin = max, min


class Quantifier(Protocol):
    """The type of `all` and `any`."""

    def __call__(self, a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False, *,
                 where: ArrayLike | None = None) -> Array: ...


def _make_quantifier(name: str, prim: Primitive, unit: bool, says: str, example: str) -> Quantifier:
    def op(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False, *,
           where: ArrayLike | None = None) -> Array:
        refuse_out(name, out)
        x = truth(name, a)
        axes = axes_of(name, axis, len(typeof(x).shape))
        if where is not None:
            x = choose_by(where, x, np.bool_(unit))
        return keep_axes(reduce_axes(prim, x, axes), axes, keepdims)
    doc = f"""{says}

    Args:
      a: array `[...]` of any dtype; NaN is true.
      {{axis, out, keepdims, where}}
    Returns:
      Boolean array of the remaining axes; {unit} if there are no elements.
    Raises: {{TypeError, ShapeError, UnboundAxisError, NotImplementedError}}

    Source: meaning of `numpy.{name}`.

    {example}
    """
    return public_api("axis", "out", "keepdims", name=name, doc=doc, entries=REDUCTION)(op)


all = _make_quantifier("all", _and, True, "Whether every element along axes is true (not zero).",
                       ">>> all(np.array([[True, False], [True, True]]), axis=1)\n    Array([False,  True], dtype=bool)")
any = _make_quantifier("any", _or, False, "Whether some element along axes is true (not zero).",
                       ">>> any(np.array([[0., 0.], [0., 2.]]), axis=1)\n    Array([False,  True], dtype=bool)")


@public_api("axis", "keepdims", entries=REDUCTION)
def count_nonzero(a: ArrayLike, axis: AxisLike = None, keepdims: bool = False) -> Array:
    """Number of elements along axes that are not zero.

    Args:
      a: array `[...]` of any dtype; NaN counts.
      {axis, keepdims}
    Returns:
      Integer array of the remaining axes, of the default integer dtype.
    Raises: {TypeError, ShapeError, UnboundAxisError}

    Source: meaning of `numpy.count_nonzero`.

    >>> count_nonzero(np.array([[0, 3], [5, 7]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    a = truth("count_nonzero", a)
    return _reduce("count_nonzero", _sum, a, axis, dtypes.canonical_int(), keepdims, None, None, 0, lax.add)


def fitted(call: str, where: Any, shape: tuple[int, ...]) -> Any:
    """`where` as booleans of this shape."""
    where = truth("where", where)
    own = typeof(where).shape
    if len(own) > len(shape) or builtins.any(n not in (1, d) for n, d in zip(reversed(own), reversed(shape))):
        raise ShapeError(f"{call}: where has shape {own}; expected one that broadcasts to that of the array, {shape}")
    return broadcast(where, own, shape)


@public_api("axis", "out", "keepdims", entries=REDUCTION)
def ptp(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False) -> Array:
    """Largest minus smallest element along axes.

    Args:
      a: number array `[...]`.
      {axis, out, keepdims}
    Returns:
      Array of the remaining axes, dtype and units of `a`; NaN if there is one.
    Raises:
      ValueError: there are no elements along the axes.
      {TypeError, ShapeError, UnboundAxisError, NotImplementedError}

    Source: meaning of `numpy.ptp`.

    >>> ptp(np.array([3., 1., 7.]))
    Array(6., dtype=float32)
    """
    refuse_out("ptp", out)
    highest = _reduce_extreme("ptp", _max, lax.max, -1, a, axis, keepdims, None, None)
    return lax.sub(highest, _reduce_extreme("ptp", _min, lax.min, 1, a, axis, keepdims, None, None))


# --- positions ------------------------------------------------------------------------------------------------------


def _find_position(call: str, place: Any, a: Any, axis: Any, keepdims: bool) -> Any:
    shape = aval(call, a).shape
    if type(axis) is not int and is_axis_name(axis):
        return place(a, axis, dtypes.canonical_int())
    if axis is None:
        ndim = len(shape)
        a, at = ravel(a), 0
        shape = typeof(a).shape
    else:
        ndim, at = 0, check_axis(call, axis, len(shape))
    if shape[at] == 0:
        raise ValueError(f"{call}: the axis must not be empty; got {typeof(a).str_long()}")
    out = place(a, at, dtypes.canonical_int())
    if not keepdims:
        return out
    return insert_axes(out, tuple(range(ndim)) if axis is None else (at,))


class Position(Protocol):
    """The type of `argmax`, `argmin` and their variants that ignore NaN."""

    def __call__(self, a: ArrayLike, axis: int | None = None, out: None = None,
                 keepdims: bool | None = None) -> Array: ...


def _make_position(name: str, place: Function, size: str, example: str) -> Position:
    def position(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        refuse_out(name, out)
        return _find_position(name, place, a, axis, bool(keepdims))
    doc = f"""Position of the {size} element along an axis.

    Args: {{a, axis, out, keepdims}}
    Returns: {{first}}
    Raises: {{ValueError, TypeError, ShapeError, UnboundAxisError, NotImplementedError}}

    Derivative: zero.
    Source: meaning of `numpy.{name}`.

    {example}
    """
    return public_api("axis", "out", "keepdims", name=name, doc=doc, entries=POSITION)(position)


argmax = _make_position("argmax", lax.argmax, "largest",
                        ">>> argmax(np.array([[1, 7, 7], [5, 2, 0]]), axis=1)\n    Array([1, 0], dtype=int32)")
argmin = _make_position("argmin", lax.argmin, "smallest",
                        ">>> argmin(np.array([[1, 7, 7], [5, 2, 0]]), axis=1)\n    Array([0, 2], dtype=int32)")


def _make_nan_position(of: Position, worst: float, size: str, example: str) -> Position:
    name = f"nan{of.__name__}"  # type: ignore[attr-defined]  # a function

    def position(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        refuse_out(name, out)
        d = aval(name, a).dtype
        if not dtypes.is_inexact(d):
            return of(a, axis, None, keepdims)
        missing = isnan(a)
        found = of(choose_by(missing, literal(worst, d), a), axis, None, keepdims)
        return choose_by(all(missing, axis, None, bool(keepdims)), literal(-1, typeof(found).dtype), found)
    doc = f"""Position of the {size} element along an axis, ignoring NaN.

    Args: {{a, axis, out, keepdims}}
    Returns: {{not_nan}}
    Raises: {{ValueError, TypeError, ShapeError, UnboundAxisError, NotImplementedError}}

    Source: meaning of `numpy.{name}`, which raises if all elements are NaN.

    {example}
    """
    return public_api("axis", "out", "keepdims", name=name, doc=doc, entries=POSITION)(position)


nanargmax = _make_nan_position(argmax, -np.inf, "largest",
                               ">>> nanargmax(np.array([np.nan, 1., 3.]))\n    Array(2, dtype=int32)")
nanargmin = _make_nan_position(argmin, np.inf, "smallest",
                               ">>> nanargmin(np.array([np.nan, 1., 3.]))\n    Array(1, dtype=int32)")
