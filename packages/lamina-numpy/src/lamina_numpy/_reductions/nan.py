"""Reductions that ignore NaN."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax

from .._core.named_axes import axes_of
from .._core.promotion import aval, literal
from .._core.public_api import public_api
from .._core.select import choose_by
from .._elementwise.logic import logical_and
from .reductions import any, max, min, prod, sum
from .averages import mean, std, var

__all__ = ["nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


def _present(call: str, a: Any, axis: Any, where: Any) -> Any:
    """Return the mask of elements that are not NaN and that `where` includes; None for all.

    Errors for bad axes start with `call`."""
    t = aval(call, a)
    axes_of(call, axis, len(t.shape))
    if not dtypes.is_inexact(t.dtype):
        return where
    good = lax.eq(a, a)
    return good if where is None else logical_and(good, where)


@public_api("axis", "dtype", "out", "keepdims")
def nansum(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
           keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """`sum` ignoring NaN.

    Args:
      a: number array `[...]`; integers and booleans hold no NaN.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      dtype: element type to sum in, and of the result; None for that of `a`, integers and booleans narrower than the
        default integer widened to it.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      initial: a number to start from.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Array of the axes that are left, in the units of `a`; 0 (or `initial`) where all are NaN.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero where elements are NaN.
    Source: meaning of `numpy.nansum`.

    >>> nansum(np.array([1., np.nan, 2.]))
    Array(3., dtype=float32)
    """
    return sum(a, axis, dtype, out, keepdims, initial, _present("nansum", a, axis, where))


@public_api("axis", "dtype", "out", "keepdims")
def nanprod(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
            keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """`prod` ignoring NaN.

    Args:
      a: number array `[...]`; integers and booleans hold no NaN.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      dtype: element type to multiply in, and of the result; None for that of `a`, integers and booleans narrower than
        the default integer widened to it.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      initial: a number to start from.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Array of the axes that are left; 1 (or `initial`) where all are NaN.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero where elements are NaN.
    Source: meaning of `numpy.nanprod`.

    >>> nanprod(np.array([2., np.nan, 3.]))
    Array(6., dtype=float32)
    """
    return prod(a, axis, dtype, out, keepdims, initial, _present("nanprod", a, axis, where))


def _nan_extreme(call: str, fun: Callable[..., Any], sign: int, a: Any, axis: Any, out: Any, keepdims: bool,
                 initial: Any, where: Any) -> Any:
    d = aval(call, a).dtype
    if not dtypes.is_inexact(d):
        return fun(a, axis, out, keepdims, initial, where)
    good = _present(call, a, axis, where)
    found = fun(choose_by(good, a, literal(sign * np.inf, d)), axis, out, keepdims, initial)
    if initial is not None:
        return found
    return choose_by(any(good, axis, None, keepdims), found, literal(np.nan, d))


@public_api("axis", "out", "keepdims")
def nanmax(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """`max` ignoring NaN.

    Args:
      a: number array `[...]`; integers and booleans hold no NaN.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      initial: a number to start from.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Array of the axes that are left, dtype and units of `a`; NaN (or `initial`) where all are.
    Raises:
      ValueError: there are no elements along the axes and no `initial`.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero where elements are NaN.
    Source: meaning of `numpy.nanmax`.

    >>> nanmax(np.array([1., np.nan, 2.]))
    Array(2., dtype=float32)
    """
    return _nan_extreme("nanmax", max, -1, a, axis, out, keepdims, initial, where)


@public_api("axis", "out", "keepdims")
def nanmin(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """`min` ignoring NaN.

    Args:
      a: number array `[...]`; integers and booleans hold no NaN.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      initial: a number to start from.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Array of the axes that are left, dtype and units of `a`; NaN (or `initial`) where all are.
    Raises:
      ValueError: there are no elements along the axes and no `initial`.
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero where elements are NaN.
    Source: meaning of `numpy.nanmin`.

    >>> nanmin(np.array([1., np.nan, 2.]))
    Array(1., dtype=float32)
    """
    return _nan_extreme("nanmin", min, 1, a, axis, out, keepdims, initial, where)


@public_api("axis", "dtype", "out", "keepdims")
def nanmean(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
            keepdims: bool = False, where: ArrayLike | None = None) -> Array:
    """`mean` ignoring NaN.

    Args:
      a: number array `[...]`; integers and booleans hold no NaN.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      dtype: element type of the result; None for that of `a`, float for integers and booleans.
      out: not supported, must be None: arrays never change.
      keepdims: leave the reduced axes in place with length 1.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Array of the axes that are left, in the units of `a`; NaN where all are.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero where elements are NaN.
    Source: meaning of `numpy.nanmean`.

    >>> nanmean(np.array([1., np.nan, 2.]))
    Array(1.5, dtype=float32)
    """
    return mean(a, axis, dtype, out, keepdims, where=_present("nanmean", a, axis, where))


@public_api("axis", "dtype", "out", "ddof", "keepdims")
def nanvar(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None) -> Array:
    """`var` ignoring NaN.

    Args:
      a: number array `[...]`; integers and booleans hold no NaN.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      dtype: element type of the result; None for that of `a`, float for integers and booleans.
      out: not supported, must be None: arrays never change.
      ddof: what is taken off the number of elements before dividing; may be traced.
      keepdims: leave the reduced axes in place with length 1.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Real array of the axes that are left, in squared units of `a`; NaN where no more than `ddof` elements count.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero where elements are NaN.
    Source: meaning of `numpy.nanvar`.

    >>> nanvar(np.array([1., np.nan, 3.]))
    Array(1., dtype=float32)
    """
    return var(a, axis, dtype, out, ddof, keepdims, where=_present("nanvar", a, axis, where))


@public_api("axis", "dtype", "out", "ddof", "keepdims")
def nanstd(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None) -> Array:
    """`std` ignoring NaN.

    Args:
      a: number array `[...]`; integers and booleans hold no NaN.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      dtype: element type of the result; None for that of `a`, float for integers and booleans.
      out: not supported, must be None: arrays never change.
      ddof: what is taken off the number of elements before dividing; may be traced.
      keepdims: leave the reduced axes in place with length 1.
      where: booleans that broadcast to `a`: which elements to include; None for all.
    Returns:
      Real array of the axes that are left, in units of `a`; NaN where no more than `ddof` elements count.
    Raises:
      TypeError: `a` is neither an array nor a number.
      ShapeError: `axis` names an axis that `a` does not have, or one twice.
      UnboundAxisError: `axis` names a mapped axis that is not bound.
      NotImplementedError: `out` is given.

    Derivative: zero where elements are NaN.
    Source: meaning of `numpy.nanstd`.

    >>> nanstd(np.array([1., np.nan, 5.]))
    Array(2., dtype=float32)
    """
    return std(a, axis, dtype, out, ddof, keepdims, where=_present("nanstd", a, axis, where))
