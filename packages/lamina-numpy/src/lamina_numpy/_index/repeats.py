"""Repeating each element; deleting from and inserting into an axis."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import Tracer, check_axis, typeof

from .._ground.promotion import aval, broadcast, cast, literal
from .._ground.publishing import core
from .._ground.axes import split_at, with_axes
from .._ground.choosing import choose_by
from .._ground.conversion import asarray
from .._shape.layout import moveaxis, ravel, reshape
from .._shape.joining import concatenate
from .._make.creation import arange
from .._reduce.running import cumsum
from .taking import take
from .searching import searchsorted

__all__ = ["delete", "insert", "repeat", "trim_zeros"]


def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *,
           total_repeat_length: int | None = None) -> Array:
    """Each element repeated, `repeats` times or each its own number of times.

    Args:
      a: array.
      repeats: an int, or one int per element of the axis. Traced repeats need `total_repeat_length`.
      axis: along which; None flattens first.
      total_repeat_length: length of the result; it is cut, or filled with the last element, to fit.

    >>> repeat(asarray([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    if isinstance(repeats, (int, np.integer)) and total_repeat_length is None:
        if repeats < 0:
            raise ValueError(f"repeat: repeats must not be negative; got {repeats}")
        return _repeat(a, int(repeats), axis)
    if total_repeat_length is not None and total_repeat_length < 0:
        raise ValueError(f"repeat: total_repeat_length must not be negative; got {total_repeat_length}")
    a, repeats = asarray(a), asarray(repeats)
    if dtypes.is_inexact(typeof(repeats).dtype):
        raise TypeError(f"repeat: repeats must be integers; got {typeof(repeats).long()}")
    if axis is None:
        a, axis = ravel(a), 0
    axis = check_axis("repeat", axis, len(typeof(a).shape))
    n = typeof(a).shape[axis]
    if total_repeat_length is None:
        counts = np.broadcast_to(np.asarray(repeats), (n,))
        return take(a, np.repeat(np.arange(n), counts), axis=axis)
    counts = cast(repeats, dtypes.canonical_int())  # their sum may be too large for a narrower dtype
    counts = broadcast(counts, typeof(counts).shape, (n,))
    at = searchsorted(cumsum(counts), arange(total_repeat_length), side="right")
    return take(a, at, axis=axis, mode="clip")


@core("repeats", "axis", name="repeat")
def _repeat(a: Any, repeats: int, axis: int | None) -> Any:
    if axis is None:
        a, axis = ravel(a), 0
    sizes = aval("repeat", a).shape
    at = check_axis("repeat", axis, len(sizes))
    wide = (*sizes[:at + 1], repeats, *sizes[at + 1:])
    out = lax.broadcast_in_dim(a, wide, tuple(i for i in range(len(wide)) if i != at + 1))
    return reshape(out, (*sizes[:at], sizes[at] * repeats, *sizes[at + 1:]))


def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Array:
    """`arr` without the elements at the (concrete) places `obj` along an axis."""
    arr = asarray(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    n = typeof(arr).shape[check_axis("delete", axis, len(typeof(arr).shape))]
    obj = obj if isinstance(obj, (slice, int)) else np.asarray(obj)
    return take(arr, np.delete(np.arange(n), obj), axis=axis)


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` put before the places `obj` along an axis; places may be traced."""
    arr = asarray(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    at = check_axis("insert", axis, len(typeof(arr).shape))
    n = typeof(arr).shape[at]
    obj = _places("insert", obj, n)
    sizes = typeof(arr).shape
    values = cast(asarray(values), typeof(arr).dtype)
    if math.prod(obj.shape) == 1:  # as many as `values` has: along its first axis for a number, along `axis` for a list of one
        values = with_axes(values, tuple(range(len(sizes) - len(typeof(values).shape))))
        values = moveaxis(values, at, 0) if obj.shape else values
        count = typeof(values).shape[0]
        values = broadcast(values, typeof(values).shape, (count, *sizes[:at], *sizes[at + 1:]))
    else:
        count = math.prod(obj.shape)
        values = moveaxis(broadcast(values, typeof(values).shape, (*sizes[:at], count, *sizes[at + 1:])), at, 0)
    arr = moveaxis(arr, at, 0)
    if isinstance(obj, Tracer):
        places = _traced_places(obj, n, count)
        return moveaxis(take(concatenate([arr, values], 0), places, axis=0, mode="clip"), 0, at)
    places = np.insert(np.arange(n), obj if obj.size != 1 else int(obj.reshape(())), np.arange(n, n + count))
    return moveaxis(take(concatenate([arr, values], 0), places, axis=0), 0, at)


def _places(call: str, obj: Any, n: int) -> Any:
    """The places, as integers, that an integer, an array of them, a slice or a mask names along an axis of length n."""
    if isinstance(obj, slice):
        return np.arange(n)[obj]
    obj = obj if isinstance(obj, Tracer) else np.asarray(obj)
    if obj.dtype == dtypes.BOOL and obj.shape == (n,):
        if isinstance(obj, Tracer):
            raise ConcretizationError(f"{call}: the number of places of a traced mask is not known; give integers")
        return np.flatnonzero(obj)
    if not obj.size:
        return np.zeros(obj.shape, np.int64)
    if obj.dtype.kind not in "iu":
        raise TypeError(f"{call}: places are integers, or a mask of length {n}; got {typeof(obj).long()}")
    return obj


def _traced_places(obj: Any, n: int, count: int) -> Any:
    """Where the elements of `insert`'s result come from among n old and, behind them, `count` new ones."""
    d = dtypes.canonical_int()
    obj = cast(obj, d)
    obj = lax.clamp(0, choose_by(lax.lt(obj, literal(0, d)), lax.add(obj, literal(n, d)), obj), n)
    before = broadcast(obj, typeof(obj).shape, (count,))
    before, order = lax.sort([before, lax.iota(d, count)], 0)
    new = lax.add(before, lax.iota(d, count))  # rising: where each new one lands
    k = lax.iota(d, n + count)
    earlier = searchsorted(new, k, side="left")
    which = lax.min(earlier, literal(max(count - 1, 0), d))
    lands = lax.eq(take(new, which, axis=0, mode="clip"), k)
    return choose_by(lands, lax.add(take(order, which, axis=0, mode="clip"), literal(n, d)), lax.sub(k, earlier))


def trim_zeros(filt: ArrayLike, trim: str = "fb") -> Array:
    """A concrete one-dimensional array without leading ("f") and trailing ("b") zeros."""
    filt = asarray(filt)
    ends = trim.lower()
    if not set(ends) <= {"f", "b"}:
        raise ValueError(f"trim_zeros: trim is made of 'f' and 'b'; got {trim!r}")
    for axis, at in enumerate(np.nonzero(np.atleast_1d(np.asarray(filt)))[:len(typeof(filt).shape)]):
        n = typeof(filt).shape[axis]
        lo, hi = (int(at.min()), int(at.max()) + 1) if at.size else (n, 0)
        filt = split_at(filt, [lo if "f" in ends else 0, hi if "b" in ends else n], axis)[1]
    return filt
