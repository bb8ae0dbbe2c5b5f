"""The largest or smallest elements along an axis, and both extremes at once."""
from __future__ import annotations

import operator
from typing import Any

from lamina_ir import DTypeError, dtypes
from lamina_ir.extend import docstring_entries
from lamina_tracing import Array, ArrayLike, AxisLike, lax
from lamina_tracing.extend import check_axis

from .._core.conversion import asarray
from .._core.promotion import aval, refuse_out
from .._core.public_api import public_api
from .._indexing.take import take_along_axis
from .._reductions._docstrings import EXTREME
from .._reductions.reductions import max as highest
from .._reductions.reductions import min as lowest
from .sorting import argsort

__all__ = ["minmax", "top_k"]

_MINMAX = {**EXTREME, **docstring_entries("""
    initial: number, or a pair of numbers for the smallest and the largest: the result if no element is smaller or larger; None
      for none.
    """)}


@public_api("axis", "out", "keepdims", entries=_MINMAX)
def minmax(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False, initial: Any = None,
           where: ArrayLike | None = None) -> tuple[Array, Array]:
    """Smallest and largest element along axes; NaN if there is one.

    Args: {a, axis, out, keepdims, initial, where}
    Returns:
      `(min, max)`: two arrays of the remaining axes, dtype and units of `a`.
    Raises: {ValueError, TypeError, ShapeError, UnboundAxisError, NotImplementedError}

    Derivative: equal extreme elements share equally.
    Source: meaning of `numpy.min` and `numpy.max`.

    >>> minmax(np.array([[1, 5], [7, 2]]), axis=0)
    (Array([1, 2], dtype=int32), Array([7, 5], dtype=int32))
    """
    refuse_out("minmax", out)
    low, high = initial if isinstance(initial, (tuple, list)) else (initial, initial)
    return lowest(a, axis, None, keepdims, low, where), highest(a, axis, None, keepdims, high, where)


@public_api("k", "axis", "mode", "sorted")
def top_k(a: ArrayLike, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True) -> tuple[Array, Array]:
    """The k largest or smallest elements along an axis, and their positions.

    Args:
      a: real array `[..., n, ...]`. NaN is the largest.
      k: how many, an int from 0 to n.
      axis: the axis; negative counts from the end.
      mode: "largest" or "smallest".
      sorted: no effect: they are in order. Of equal elements those with lower positions come first.
    Returns:
      Two arrays `[..., k, ...]`: elements of the dtype and units of `a`, and int32 positions.
    Raises:
      TypeError: `a` is neither an array nor a number, or `k` is not an int.
      DTypeError: `a` is complex.
      ShapeError: `axis` names an axis that `a` does not have.
      ValueError: `k` is out of range, or the mode is unknown.

    Derivative: that of the selected elements.
    Source: meaning of `numpy.top_k` in the array API.

    >>> top_k(np.array([1, 5, 3]), 2)
    (Array([5, 3], dtype=int32), Array([1, 2], dtype=int32))
    >>> top_k(np.array([1, 5, 3]), 1, mode="smallest")
    (Array([1], dtype=int32), Array([0], dtype=int32))
    """
    t = aval("top_k", a)
    place = check_axis("top_k", axis, len(t.shape))
    try:
        k = operator.index(k)
    except TypeError:
        raise TypeError(f"top_k: k must be an int; got {k!r}") from None
    if not 0 <= k <= t.shape[place]:
        raise ValueError(f"top_k: k must be from 0 to {t.shape[place]}, the length of axis {axis} of {t.str_long()}; got {k}")
    if mode not in ("largest", "smallest"):
        raise ValueError(f'top_k: mode must be "largest" or "smallest"; got {mode!r}')
    if dtypes.is_complex(t.dtype):
        raise DTypeError(f"top_k: expected real numbers; got {t.str_long()}. Take real, imag or abs first")
    if mode == "largest":
        values, positions = lax.top_k(asarray(a), k, axis=place)
        return values, positions
    order = lax.convert_element_type(lax.slice_in_dim(argsort(a, place), 0, k, axis=place), "int32")
    return take_along_axis(asarray(a), order, place), order
