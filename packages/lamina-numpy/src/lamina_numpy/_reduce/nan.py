"""Reductions that ignore NaN."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax

from .._ground.promotion import aval, literal
from .._ground.publishing import public
from .._ground.choosing import choose_by
from .._elementwise.logic import logical_and
from .reductions import any, max, min, prod, sum
from .averages import mean, std, var

__all__ = ["nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


def _present(call: str, a: Any, where: Any) -> Any:
    """Which elements count: those that are not NaN and that `where` includes; None for all."""
    if not dtypes.is_inexact(aval(call, a).dtype):
        return where
    good = lax.eq(a, a)
    return good if where is None else logical_and(good, where)


@public("axis", "dtype", "out", "keepdims")
def nansum(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
           keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """`sum` ignoring NaN."""
    return sum(a, axis, dtype, out, keepdims, initial, _present("nansum", a, where))


@public("axis", "dtype", "out", "keepdims")
def nanprod(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
            keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """`prod` ignoring NaN."""
    return prod(a, axis, dtype, out, keepdims, initial, _present("nanprod", a, where))


def _nan_extreme(call: str, fun: Callable[..., Any], sign: int, a: Any, axis: Any, out: Any, keepdims: bool,
                 initial: Any, where: Any) -> Any:
    d = aval(call, a).dtype
    if not dtypes.is_inexact(d):
        return fun(a, axis, out, keepdims, initial, where)
    good = _present(call, a, where)
    found = fun(choose_by(good, a, literal(sign * np.inf, d)), axis, out, keepdims, initial)
    if initial is not None:
        return found
    return choose_by(any(good, axis, None, keepdims), found, literal(np.nan, d))


@public("axis", "out", "keepdims")
def nanmax(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """`max` ignoring NaN; NaN where all are."""
    return _nan_extreme("nanmax", max, -1, a, axis, out, keepdims, initial, where)


@public("axis", "out", "keepdims")
def nanmin(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
    """`min` ignoring NaN; NaN where all are."""
    return _nan_extreme("nanmin", min, 1, a, axis, out, keepdims, initial, where)


@public("axis", "dtype", "out", "keepdims")
def nanmean(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
            keepdims: bool = False, where: ArrayLike | None = None) -> Array:
    """`mean` ignoring NaN."""
    return mean(a, axis, dtype, out, keepdims, where=_present("nanmean", a, where))


@public("axis", "dtype", "out", "ddof", "keepdims")
def nanvar(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None) -> Array:
    """`var` ignoring NaN."""
    return var(a, axis, dtype, out, ddof, keepdims, where=_present("nanvar", a, where))


@public("axis", "dtype", "out", "ddof", "keepdims")
def nanstd(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None) -> Array:
    """`std` ignoring NaN."""
    return std(a, axis, dtype, out, ddof, keepdims, where=_present("nanstd", a, where))
