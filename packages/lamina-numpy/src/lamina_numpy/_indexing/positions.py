"""Positions: of true elements, of rows and columns, in a grid as one number and as one per axis."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ConcretizationError, dtypes
from lamina_tracing import Array, ArrayLike, lax, ShapeLike
from lamina_tracing.extend import as_int, get_concrete_value, typeof

from .._core.promotion import aval, broadcast, cast, literal
from .._core.public_api import jitted_core, public_api
from .._core.axes import as_shape
from .._core.select import choose_by, truth
from .._core.conversion import asarray, put
from .._elementwise.ufuncs import clip
from .._elementwise.division import floor_divide, remainder
from .._shape.layout import atleast_1d, ravel
from .._shape.joining import stack
from .._reductions.reductions import sum as total
from .._reductions.cumulative import cumsum
from .searching import searchsorted

__all__ = ["argwhere", "flatnonzero", "ix_", "nonzero", "ravel_multi_index", "unravel_index"]

_I32 = np.dtype("int32")


def nonzero(a: ArrayLike, *, size: int | None = None,
            fill_value: ArrayLike | Sequence[ArrayLike] | None = None) -> tuple[Array, ...]:
    """The indices of the elements that are not zero.

    Args:
      a: array of at least one axis, or a list of numbers; NaN is not zero. Its values decide the length of the result,
        so a traced one needs `size`.
      size: length of the result: what is too much is cut off, what is missing filled up. None for as many as there
        are.
      fill_value: what fills up, a number or one per axis; None for 0.
    Returns:
      Tuple of one array per axis, of one length and the default integer dtype; the elements in flat order.
    Raises:
      ValueError: `a` has no axis, `size` is negative, or `fill_value` is neither one number nor one per axis.
      ConcretizationError: `a` is traced and `size` is None.
      TypeError: `a` is neither an array nor a number.

    Source: meaning of `numpy.nonzero`; `size` and `fill_value` are additions.

    >>> nonzero(np.array([5, 0, 7]))
    (Array([0, 2], dtype=int32),)
    >>> nonzero(np.array([5, 0, 7]), size=3, fill_value=-1)
    (Array([ 0,  2, -1], dtype=int32),)
    """
    if isinstance(a, (list, tuple)):
        a = asarray(a)
    own = aval("nonzero", a)
    shape = own.shape
    if not shape:
        raise ValueError("nonzero: expected at least one axis; use atleast_1d first")
    if size is None:
        known = get_concrete_value(a)
        if known is None:
            raise ConcretizationError(f"nonzero: the number of true elements of a traced {own.str_long()} is not known; "
                                      "give size=, or use the three-argument where")
        d = dtypes.canonical_int()
        return tuple(put(i, d) for i in np.nonzero(np.asarray(known)))
    size = as_int("nonzero", "size", size)
    if size < 0:
        raise ValueError(f"nonzero: size must not be negative; got {size}")
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * len(shape)
    if len(fills) != len(shape):
        raise ValueError(f"nonzero: fill_value must be one number, or one for each of {len(shape)} axes; got {fill_value}")
    fills = tuple(0 if f is None else f for f in fills)
    return _nonzero(a, tuple(fills), size=size)


@jitted_core("size", name="nonzero")
def _nonzero(a: Any, fills: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    shape = typeof(a).shape
    d = dtypes.canonical_int()
    mask = cast(ravel(truth("nonzero", a)), d)
    n = typeof(mask).shape[0]
    if n == 0 or size == 0:
        return tuple(broadcast(cast(f, d), (), (size,)) for f in fills)
    # the k-th true element is where the running count first exceeds k
    count = cumsum(mask)
    order = lax.broadcasted_iota(d, (size,), 0)
    at = searchsorted(count, order, side="right")
    good = lax.lt(order, total(mask))
    return tuple(choose_by(good, i, cast(f, d)) for i, f in zip(unravel_index(at, shape), fills))


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The flat positions of the elements that are not zero.

    Args:
      a: array, number or list of numbers; NaN is not zero. Its values decide the length of the result, so a traced one
        needs `size`.
      size: length of the result: what is too much is cut off, what is missing filled up. None for as many as there
        are.
      fill_value: the number that fills up; None for 0.
    Returns:
      Array of one axis and the default integer dtype, ascending up to what fills up.
    Raises:
      ValueError: `size` is negative.
      ConcretizationError: `a` is traced and `size` is None.
      TypeError: `a` holds what is no number.

    Source: meaning of `numpy.flatnonzero`; `size` and `fill_value` are additions.

    >>> flatnonzero(np.array([[0, 1], [2, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(asarray(a)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None,
             fill_value: ArrayLike | Sequence[ArrayLike] | None = None) -> Array:
    """The indices of the elements that are not zero, as rows.

    Args:
      a: array, number or list of numbers; NaN is not zero. Its values decide the length of the result, so a traced one
        needs `size`.
      size: number of rows of the result: what is too much is cut off, what is missing filled up. None for as many as
        there are.
      fill_value: what fills up, a number or one per axis; None for 0.
    Returns:
      Array `[n, a.ndim]` of the default integer dtype, `n` the number of such elements.
    Raises:
      ValueError: `size` is negative, or `fill_value` is neither one number nor one per axis.
      ConcretizationError: `a` is traced and `size` is None.
      TypeError: `a` holds what is no number.

    Source: meaning of `numpy.argwhere`; `size` and `fill_value` are additions.

    >>> argwhere(np.array([[0, 1], [2, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    a = asarray(a)
    rank = len(typeof(a).shape)
    found = nonzero(atleast_1d(a), size=size, fill_value=fill_value)
    if rank == 0:
        n = typeof(found[0]).shape[0]
        return put(np.zeros((n, 0), np.int32))
    return stack(found, axis=1)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays that pick the grid of given rows, columns and so on.

    Args:
      args: one array or list of one axis per axis of the grid: positions, or booleans, which must be known.
    Returns:
      Tuple of as many arrays as arguments: the `i`-th has its positions along axis `i`, and length 1 along the others.
    Raises:
      ValueError: an argument does not have one axis.
      ConcretizationError: an argument is traced and boolean.
      TypeError: an argument holds what is no number.

    Source: meaning of `numpy.ix_`.

    >>> ix_(np.array([0, 2]), np.array([False, True]))
    (Array([[0],
           [2]], dtype=int32), Array([[1]], dtype=int32))
    """
    out = []
    for i, a in enumerate(args):
        a = asarray(a, dtype=_I32) if isinstance(a, (list, tuple)) and not len(a) else asarray(a)
        if len(typeof(a).shape) != 1:
            raise ValueError(f"ix_: arguments must have one axis; got {typeof(a).str_long()}")
        if typeof(a).dtype == dtypes.BOOL:
            (a,) = nonzero(a)
        n = typeof(a).shape[0]
        shape = tuple(n if j == i else 1 for j in range(len(args)))
        out.append(lax.reshape(a, shape) if len(args) > 1 else a)
    return tuple(out)


def bring_into_range(x: Any, n: int, mode: str) -> Any:
    """Positions as integers of the default dtype, brought into `[0, n)` by "wrap" or "clip", or (any other mode) as they
    are. Narrower dtypes may not hold `n`; unsigned ones as wide may hold what the default dtype does not."""
    d, seen = dtypes.canonical_int(), typeof(x).dtype
    if seen.kind != "u" or seen.itemsize < d.itemsize:
        x = cast(x, d)
    if mode == "wrap":
        x = remainder(x, n)
    elif mode == "clip":
        x = clip(x, 0, n - 1)
    return cast(x, d)


@public_api("shape")
def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Array, ...]:
    """Flat positions as one index per axis.

    Args:
      indices: integers of any shape; negative ones count from the end, those outside become the nearest inside.
      shape: an int or a sequence of ints: the array that is meant, the last axis varying fastest.
    Returns:
      Tuple of one array per axis of `shape`, each of the shape of `indices` and the default integer dtype.
    Raises:
      TypeError: `indices` holds no integers or is no array, or `shape` holds no integers.
      ValueError: `shape` has a negative size.

    Source: meaning of `numpy.unravel_index`, which refuses positions outside.

    >>> unravel_index(np.array([0, 5]), (2, 3))
    (Array([0, 1], dtype=int32), Array([0, 2], dtype=int32))
    """
    sizes = as_shape("unravel_index", shape)
    total = int(np.prod(sizes, dtype=np.int64))
    if not dtypes.is_integer(aval("unravel_index", indices).dtype):
        raise TypeError(f"unravel_index: positions must be integers; got {typeof(indices).str_long()}")
    if typeof(indices).dtype.kind == "u":
        at = bring_into_range(indices, max(total, 1), "clip")
    else:
        at = clip(bring_into_range(indices, total, ""), -total, max(total - 1, 0))
        at = choose_by(lax.lt(at, literal(0, typeof(at).dtype)), at + total, at)
    out = []
    for size in reversed(sizes):
        out.append(remainder(at, size))
        at = floor_divide(at, size)
    return tuple(reversed(out))


def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise",
                      order: str = "C") -> Array:
    """One index per axis as flat positions.

    Args:
      multi_index: one integer array or int per axis; they broadcast.
      dims: the lengths of the axes.
      mode: what becomes of positions outside: "raise", which must know them, "wrap" takes them modulo the length,
        "clip" the nearest inside.
      order: "C" counts the last axis fastest, "F" the first.
    Returns:
      Array of the common shape and the default integer dtype.
    Raises:
      ValueError: there are not as many indices as axes, one is outside in mode "raise", or another `mode` or `order`.
      TypeError: an index is no integer.
      ConcretizationError: an index is traced in mode "raise".
      ShapeError: the indices do not broadcast.

    Source: meaning of `numpy.ravel_multi_index`, whose `mode` may differ by axis.

    >>> ravel_multi_index((np.array([0, 1]), np.array([2, 1])), (2, 3))
    Array([2, 4], dtype=int32)
    """
    sizes = as_shape("ravel_multi_index", dims)
    parts = [asarray(i) for i in multi_index]
    if len(parts) != len(sizes):
        raise ValueError(f"ravel_multi_index: expected {len(sizes)} indices, one for each axis; got {len(parts)}")
    fixed = []
    for i, (part, size) in enumerate(zip(parts, sizes)):
        if not dtypes.is_integer(typeof(part).dtype):
            raise TypeError(f"ravel_multi_index: indices must be integers; got {typeof(part).str_long()} for axis {i}")
        if mode == "raise":
            known = np.asarray(part)  # raises for a tracer, whose values are unknown
            if ((known < 0) | (known >= size)).any():
                raise ValueError(f"ravel_multi_index: an index of axis {i} is outside [0, {size}); use mode 'wrap' or "
                                 "'clip'")
        elif mode not in ("wrap", "clip"):
            raise ValueError(f"ravel_multi_index: mode must be 'raise', 'wrap' or 'clip'; got {mode!r}")
        fixed.append(bring_into_range(part, size, mode))
    pairs = list(zip(fixed, sizes))
    if order == "F":
        pairs.reverse()
    elif order != "C":
        raise ValueError(f"ravel_multi_index: order must be 'C' or 'F'; got {order!r}")
    out: Any = np.zeros((), dtypes.canonical_int())
    for part, size in pairs:
        out = part + out * size
    return asarray(out)
