"""Evenly spaced numbers."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries
from lamina_tracing import Array, ArrayLike, DTypeLike, lax
from lamina_tracing.extend import check_axis, rename_errors, check_no_axis_name, typeof, resolve_requested_dtype

from .._core.promotion import alike, aval, broadcast, cast, fixed, literal, pair, work_dtype
from .._core.public_api import check_known, compiled, public_api, make_static_hashable
from .._core.axes import with_axes
from .._core.select import choose_by
from .._core.conversion import asarray, to_device
from .._elementwise.ufuncs import exp, log, sign
from .._elementwise.powers import power
from .._shape.layout import moveaxis

__all__ = ["geomspace", "linspace", "logspace"]

_RANGE = docstring_entries("""
    num: number of elements.
    endpoint: whether the last element is `stop`; if not, `stop` is left out.
    dtype: element type of the result; None for that of the bounds, float for integers.
    axis: position of the new axis in the result; negative counts from its end.
    ValueError: `num` is negative.
    TypeError: `num` is not an integer, or a bound is neither an array nor a number.
    ShapeError: the bounds do not broadcast, or the result does not have `axis`.
    """)


def _range_dtype(call: str, dtype: Any, *xs: Any) -> tuple[np.dtype, np.dtype]:
    """(dtype to compute in, dtype of the result) of a range between arrays; half precision in float32."""
    pairs = [(a.dtype, a.weak_type) for a in (aval(call, x, i) for i, x in enumerate(xs))]
    d = dtypes.inexact_dtype_for(dtypes.promote(*pairs)[0])
    return work_dtype(d), d if dtype is None else resolve_requested_dtype(dtype)


def _on_device(plain: Any) -> Any:
    """`linspace` as it is shown: a device is no part of the program."""
    to = rename_errors(to_device, plain.__name__)

    def call(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        args, kwargs = make_static_hashable(plain, args, kwargs)
        try:
            out = compiled(plain)(*args, **kwargs)
        except ValueError:
            check_known(plain, args, kwargs)
            raise
        if device is None:
            return out
        return (to(out[0], device), out[1]) if isinstance(out, tuple) else to(out, device)
    return call


@public_api("num", "endpoint", "retstep", "dtype", "axis", wrap=_on_device, entries=_RANGE)
def linspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: DTypeLike | None = None, axis: int = 0, *, device: Any = None) -> Any:
    """Numbers with equal distances from one bound to the other.

    Args:
      start, stop: the bounds: numbers, arrays or lists that broadcast; may be traced.
      {num, endpoint}
      retstep: whether the distance is wanted too.
      dtype: element type of the result; integers are rounded down; None for that of the bounds, float for integers.
      axis: position of the new axis in the result; negative counts from its end.
      device: a device or sharding to put the result on; None leaves that open.
    Returns:
      Array of the common shape and a new axis of length `num`, in the units of the bounds; with `retstep` a pair, the
      distance second: NaN where there is none.
    Raises: {ValueError, TypeError, ShapeError}

    Derivative: linear in the bounds.
    Source: meaning of `numpy.linspace`.

    >>> linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    >>> linspace(0, 1, 4, endpoint=False, retstep=True)
    (Array([0.  , 0.25, 0.5 , 0.75], dtype=float32), Array(0.25, dtype=float32))
    """
    check_no_axis_name("linspace", "axis", axis)
    if not hasattr(num, "__index__"):
        raise TypeError(f"linspace: num must be an integer; got {num!r}")
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace: num must not be negative; got {num}")
    start, stop = (asarray(v) if isinstance(v, (list, tuple)) else v for v in (start, stop))
    d, final = _range_dtype("linspace", dtype, start, stop)
    start, stop = alike("linspace", [cast(start, d), cast(stop, d)])
    shape = typeof(start).shape
    parts = num - 1 if endpoint else num
    gap = lax.sub(stop, start)
    step = lax.div(gap, literal(parts, d)) if parts > 0 else lax.mul(gap, literal(np.nan, d))
    whole = (num, *shape)
    if num == 0:
        out = lax.broadcast_in_dim(fixed(0, d), whole, ())
    elif parts == 0:
        out = broadcast(start, shape, whole)
    else:
        count = parts if endpoint else num
        ramp = lax.div(lax.broadcasted_iota(dtypes.real_dtype(d), (count,), 0), literal(parts, dtypes.real_dtype(d)))
        ramp, first, last = cast(ramp, d), start, stop
        if shape:
            ramp = lax.broadcast_in_dim(ramp, (count, *shape), (0,))
            first, last = broadcast(start, shape, (count, *shape)), broadcast(stop, shape, (count, *shape))
        out = lax.add(lax.mul(first, lax.sub(literal(1, d), ramp)), lax.mul(last, ramp))
        if endpoint:  # exactly `stop`
            out = lax.concatenate([out, broadcast(stop, shape, (1, *shape))], 0)
    if dtypes.is_integer(final) and not dtypes.is_integer(d):
        out = lax.floor(out)
    out = cast(moveaxis(out, 0, axis) if axis != 0 else out, final)
    return (out, cast(step, final) if dtypes.is_inexact(final) else step) if retstep else out


@public_api("num", "endpoint", "dtype", "axis", entries=_RANGE)
def logspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
             dtype: DTypeLike | None = None, axis: int = 0) -> Array:
    """Powers of a base, whose exponents have equal distances.

    Args:
      start, stop: the exponents at the bounds: numbers or arrays that broadcast; may be traced.
      {num, endpoint}
      base: a number, or an array that broadcasts with the exponents; may be traced.
      {dtype, axis}
    Returns:
      Array of the common shape and a new axis of length `num`.
    Raises:
      ValueError: `num` is negative.
      TypeError: `num` is no integer, or an exponent or `base` neither an array nor a number.
      ShapeError: exponents and base do not broadcast, or the result does not have `axis`.

    Source: meaning of `numpy.logspace`.

    >>> logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    check_no_axis_name("logspace", "axis", axis)
    plain = isinstance(base, (int, float))  # a plain number follows the bounds
    d, final = _range_dtype("logspace", dtype, start, stop, *(() if plain else (base,)))
    if aval("logspace", base, 4).shape:
        base, start, stop = alike("logspace", [cast(x, d) for x in (base, start, stop)])
        base = with_axes(base, (check_axis("logspace", axis, len(typeof(base).shape) + 1),))
    return cast(power(cast(base, d), linspace(start, stop, num, endpoint, False, d, axis)), final)


@public_api("num", "endpoint", "dtype", "axis", entries=_RANGE)
def geomspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None,
              axis: int = 0) -> Array:
    """Numbers with equal ratios from one bound to the other.

    Args:
      start, stop: the bounds: numbers or arrays that broadcast, of one sign and not 0, or complex; may be traced.
      {num, endpoint, dtype, axis}
    Returns:
      Array of the common shape and a new axis of length `num`, in the units of the bounds; the bounds themselves up to
      rounding. NaN between real bounds of different signs, or where one is 0.
    Raises: {ValueError, TypeError, ShapeError}

    Source: meaning of `numpy.geomspace`, which refuses a bound of 0.

    >>> geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    check_no_axis_name("geomspace", "axis", axis)
    d, final = _range_dtype("geomspace", dtype, start, stop)
    start, stop = cast(start, d), cast(stop, d)
    if dtypes.is_complex(d):
        ratio = log(lax.div(stop, start))
        ramp = linspace(literal(0, d), ratio, num, endpoint, False, d, 0)
        out = lax.mul(*_common(start, exp(ramp)))
    else:
        turn = sign(start)
        # no ratio leads from or to 0; its logarithm would leave zeros behind
        first, last = (choose_by(lax.eq(x, literal(0, d)), literal(np.nan, d), log(x)) for x in (start * turn, stop * turn))
        out = exp(linspace(first, last, num, endpoint, False, d, 0))
        out = lax.mul(*_common(turn, out))
    return cast(moveaxis(out, 0, axis) if axis != 0 else out, final)


def _common(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the bounds in one shape, with a new first axis."""
    shape, rank = typeof(x).shape, len(typeof(y).shape)
    return pair("geomspace", lax.reshape(x, (*[1] * (rank - len(shape)), *shape)) if shape else x, y)
