"""Repeating each element; deleting from and inserting into an axis."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import Tracer, check_axis, typeof

from .._core.promotion import aval, broadcast, cast, literal
from .._core.public_api import jitted_core
from .._core.axes import insert_axes, split_at
from .._core.select import choose_by
from .._core.conversion import asarray, wrap_host_values
from .._shape.layout import moveaxis, ravel, reshape
from .._shape.joining import concatenate
from .._creation.creation import arange
from .._reductions.reductions import any as any_
from .._reductions.cumulative import cumsum
from .take import take
from .searching import searchsorted

__all__ = ["delete", "insert", "repeat", "trim_zeros"]


def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *,
           total_repeat_length: int | None = None) -> Array:
    """Each element repeated.

    Args:
      a: array `[..., n, ...]` of any dtype.
      repeats: how often, an int or `n` of them. Traced ones need `total_repeat_length`.
      axis: the axis of length `n`; negative counts from the end. None flattens `a` first.
      total_repeat_length: length of the result along the axis: what is too much is cut off, what is missing filled up
        with the last element. None for the sum of `repeats`.
    Returns:
      Array with the dtype and units of `a`.
    Raises:
      ValueError: `repeats` or `total_repeat_length` is negative, or `repeats` has another length than 1 and `n`.
      TypeError: `repeats` holds no integers, or `a` is neither an array nor a number.
      ConcretizationError: `repeats` is traced and `total_repeat_length` is None.
      ShapeError: `axis` is outside `[-a.ndim, a.ndim)`.

    Derivative: linear; the transpose adds up the repetitions.
    Source: meaning of `numpy.repeat`; `total_repeat_length` is an addition.

    >>> repeat(np.array([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int32)
    >>> repeat(np.array([1, 2]), np.array([1, 2]), total_repeat_length=4)
    Array([1, 2, 2, 2], dtype=int32)
    """
    if isinstance(repeats, (int, np.integer)) and total_repeat_length is None:
        if repeats < 0:
            raise ValueError(f"repeat: repeats must not be negative; got {repeats}")
        return _repeat(a, int(repeats), axis)
    if total_repeat_length is not None and total_repeat_length < 0:
        raise ValueError(f"repeat: total_repeat_length must not be negative; got {total_repeat_length}")
    a, repeats = asarray(a), asarray(repeats)
    if dtypes.is_inexact(typeof(repeats).dtype):
        raise TypeError(f"repeat: repeats must be integers; got {typeof(repeats).str_long()}")
    if axis is None:
        a, axis = ravel(a), 0
    axis = check_axis("repeat", axis, len(typeof(a).shape))
    n = typeof(a).shape[axis]
    if total_repeat_length is None:
        counts = np.broadcast_to(np.asarray(repeats), (n,))
        return take(a, wrap_host_values(np.repeat(np.arange(n), counts)), axis=axis)
    counts = cast(repeats, dtypes.canonical_int())  # their sum may be too large for a narrower dtype
    counts = broadcast(counts, typeof(counts).shape, (n,))
    at = searchsorted(cumsum(counts), arange(total_repeat_length), side="right")
    return take(a, at, axis=axis, mode="clip")


@jitted_core("repeats", "axis", name="repeat")
def _repeat(a: Any, repeats: int, axis: int | None) -> Any:
    if axis is None:
        a, axis = ravel(a), 0
    sizes = aval("repeat", a).shape
    at = check_axis("repeat", axis, len(sizes))
    wide = (*sizes[:at + 1], repeats, *sizes[at + 1:])
    out = lax.broadcast_in_dim(a, wide, tuple(i for i in range(len(wide)) if i != at + 1))
    return reshape(out, (*sizes[:at], sizes[at] * repeats, *sizes[at + 1:]))


def delete(arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """An array without the elements at some places along an axis.

    Args:
      arr: array or list `[..., n, ...]` of any dtype.
      obj: the places to leave out: an int, integers, a slice, or a mask of length `n`; negative ones count from the
        end. Known while tracing.
      axis: the axis of length `n`; negative counts from the end. None flattens `arr` first.
      assume_unique_indices: that no place is named twice, so that integers may be traced: as many elements go.
    Returns:
      Array with the dtype and units of `arr`.
    Raises:
      IndexError: a place is outside `[-n, n)`, or no integer.
      ValueError: a mask has another length.
      ConcretizationError: `obj` is traced, and not said to be of unique integers.
      ShapeError: `axis` is outside `[-arr.ndim, arr.ndim)`.

    Derivative: linear; the transpose puts zeros at the places left out.
    Source: meaning of `numpy.delete`.

    >>> delete(np.array([1, 2, 3]), 1)
    Array([1, 3], dtype=int32)
    """
    arr = asarray(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    n = typeof(arr).shape[check_axis("delete", axis, len(typeof(arr).shape))]
    if assume_unique_indices and isinstance(obj, Tracer) and dtypes.is_integer(typeof(obj).dtype):
        places: Any = ravel(asarray(obj))
        left = n - typeof(places).shape[0]
        if left < 0:
            raise IndexError(f"delete: obj must name at most {n} distinct positions; got {n - left}")
        places = choose_by(lax.lt(places, lax.full_like(places, 0)), places + n, places)
        gone = any_(arange(n, dtype=typeof(places).dtype)[:, None] == places[None], axis=1)
        kept = cumsum(cast(lax.bitwise_not(gone), dtypes.canonical_int()))  # so many up to each place
        return take(arr, searchsorted(kept, arange(1, left + 1)), axis=axis)
    obj = obj if isinstance(obj, (slice, int)) else np.asarray(obj)
    return take(arr, wrap_host_values(np.delete(np.arange(n), obj)), axis=axis)


def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """An array with values put between its elements along an axis.

    Args:
      arr: array or list `[..., n, ...]` of any dtype.
      obj: the positions before which they are inserted: an int, integers, a slice, or a mask of length `n`; negative ones count
        from the end. Integers may be traced, and those outside are then the nearest inside.
      values: what to put: one for each place, or as many as they are at one place; they broadcast, and become elements
        of the dtype of `arr`.
      axis: the axis of length `n`; negative counts from the end. None flattens `arr` first.
    Returns:
      Array with the dtype and units of `arr`.
    Raises:
      IndexError: a known place is outside `[-n, n]`.
      ShapeError: `values` does not fit, or `axis` is outside `[-arr.ndim, arr.ndim)`.
      TypeError: `obj` holds neither integers nor a mask of length `n`, or `arr` what is no number.
      ConcretizationError: `obj` is a traced mask.

    Derivative: linear in `arr` and `values`.
    Source: meaning of `numpy.insert`.

    >>> insert(np.array([1, 2, 3]), 1, 9)
    Array([1, 9, 2, 3], dtype=int32)
    >>> insert(np.array([1, 2, 3]), np.array([0, 3]), np.array([8, 9]))
    Array([8, 1, 2, 3, 9], dtype=int32)
    """
    arr = asarray(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    at = check_axis("insert", axis, len(typeof(arr).shape))
    n = typeof(arr).shape[at]
    obj = _resolve_places("insert", obj, n)
    sizes = typeof(arr).shape
    values = cast(asarray(values), typeof(arr).dtype)
    if math.prod(obj.shape) == 1:  # as many as `values` has: along its first axis for a number, along `axis` for a list of one
        values = insert_axes(values, tuple(range(len(sizes) - len(typeof(values).shape))))
        values = moveaxis(values, at, 0) if obj.shape else values
        count = typeof(values).shape[0]
        values = broadcast(values, typeof(values).shape, (count, *sizes[:at], *sizes[at + 1:]))
    else:
        count = math.prod(obj.shape)
        values = moveaxis(broadcast(values, typeof(values).shape, (*sizes[:at], count, *sizes[at + 1:])), at, 0)
    arr = moveaxis(arr, at, 0)
    if isinstance(obj, Tracer):
        places = _resolve_traced_places(obj, n, count)
        return moveaxis(take(concatenate([arr, values], 0), places, axis=0, mode="clip"), 0, at)
    places = np.insert(np.arange(n), obj if obj.size != 1 else int(obj.reshape(())), np.arange(n, n + count))
    return moveaxis(take(concatenate([arr, values], 0), wrap_host_values(places), axis=0), 0, at)


def _resolve_places(call: str, obj: Any, n: int) -> Any:
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
        raise TypeError(f"{call}: places must be integers, or a mask of length {n}; got {typeof(obj).str_long()}")
    if not isinstance(obj, Tracer) and (obj.min() < -n or obj.max() > n):
        raise IndexError(f"{call}: positions must be in [-{n}, {n}]; got {obj.tolist()}")
    return obj


def _resolve_traced_places(obj: Any, n: int, count: int) -> Any:
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
    """An array without the zeros at its ends.

    Args:
      filt: array or list, of any number of axes; known, as its values decide the shape of the result.
      trim: which ends: "f" the front, "b" the back, "fb" both; in capitals too.
    Returns:
      Array with the dtype and units of `filt`: the part up to the first and last element of each axis that is not
      zero; without elements where all are.
    Raises:
      ValueError: `trim` has another letter.
      ConcretizationError: `filt` is traced.
      TypeError: `filt` holds what is no number.

    Source: meaning of `numpy.trim_zeros`, for all axes.

    >>> trim_zeros(np.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    out: Any = asarray(filt)
    ends = trim.lower()
    if not set(ends) <= {"f", "b"}:
        raise ValueError(f"trim_zeros: trim must consist of 'f' and 'b'; got {trim!r}")
    for axis, at in enumerate(np.nonzero(np.atleast_1d(np.asarray(out)))[:len(typeof(out).shape)]):
        n = typeof(out).shape[axis]
        lo, hi = (int(at.min()), int(at.max()) + 1) if at.size else (n, 0)
        out = split_at(out, [lo if "f" in ends else 0, hi if "b" in ends else n], axis)[1]
    return out
