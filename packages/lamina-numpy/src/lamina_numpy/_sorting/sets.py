"""Arrays as sets. The number of results depends on the values, so traced arrays need `size=`."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import check_axis, get_concrete_value, Tracer, typeof

from .._core.promotion import aval, cast, literal, pair, promote_all
from .._core.public_api import jitted_core, public_api
from .._core.select import choose_by
from .._core.conversion import asarray, put
from .._elementwise.logic import logical_and
from .._shape.layout import moveaxis, ravel, reshape
from .._shape.joining import concatenate
from .._creation.creation import full, zeros
from .._reductions.cumulative import cumsum
from .._indexing.take import take
from .._indexing.searching import searchsorted
from .._indexing.selection import compress
from .sorting import argsort, sort

__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
           "unique_inverse", "unique_values"]

_SETS = docstring_entries("""
    x: array of any dtype; every NaN is a value of its own.
    assume_unique: whether the elements of each array are known to differ, which saves work if `size` is None.
    size: length of the result, required if arrays are traced; a longer result is truncated. None for the full length.
    fill_value: padding of a result shorter than `size`; None for the first element of the result.
    ConcretizationError: an array is traced and `size` is None.
    ValueError: `x` has no elements, and `size` needs a `fill_value`.
    TypeError: `x` is neither an array nor a number.
    """)


def _known(call: str, x: Any) -> np.ndarray:
    known = get_concrete_value(x) if call == "unique" else None if isinstance(x, Tracer) else x  # the others give no tangents
    if known is None:
        raise ConcretizationError(f"{call}: how many elements the result has depends on the values of a traced "
                                  f"{x.aval.str_long()}; give size=")
    return np.asarray(known)


@fill_docstring(_SETS)
def unique(ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, size: int | None = None,
           fill_value: ArrayLike | None = None, sorted: bool = True) -> Any:
    """The different elements, or slices, sorted.

    Args:
      ar: array of any dtype, or a list.
      return_index: give the first position of each too.
      return_inverse: give the place of every element of `ar` among them too.
      return_counts: give how often each occurs too.
      axis: compare slices along this axis, negative counts from the end; None compares elements.
      equal_nan: whether NaN counts once.
      {size, fill_value}
      sorted: of no effect: the result always is.
    Returns:
      Array `[size]` of the dtype and units of `ar`, or that of its slices; or a tuple of it and what else is asked
      for, in this order, of the default integer: `[size]`, the shape of `ar` (the length of `axis`), `[size]`.
      Fillings have the first one's position and the count 0.
    Raises:
      ConcretizationError: an array is traced and `size` is None.
      ValueError: `ar` has no elements, and `size` needs a `fill_value`.
      ShapeError: `axis` names an axis that `ar` does not have, or `size` is negative.
      TypeError: `ar` is neither an array nor a number.

    Source: meaning of `numpy.unique`.

    >>> unique(asarray([3, 1, 1]))
    Array([1, 3], dtype=int32)
    >>> unique(asarray([3, 1, 1]), return_counts=True, size=3, fill_value=0)
    (Array([1, 3, 0], dtype=int32), Array([2, 1, 0], dtype=int32))
    """
    ar = asarray(ar)
    if axis is not None:
        check_axis("unique", axis, len(typeof(ar).shape))
    if size is None:
        known = _known("unique", ar)
        if known.dtype.kind == "V":  # small floats: NumPy does not know their NaN; float32 holds them all
            known = known.astype(np.float32 if dtypes.is_float(known.dtype) else np.int32)
        found = np.unique(known, True, True, True, axis=axis, equal_nan=equal_nan)
        d = dtypes.canonical_int()
        inverse = found[2].reshape(known.shape if axis is None else -1)
        values = put(found[0], typeof(ar).dtype) if not isinstance(ar, Tracer) else \
            take(ravel(ar) if axis is None else ar, found[1], 0 if axis is None else axis)  # the tangents of the first of each
        parts = [values, put(found[1], d), put(inverse, d), put(found[3], d)]
    else:
        parts = list(_unique(ar, fill_value, axis=axis, equal_nan=equal_nan, size=size))
    picked = [parts[0], *(p for p, on in zip(parts[1:], (return_index, return_inverse, return_counts)) if on)]
    return picked[0] if len(picked) == 1 else tuple(picked)


def _unique_of_nothing(ar: Any, fill_value: Any, axis: int | None, size: int) -> tuple[Any, ...]:
    """Nothing is unique among no elements: the result is all filling."""
    if fill_value is None and size:
        raise ValueError(f"unique: size={size} of {ar.str_long()}, which has no elements, needs a fill_value")
    shape = list(ar.shape)
    if axis is None:
        shape = [size]
    else:
        shape[axis] = size
    d = dtypes.canonical_int()
    values = full(shape, cast(0 if fill_value is None else fill_value, ar.dtype))
    return values, zeros(size, d), zeros(ar.shape if axis is None else 0, d), zeros(size, d)


@jitted_core("axis", "equal_nan", "size", name="unique")
def _unique(ar: Any, fill_value: Any, axis: int | None, equal_nan: bool, size: int) -> tuple[Any, ...]:
    shape = typeof(ar).shape
    if axis is None:
        rows = reshape(ar, (-1, 1))
        tail: tuple[int, ...] = ()
    else:
        rows = moveaxis(ar, check_axis("unique", axis, len(shape)), 0)
        tail = typeof(rows).shape[1:]
        rows = reshape(rows, (typeof(rows).shape[0], -1))
    n, width = typeof(rows).shape
    d = dtypes.canonical_int()
    if not n:
        return _unique_of_nothing(typeof(ar), fill_value, axis, size)
    # Rows sorted by all their columns, with their places. starts: rows that differ from the one before; group: the number of
    # the distinct row each belongs to. slots: the `size` distinct rows asked for, of which `good` ones exist.
    places = lax.broadcasted_iota(d, (n,), 0)
    columns = [lax.squeeze(lax.slice(rows, (0, i), (n, i + 1)), (1,)) for i in range(width)]
    *keys, order = lax.sort([*columns, places], 0, num_keys=max(width, 1))
    new: Any = None
    for k in keys:
        before, after = k[:-1], k[1:]
        differ = lax.ne(before, after)
        if equal_nan and dtypes.is_inexact(typeof(k).dtype):
            both = lax.bitwise_and(lax.ne(before, before), lax.ne(after, after))
            differ = lax.bitwise_and(differ, lax.bitwise_not(both))
        new = differ if new is None else lax.bitwise_or(new, differ)
    starts = lax.pad(new, np.True_, ((1, 0, 0),)) if n else new
    group = cumsum(cast(starts, d)) - 1
    total = group[-1] + 1
    slots = lax.broadcasted_iota(d, (size,), 0)
    first = searchsorted(group, slots, side="left")
    last = searchsorted(group, slots, side="right")
    good = lax.lt(slots, total)
    at = take(order, first, 0, mode="clip")
    values = take(rows, choose_by(good, at, take(order, literal(0, d), 0, mode="clip")), 0, mode="clip")
    if fill_value is not None:
        values = choose_by(reshape(good, (size, 1)), values, cast(fill_value, typeof(values).dtype))
    values = reshape(values, (size, *tail))
    if axis is not None:
        values = moveaxis(values, 0, check_axis("unique", axis, len(shape)))
    index = choose_by(good, at, order[0])
    back = lax.sort([order, group], 0)[1]  # groups in the order of the rows as they came
    inverse = reshape(back, shape) if axis is None else back
    return values, index, inverse, choose_by(good, last - first, literal(0, d))


class UniqueAll(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    values: Any
    inverse_indices: Any


@fill_docstring(_SETS)
def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueAll:
    """The different elements, sorted, with their positions, inverse and counts.

    Args: {x, size, fill_value}
    Returns:
      `UniqueAll(values, indices, inverse_indices, counts)`: values of the dtype and units of `x`; the first
      position of each, the place of every element of `x` among them, in its shape, and how often each occurs, of
      the default integer.
    Raises: {ConcretizationError, ValueError, TypeError}

    Source: meaning of `numpy.unique_all`, of the array API.

    >>> unique_all(asarray([3, 1, 1])).inverse_indices
    Array([1, 0, 0], dtype=int32)
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


@fill_docstring(_SETS)
def unique_counts(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueCounts:
    """The different elements, sorted, with their counts.

    Args: {x, size, fill_value}
    Returns:
      `UniqueCounts(values, counts)`: values of the dtype and units of `x`, and how often each occurs, of the
      default integer.
    Raises: {ConcretizationError, ValueError, TypeError}

    Source: meaning of `numpy.unique_counts`, of the array API.

    >>> unique_counts(asarray([3, 1, 1]))
    UniqueCounts(values=Array([1, 3], dtype=int32), counts=Array([2, 1], dtype=int32))
    """
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


@fill_docstring(_SETS)
def unique_inverse(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> UniqueInverse:
    """The different elements, sorted, with the place of every element among them.

    Args: {x, size, fill_value}
    Returns:
      `UniqueInverse(values, inverse_indices)`: values of the dtype and units of `x`, and places of the default
      integer, in the shape of `x`.
    Raises: {ConcretizationError, ValueError, TypeError}

    Source: meaning of `numpy.unique_inverse`, of the array API.

    >>> unique_inverse(asarray([3, 1, 1]))
    UniqueInverse(values=Array([1, 3], dtype=int32), inverse_indices=Array([1, 0, 0], dtype=int32))
    """
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


@fill_docstring(_SETS)
def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The different elements, sorted.

    Args: {x, size, fill_value}
    Returns:
      Array `[size]` of the dtype and units of `x`.
    Raises: {ConcretizationError, ValueError, TypeError}

    Source: meaning of `numpy.unique_values`, of the array API, always sorted.

    >>> unique_values(asarray([3, 1, 1]))
    Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


@public_api("assume_unique", "invert", "method")
def isin(element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
         method: str = "auto") -> Array:
    """Whether each element is among `test_elements`.

    Args:
      element: array of any dtype.
      test_elements: array of any dtype and shape; NaN equals nothing.
      assume_unique: of no effect.
      invert: give whether it is not.
      method: of no effect.
    Returns:
      Boolean array of the shape of `element`; compared in the dtype that both promote to.
    Raises:
      TypeError: `element` or `test_elements` is neither an array nor a number.

    Source: meaning of `numpy.isin`; by sorting `test_elements`.

    >>> isin(np.array([1, 2, 3]), np.array([3, 1]))
    Array([ True, False,  True], dtype=bool)
    """
    element, test = (asarray(v) if isinstance(v, (list, tuple)) else v for v in (element, test_elements))
    x, test = promote_all("isin", [element, test])
    test = ravel(test)
    n = typeof(test).shape[0]
    if n == 0:
        found = lax.broadcast_in_dim(np.False_, aval("isin", x).shape, ())
    elif dtypes.is_key(typeof(test).dtype):  # which have no order
        same = lax.eq(*pair("isin", reshape(x, (*aval("isin", x).shape, 1)), test))
        found = lax.reduce_or(same, (typeof(same).ndim - 1,))
    else:
        if typeof(test).dtype == dtypes.BOOL:
            x, test = cast(x, np.dtype("int32")), cast(test, np.dtype("int32"))
        test = sort(test)
        near = take(test, searchsorted(test, x), 0, mode="clip")
        found = lax.eq(near, x)
    return lax.bitwise_not(found) if invert else found


def _flat(call: str, *xs: Any) -> list[Any]:
    return promote_all(call, [ravel(asarray(x)) for x in xs])


@fill_docstring(_SETS)
def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The different elements of both arrays, sorted.

    Args:
      ar1, ar2: arrays of any dtype, or lists, taken as flat. NaN counts once.
      {size, fill_value}
    Returns:
      Array `[size]`, in the dtype that both promote to.
    Raises:
      ConcretizationError: an array is traced and `size` is None.
      ValueError: there are no elements, and `size` needs a `fill_value`.
      TypeError: `ar1` or `ar2` is neither an array nor a number.

    Source: meaning of `numpy.union1d`.

    >>> union1d(np.array([3, 1]), np.array([1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    return unique(concatenate(_flat("union1d", ar1, ar2)), size=size, fill_value=fill_value)


def _select(values: Any, keep: Any, size: int | None, fill_value: Any) -> Any:
    if size is None:
        return compress(keep, values)
    if not typeof(values).shape[0]:
        return full((size,), 0 if fill_value is None else fill_value, typeof(values).dtype)
    return compress(keep, values, size=size, fill_value=0 if fill_value is None else fill_value)


@fill_docstring(_SETS)
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
              fill_value: ArrayLike | None = None) -> Array:
    """The different elements of the first array that are not in the second, sorted.

    Args:
      ar1, ar2: arrays of any dtype, or lists, taken as flat. NaN equals nothing and counts once.
      assume_unique: whether each array's elements differ already, which saves work where `size` is None and keeps
        the order of `ar1`.
      {size}
      fill_value: what fills up to `size`; None for 0.
    Returns:
      Array `[size]`, in the dtype of `ar1`.
    Raises:
      ConcretizationError: an array is traced and `size` is None.
      TypeError: `ar1` or `ar2` is neither an array nor a number.

    Source: meaning of `numpy.setdiff1d`.

    >>> setdiff1d(np.array([3, 1, 2]), np.array([1, 5]))
    Array([2, 3], dtype=int32)
    """
    own = ravel(asarray(ar1))  # its elements, whatever both are rounded to where they are compared
    x, y = _flat("setdiff1d", ar1, ar2)
    if size is None:
        kept = np.asarray(_known("setdiff1d", own))[~np.isin(_known("setdiff1d", x), _known("setdiff1d", y))]
        return put(kept if assume_unique else np.unique(kept), typeof(own).dtype)
    values, first = _distinct(own)
    return _select(values, logical_and(first, isin(values, y, invert=True)), size, fill_value)


def _distinct(x: Any) -> tuple[Any, Any]:
    """(sorted values, which of them are the first of their kind)."""
    values = sort(x)
    if not typeof(x).shape[0]:
        return values, np.zeros(0, np.bool_)
    before, after = values[:-1], values[1:]
    differ = lax.ne(before, after)
    if dtypes.is_inexact(typeof(x).dtype):  # NaN comes last, and once
        differ = logical_and(differ, lax.eq(before, before))
    return values, lax.pad(differ, np.True_, ((1, 0, 0),))


@fill_docstring(_SETS)
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
             fill_value: ArrayLike | None = None) -> Array:
    """The different elements that are in exactly one of the arrays, sorted.

    Args:
      ar1, ar2: arrays of any dtype, or lists, taken as flat. NaN counts once for each array, but not where `size`
        is given.
      {assume_unique, size}
      fill_value: what fills up to `size`; None for 0.
    Returns:
      Array `[size]`, in the dtype that both promote to.
    Raises:
      ConcretizationError: an array is traced and `size` is None.
      TypeError: `ar1` or `ar2` is neither an array nor a number.

    Source: meaning of `numpy.setxor1d`.

    >>> setxor1d(np.array([3, 1, 2]), np.array([1, 5]))
    Array([2, 3, 5], dtype=int32)
    """
    x, y = _flat("setxor1d", ar1, ar2)
    if size is None:
        return put(np.setxor1d(_known("setxor1d", x), _known("setxor1d", y), assume_unique), typeof(x).dtype)
    values, first = _distinct(concatenate([x, y]))
    once = lax.bitwise_xor(isin(values, x), isin(values, y))
    return _select(values, logical_and(first, once), size, fill_value)


@fill_docstring(_SETS)
def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
                size: int | None = None, fill_value: ArrayLike | None = None) -> Any:
    """The different elements that are in both arrays, sorted.

    Args:
      ar1, ar2: arrays of any dtype, or lists, taken as flat. NaN equals nothing.
      assume_unique: whether each array's elements differ already, which saves work where `size` is None.
      return_indices: give the first position of each in both arrays too.
      {size}
      fill_value: what fills up to `size`; None for 0.
    Returns:
      Array `[size]`, in the dtype that both promote to; with `return_indices` a tuple of it and two arrays `[size]`
      of the default integer, positions in the flat arrays, without meaning for fillings.
    Raises:
      ConcretizationError: an array is traced and `size` is None.
      TypeError: `ar1` or `ar2` is neither an array nor a number.

    Source: meaning of `numpy.intersect1d`.

    >>> intersect1d(np.array([3, 1, 2]), np.array([1, 3]), return_indices=True)
    (Array([1, 3], dtype=int32), Array([1, 0], dtype=int32), Array([0, 1], dtype=int32))
    """
    x, y = _flat("intersect1d", ar1, ar2)
    d = typeof(x).dtype
    if size is None:
        found = np.intersect1d(_known("intersect1d", x), _known("intersect1d", y), assume_unique, True)
        parts = (put(found[0], d), put(found[1], dtypes.canonical_int()), put(found[2], dtypes.canonical_int()))
        return parts if return_indices else parts[0]
    values, first = _distinct(x)
    picked = _select(values, logical_and(first, isin(values, y)), size, fill_value)
    if not return_indices:
        return picked
    found_at = []
    for v in (x, y):
        if not typeof(v).shape[0]:
            found_at.append(zeros((size,), dtypes.canonical_int()))
            continue
        order = argsort(v)
        found_at.append(take(order, searchsorted(take(v, order, 0), picked), 0, mode="clip"))
    return picked, *found_at
