"""Sums, products, extremes and means along axes."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import dtypes

from .. import lax
from .._core.args import resolve_requested_dtype
from .._core.array import Array, ArrayLike, AxisLike, DTypeLike
from .._core.tracer import typeof
from .elementwise import is_nonzero, where as choose
from ._registry import (as_array, broadcast_to, cast, implementations, implements, int_dtype, normalize_axes,
                        normalize_axis, shape_of, to_inexact)

__all__: list[str] = []

_NONE = np._NoValue
_SUMMED_IN_FLOAT32 = {np.dtype("float16"), dtypes.from_short_name("bf16")}


def _keep_dims(out: ArrayLike, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: Any) -> ArrayLike:
    """Put the reduced axes back with length 1 if `keepdims` is true."""
    if keepdims is _NONE or not keepdims:
        return out
    return lax.reshape(out, tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def _masked(x: ArrayLike, where: Any, neutral: int | bool) -> ArrayLike:
    """Replace the elements that `where` excludes with the neutral element of the reduction."""
    return x if where is _NONE or where is True else choose(where, x, typeof(x).dtype.type(neutral))


def _sum_dtype(x: ArrayLike, dtype: DTypeLike | None) -> np.dtype:
    """Return the dtype of a sum: the default integer for booleans and smaller integers."""
    if dtype is not None:
        return resolve_requested_dtype(dtype)
    known = typeof(x).dtype
    if known == dtypes.BOOL or dtypes.is_integer(known) and known.itemsize < int_dtype().itemsize:
        return np.dtype(f"u{int_dtype().name}") if known.kind == "u" else int_dtype()
    return known


def _define_total(name: str, reduce: Callable[..., Array], combine: str, neutral: int) -> None:
    @implements(name)
    def total(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
              keepdims: Any = False, initial: Any = _NONE, where: Any = _NONE) -> ArrayLike:
        x = as_array(a)
        axes, dtype = normalize_axes(name, axis, x), _sum_dtype(x, dtype)
        x = _masked(cast(x, dtype), where, neutral)
        if dtype in _SUMMED_IN_FLOAT32:
            found = cast(reduce(cast(x, np.dtype("float32")), axes), dtype)
        else:
            found = reduce(x, axes)
        found = found if initial is _NONE else implementations[combine](found, initial)
        return _keep_dims(found, shape_of(x), axes, keepdims)


def _define_extreme(names: tuple[str, ...], reduce: Callable[..., Array], combine: str) -> None:
    @implements(*names)
    def extreme(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: Any = False, initial: Any = _NONE,
                where: Any = _NONE) -> ArrayLike:
        x = as_array(a)
        axes = normalize_axes(names[0], axis, x)
        if where is not _NONE and where is not True:
            if initial is _NONE:
                raise ValueError(f"numpy.{names[0]} with where= needs initial=, the value where nothing is included")
            x = choose(where, x, typeof(x).dtype.type(initial))
        if initial is _NONE and 0 in [shape_of(x)[i] for i in axes]:
            raise ValueError(f"numpy.{names[0]}: an axis without elements has no extreme; give initial=")
        found = reduce(x, axes)
        found = found if initial is _NONE else implementations[combine](found, initial)
        return _keep_dims(found, shape_of(x), axes, keepdims)


_define_total("sum", lax.reduce_sum, "add", 0)
_define_total("prod", lax.reduce_prod, "multiply", 1)
_define_extreme(("max", "amax"), lax.reduce_max, "maximum")
_define_extreme(("min", "amin"), lax.reduce_min, "minimum")


def _define_ufunc_reduce(ufunc: str, name: str) -> None:
    @implements(f"{ufunc}.reduce")
    def reduce(array: ArrayLike, axis: AxisLike = 0, dtype: DTypeLike | None = None, out: None = None,
               keepdims: bool = False, initial: Any = _NONE, where: Any = _NONE) -> ArrayLike:
        given = {} if initial is _NONE or initial is None else {"initial": initial}
        if dtype is None and name in ("sum", "prod"):
            return implementations[name](array, axis, None, None, keepdims, where=where, **given)
        x = array if dtype is None else cast(as_array(array), resolve_requested_dtype(dtype))
        return implementations[name](x, axis, keepdims=keepdims, where=where, **given)


for _ufunc, _name in (("add", "sum"), ("multiply", "prod"), ("maximum", "max"), ("minimum", "min"),
                      ("logical_and", "all"), ("logical_or", "any")):
    _define_ufunc_reduce(_ufunc, _name)


def _define_quantifier(name: str, reduce: Callable[..., Array], neutral: bool) -> None:
    @implements(name)
    def quantifier(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: Any = False, *,
                   where: Any = _NONE) -> ArrayLike:
        x = is_nonzero(a)
        axes = normalize_axes(name, axis, x)
        return _keep_dims(reduce(_masked(x, where, neutral), axes), shape_of(x), axes, keepdims)


_define_quantifier("all", lax.reduce_and, True)
_define_quantifier("any", lax.reduce_or, False)


@implements("mean")
def mean(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
         keepdims: Any = False, *, where: Any = _NONE) -> ArrayLike:
    x = to_inexact(a, dtype)
    axes = normalize_axes("mean", axis, x)
    total = implementations["sum"](x, axes, where=where)
    if where is _NONE or where is True:
        count = math.prod([shape_of(x)[i] for i in axes])
        found = lax.div(total, lax.full_like(total, count)) if count else lax.mul(total, lax.full_like(total, math.nan))
    else:
        included = cast(broadcast_to(is_nonzero(where), shape_of(x)), dtypes.canonical_float())
        found = lax.div(total, cast(lax.reduce_sum(included, axes), typeof(total).dtype))
    return _keep_dims(found, shape_of(x), axes, keepdims)


def _define_argument(name: str, find: Callable[..., Array]) -> None:
    @implements(name)
    def position(a: ArrayLike, axis: AxisLike = None, out: None = None, *, keepdims: Any = False) -> ArrayLike:
        x = as_array(a)
        shape = shape_of(x)
        x, along = (lax.reshape(x, (typeof(x).size,)), 0) if axis is None else (x, normalize_axis(name, axis, x))
        if not shape_of(x)[along]:
            raise ValueError(f"numpy.{name}: an axis without elements has no extreme")
        found = find(lax.stop_gradient(x), along, int_dtype())
        return _keep_dims(found, shape, tuple(range(len(shape))) if axis is None else (along,), keepdims)


_define_argument("argmax", lax.argmax)
_define_argument("argmin", lax.argmin)
