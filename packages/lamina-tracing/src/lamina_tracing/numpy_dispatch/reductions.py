"""Sums, products, extremes, means and truth along axes; what ignores NaN; running totals."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import dtypes

from .. import lax
from .._core.args import resolve_requested_dtype
from .._core.tracer import typeof
from .elementwise import isnan, truth, where as choose
from ._registry import (as_array, axes_of, axis_of, cast, common, flat_or_along, inexact, int_dtype, row, rows,
                        shape_of, stretched)

__all__ = ["kept", "mean", "sum_"]

_NONE = np._NoValue
_SMALL_SUMS = {np.dtype("float16"), dtypes.from_short_name("bf16")}


def kept(out: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: Any) -> Any:
    """A result with the axes that went away in place with length 1, if that is asked."""
    if keepdims is _NONE or not keepdims:
        return out
    return lax.reshape(out, tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def _included(x: Any, where: Any, instead: Any) -> Any:
    """`x` with the value that changes nothing in the places that are left out."""
    return x if where is _NONE or where is True else choose(where, x, typeof(x).dtype.type(instead))


def _total_dtype(x: Any, dtype: Any) -> np.dtype:
    """What sums are in: small integers and truth values are counted in the default integer."""
    if dtype is not None:
        return resolve_requested_dtype(dtype)
    known = typeof(x).dtype
    if known == dtypes.BOOL or dtypes.is_integer(known) and known.itemsize < int_dtype().itemsize:
        return np.dtype(f"u{int_dtype().name}") if known.kind == "u" else int_dtype()
    return known


def _total(call: str, reduce: Callable[..., Any], combine: str, neutral: int) -> None:
    @row(call)
    def total(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False, initial: Any = _NONE,
              where: Any = _NONE) -> Any:
        x = as_array(a)
        axes, dtype = axes_of(call, axis, x), _total_dtype(x, dtype)
        x = _included(cast(x, dtype), where, neutral)
        found = reduce(x, axes) if dtype not in _SMALL_SUMS else cast(reduce(cast(x, np.dtype("float32")), axes), dtype)
        found = found if initial is _NONE else rows[combine](found, initial)
        return kept(found, shape_of(x), axes, keepdims)


def _extreme(names: tuple[str, ...], reduce: Callable[..., Any], combine: str, least: bool) -> None:
    @row(*names)
    def extreme(a: Any, axis: Any = None, out: None = None, keepdims: Any = False, initial: Any = _NONE,
                where: Any = _NONE) -> Any:
        x = as_array(a)
        axes = axes_of(names[0], axis, x)
        if where is not _NONE and where is not True:
            if initial is _NONE:
                raise ValueError(f"numpy.{names[0]} with where= needs initial=, the value where nothing is included")
            x = choose(where, x, typeof(x).dtype.type(initial))
        if initial is _NONE and 0 in [shape_of(x)[i] for i in axes]:
            raise ValueError(f"numpy.{names[0]}: an axis without elements has no extreme; give initial=")
        found = reduce(x, axes)
        return kept(found if initial is _NONE else rows[combine](found, initial), shape_of(x), axes, keepdims)


_total("sum", lax.reduce_sum, "add", 0)
_total("prod", lax.reduce_prod, "multiply", 1)
_extreme(("max", "amax"), lax.reduce_max, "maximum", False)
_extreme(("min", "amin"), lax.reduce_min, "minimum", True)
sum_ = rows["sum"]


@row("add.reduce")
def add_reduce(array: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = _NONE,
               where: Any = _NONE) -> Any:
    return sum_(array, axis, dtype, out, keepdims, initial, where)


@row("multiply.reduce")
def multiply_reduce(array: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False,
                    initial: Any = _NONE, where: Any = _NONE) -> Any:
    return rows["prod"](array, axis, dtype, out, keepdims, initial, where)


def _reduce_method(ufunc: str, name: str) -> None:
    @row(f"{ufunc}.reduce")
    def reduce(array: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False, initial: Any = _NONE,
               where: Any = _NONE) -> Any:
        more = {} if initial is _NONE or initial is None else {"initial": initial}
        return rows[name](array if dtype is None else cast(as_array(array), resolve_requested_dtype(dtype)), axis, None,
                          keepdims, where=where, **more)


for _ufunc, _name in (("maximum", "max"), ("minimum", "min"), ("logical_and", "all"), ("logical_or", "any")):
    _reduce_method(_ufunc, _name)


def _truths(name: str, reduce: Callable[..., Any], neutral: bool) -> None:
    @row(name)
    def truths(a: Any, axis: Any = None, out: None = None, keepdims: Any = False, *, where: Any = _NONE) -> Any:
        x = truth(a)
        axes = axes_of(name, axis, x)
        return kept(reduce(_included(x, where, neutral), axes), shape_of(x), axes, keepdims)


_truths("all", lax.reduce_and, True)
_truths("any", lax.reduce_or, False)


def _count(x: Any, axes: tuple[int, ...], where: Any) -> Any:
    """How many elements are included in each sum."""
    if where is _NONE or where is True:
        return math.prod([shape_of(x)[i] for i in axes])
    return lax.reduce_sum(cast(stretched(truth(where), shape_of(x)), dtypes.canonical_float()), axes)


def _divided(x: Any, by: Any) -> Any:
    if isinstance(by, (int, float)):
        return lax.div(x, lax.full_like(x, by if by else math.nan)) if by else lax.mul(x, lax.full_like(x, math.nan))
    return lax.div(x, cast(by, typeof(x).dtype))


@row("mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False, *, where: Any = _NONE) -> Any:
    x = inexact(a, dtype)
    axes = axes_of("mean", axis, x)
    total = sum_(x, axes, where=where)
    return kept(_divided(total, _count(x, axes, where)), shape_of(x), axes, keepdims)


@row("var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = _NONE, mean: Any = _NONE, correction: Any = _NONE) -> Any:
    x = inexact(a, dtype)
    axes = axes_of("var", axis, x)
    middle = rows["mean"](x, axes, keepdims=True, where=where) if mean is _NONE else mean
    apart = rows["subtract"](x, middle)
    if dtypes.is_complex(typeof(apart).dtype):
        squares = lax.add(lax.square(lax.real(apart)), lax.square(lax.imag(apart)))
    else:
        squares = lax.square(apart)
    by = rows_minus(_count(x, axes, where), ddof if correction is _NONE else correction)
    return kept(_divided(sum_(squares, axes, where=where), by), shape_of(x), axes, keepdims)


def rows_minus(n: Any, less: Any) -> Any:
    return max(n - less, 0) if isinstance(n, int) else rows["maximum"](rows["subtract"](n, less), 0)


@row("std")
def std(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: Any = False, *,
        where: Any = _NONE, mean: Any = _NONE, correction: Any = _NONE) -> Any:
    return lax.sqrt(var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


@row("ptp")
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: Any = False) -> Any:
    return lax.sub(rows["max"](a, axis, None, keepdims), rows["min"](a, axis, None, keepdims))


@row("average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    x = as_array(a)
    axes = axes_of("average", axis, x)
    if weights is None:
        found = mean(x, axes, keepdims=keepdims)
        total = lax.full_like(found, math.prod([shape_of(x)[i] for i in axes]))
    else:
        x, w = common(inexact(x), weights)
        if shape_of(w) != shape_of(x):
            if shape_of(w) != tuple([shape_of(x)[i] for i in axes]):
                raise ValueError(f"numpy.average: weights of shape {shape_of(w)} fit neither {shape_of(x)} nor its axes {axes}")
            w = lax.broadcast_in_dim(w, shape_of(x), axes)
        total = sum_(w, axes, keepdims=keepdims)
        found = lax.div(sum_(lax.mul(x, w), axes, keepdims=keepdims), total)
    return (found, total) if returned else found


@row("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return sum_(truth(a), axis, keepdims=keepdims)


def _place(name: str, find: Callable[..., Any]) -> None:
    @row(name)
    def place(a: Any, axis: Any = None, out: None = None, *, keepdims: Any = False) -> Any:
        x, along = flat_or_along(name, a, axis)
        if not shape_of(x)[along]:
            raise ValueError(f"numpy.{name}: an axis without elements has no extreme")
        found = find(lax.stop_gradient(x), along, int_dtype())
        shape = shape_of(as_array(a))
        return kept(found, shape, tuple(range(len(shape))) if axis is None else (along,), keepdims)


_place("argmax", lax.argmax)
_place("argmin", lax.argmin)


# --- ignoring NaN ----------------------------------------------------------------------------------------------------


def _without_nan(x: Any, instead: float) -> tuple[Any, Any]:
    """`x` with another value in place of NaN, and where it was none."""
    x = as_array(x)
    if not dtypes.is_inexact(typeof(x).dtype):
        return x, lax.full_like(x, 1, np.dtype(bool))
    none = isnan(x)
    return choose(none, typeof(x).dtype.type(instead), x), lax.bitwise_not(none)


@row("nansum")
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False, initial: Any = _NONE,
           where: Any = _NONE) -> Any:
    return sum_(_without_nan(a, 0)[0], axis, dtype, None, keepdims, initial, where)


@row("nanprod")
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False, initial: Any = _NONE,
            where: Any = _NONE) -> Any:
    return rows["prod"](_without_nan(a, 1)[0], axis, dtype, None, keepdims, initial, where)


def _nan_extreme(name: str, plain: str, instead: float) -> None:
    @row(name)
    def extreme(a: Any, axis: Any = None, out: None = None, keepdims: Any = False, initial: Any = _NONE,
                where: Any = _NONE) -> Any:
        x, is_number = _without_nan(a, instead)
        found = rows[plain](x, axis, None, keepdims, initial, where)
        if not dtypes.is_inexact(typeof(x).dtype):
            return found
        return choose(rows["any"](is_number, axis, None, keepdims), found, typeof(x).dtype.type(math.nan))


_nan_extreme("nanmax", "max", -math.inf)
_nan_extreme("nanmin", "min", math.inf)


@row("nanmean")
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: Any = False, *, where: Any = _NONE) -> Any:
    x, is_number = _without_nan(a, 0)
    return mean(x, axis, dtype, None, keepdims, where=_both(is_number, where))


def _both(x: Any, where: Any) -> Any:
    return x if where is _NONE or where is True else rows["logical_and"](x, where)


@row("nanvar")
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: Any = False, *,
           where: Any = _NONE, mean: Any = _NONE, correction: Any = _NONE) -> Any:
    x, is_number = _without_nan(a, 0)
    is_number = _both(is_number, where)
    found = var(x, axis, dtype, None, ddof, keepdims, where=is_number, mean=mean, correction=correction)
    enough = rows["greater"](sum_(is_number, axis, keepdims=keepdims), ddof if correction is _NONE else correction)
    return choose(enough, found, typeof(found).dtype.type(math.nan))


@row("nanstd")
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims: Any = False, *,
           where: Any = _NONE, mean: Any = _NONE, correction: Any = _NONE) -> Any:
    return lax.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))


@row("nanargmax")
def nanargmax(a: Any, axis: Any = None, out: None = None, *, keepdims: Any = False) -> Any:
    return rows["argmax"](_without_nan(a, -math.inf)[0], axis, None, keepdims=keepdims)


@row("nanargmin")
def nanargmin(a: Any, axis: Any = None, out: None = None, *, keepdims: Any = False) -> Any:
    return rows["argmin"](_without_nan(a, math.inf)[0], axis, None, keepdims=keepdims)


# --- running totals --------------------------------------------------------------------------------------------------


@row("cumsum")
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    x, along = flat_or_along("cumsum", a, axis)
    return lax.cumsum(cast(x, _total_dtype(x, dtype)), along)


@row("cumprod")
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    x, along = flat_or_along("cumprod", a, axis)
    return lax.cumprod(cast(x, _total_dtype(x, dtype)), along)


@row("nancumsum")
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    return cumsum(_without_nan(a, 0)[0], axis, dtype)


@row("nancumprod")
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    return cumprod(_without_nan(a, 1)[0], axis, dtype)


def _cumulative(name: str, plain: str, neutral: int) -> None:
    @row(name)
    def cumulative(x: Any, /, *, axis: Any = None, dtype: Any = None, out: None = None, include_initial: bool = False) -> Any:
        x = as_array(x)
        if axis is None and len(shape_of(x)) > 1:
            raise ValueError(f"numpy.{name}: axis= is needed for an array of more than one axis")
        along = axis_of(name, 0 if axis is None else axis, x)
        found = rows[plain](x, along, dtype)
        if not include_initial:
            return found
        first = lax.full_like(lax.slice_in_dim(found, 0, 1, axis=along) if shape_of(found)[along] else found, neutral,
                              shape=tuple([1 if i == along else n for i, n in enumerate(shape_of(found))]))
        return lax.concatenate([first, found], along)


_cumulative("cumulative_sum", "cumsum", 0)
_cumulative("cumulative_prod", "cumprod", 1)


def _accumulate(ufunc: str, run: Callable[..., Any]) -> None:
    @row(f"{ufunc}.accumulate")
    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        x = as_array(array)
        return run(x if dtype is None else cast(x, resolve_requested_dtype(dtype)), axis_of(f"{ufunc}.accumulate", axis, x))


_accumulate("add", lambda x, axis: cumsum(x, axis))
_accumulate("multiply", lambda x, axis: cumprod(x, axis))
_accumulate("maximum", lax.cummax)
_accumulate("minimum", lax.cummin)
