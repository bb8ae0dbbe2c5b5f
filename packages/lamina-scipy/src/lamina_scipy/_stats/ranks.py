"""The commonest element, ranks, and the standard error of a mean, along an axis or the name of a mapped one."""
from __future__ import annotations

from typing import Any, NamedTuple

import lamina_numpy as lnp
import numpy as np
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike, AxisLike, lax
from lamina_tracing.extend import check_axis, is_axis_name, typeof

__all__ = ["ModeResult", "mode", "rankdata", "sem"]

_RANKS = docstring_entries("""
    a: number or boolean array `[..., n, ...]`.
    axis: an int, the name of a mapped axis, or None for all elements; negative counts from the end.
    TypeError: `a` is neither an array nor a number.
    ShapeError: `a` has no such axis.
    NotImplementedError: `nan_policy` is "raise".
    ValueError: `nan_policy` is unknown.
    """)

_METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """The most common elements, and how often each occurs."""
    mode: Array
    count: Array  # type: ignore[assignment]  # the field's name, over that of a method of tuples


def _check_nan_policy(call: str, nan_policy: Any) -> bool:
    """Whether NaNs are left out."""
    if nan_policy == "raise":
        raise NotImplementedError(f"{call}: nan_policy='raise' needs the values, which are traced; test with "
                                  "lamina.numpy.isnan first, or set debug_nans")
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(f"{call}: nan_policy must be 'propagate' or 'omit'; got {nan_policy!r}")
    return nan_policy == "omit"


def _move_to_front(call: str, a: Any, axis: Any) -> Any:
    """`a` with the axis in front; all axes as one for None; the positions of a mapped axis for its name."""
    if axis is None:
        return lnp.ravel(a)
    if is_axis_name(axis):
        return lax.all_gather(a, axis)
    return lnp.moveaxis(a, check_axis(call, axis, len(typeof(a).shape)), 0)


@public_api("axis", "nan_policy", "keepdims", entries=_RANKS)
def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The commonest element along an axis, of several the smallest.

    Args:
      {a, axis}
      nan_policy: "propagate" counts NaNs as one value, the largest; "omit" leaves them out.
      keepdims: leave the axis in place with length 1.
    Returns:
      A pair `mode, count`, both without the axis: NaN and 0 where there are no elements.
    Raises: {TypeError, ShapeError, NotImplementedError, ValueError}

    Source: meaning of `scipy.stats.mode`; whole counts, and those of runs of equal elements in sorted order.

    >>> mode(np.array([3, 1, 3, 1, 2]))
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    omit = _check_nan_policy("mode", nan_policy)
    x = lnp.asarray(a)
    rank = len(typeof(x).shape)
    if not rank:
        x, rank, axis = lnp.expand_dims(x, 0), 0, 0
    x = _move_to_front("mode", x, axis)
    n, *rest = typeof(x).shape
    if n == 0:
        x = to_inexact("mode", x)
        result: Any = lnp.full(rest, np.nan, typeof(x).dtype), lnp.zeros(rest, int)
    else:
        x = lnp.sort(x, 0)
        none = lnp.isnan(x) if dtypes.is_inexact(typeof(x).dtype) else lnp.zeros_like(x, bool)
        first = lnp.concatenate([lnp.ones_like(x[:1], bool), (x[1:] != x[:-1]) & ~(none[1:] & none[:-1])])
        place = lnp.broadcast_to(lnp.reshape(lnp.arange(n), (n,) + (1,) * len(rest)), (n, *rest))
        run = place - lax.cummax(lnp.where(first, place, 0), axis=0) + 1
        if omit:
            run = lnp.where(none, 0, run)
        best = lnp.argmax(run, 0)[None]
        value = lnp.take_along_axis(x, best, 0)[0]
        count = lnp.take_along_axis(run, best, 0)[0]
        if omit and dtypes.is_inexact(typeof(x).dtype):
            value = lnp.where(count == 0, np.nan, value)
        result = value, count
    if keepdims and rank and not is_axis_name(axis):
        shape = (1,) * rank if axis is None else None
        result = tuple(lnp.reshape(r, shape) if shape else lnp.expand_dims(r, check_axis("mode", axis, rank)) for r in result)
    return ModeResult(*result)


@public_api("method", "axis", "nan_policy", entries=_RANKS)
@ignore_strict_promotion
def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """The rank of each element, from 1.

    Args:
      a: number or boolean array `[..., n, ...]`.
      method: what equal elements get: "average", "min" or "max" of their ranks; "dense": as min, and the next value one
        more; "ordinal": one each, in the order of their positions.
      axis: an int, the name of a mapped axis, or None for all elements; negative counts from the end.
      nan_policy: "propagate": the ranks are NaN if an element is NaN; "omit": the others are ranked. Only with "average":
        integer ranks cannot be NaN, and there NaNs rank last.
    Returns:
      Array of the shape of `a`, of one axis for None: float for "average", else int.
    Raises:
      {TypeError, ShapeError}
      ValueError: `method` or `nan_policy` is none of these.
      NotImplementedError: `nan_policy` is "raise", or "omit" with whole ranks.

    Source: meaning of `scipy.stats.rankdata`.

    >>> rankdata(np.array([30, 10, 20, 10]))
    Array([4. , 1.5, 3. , 1.5], dtype=float32)
    >>> rankdata(np.array([30, 10, 20, 10]), "dense")
    Array([3, 1, 2, 1], dtype=int32)
    """
    omit = _check_nan_policy("rankdata", nan_policy)
    if method not in _METHODS:
        raise ValueError(f"rankdata: method must be one of {', '.join(_METHODS)}; got {method!r}")
    if omit and method != "average":
        raise NotImplementedError(f"rankdata: nan_policy='omit' needs ranks that can be NaN; got method={method!r}, whose "
                                  "ranks are integers. Use method='average'")
    source = lnp.asarray(a)
    x = _move_to_front("rankdata", source, axis)
    n, *rest = typeof(x).shape if typeof(x).shape else (1,)
    x = lnp.reshape(x, (n, *rest))
    order = lnp.argsort(x, 0, stable=True)
    back = lnp.argsort(order, 0, stable=True)
    y = lnp.take_along_axis(x, order, 0)
    inexact = dtypes.is_inexact(typeof(x).dtype)
    none = lnp.isnan(y) if inexact else lnp.zeros_like(y, bool)
    place = lnp.broadcast_to(lnp.reshape(lnp.arange(1, n + 1), (n,) + (1,) * len(rest)), (n, *rest))
    first = lnp.concatenate([lnp.ones_like(y[:1], bool), (y[1:] != y[:-1]) & ~(none[1:] & none[:-1])])
    low = lax.cummax(lnp.where(first, place, 0), axis=0) if n else place
    last = lnp.concatenate([first[1:], lnp.ones_like(y[:1], bool)])
    high = lax.cummin(lnp.where(last, place, n), axis=0, reverse=True) if n else place
    if method == "average":
        ranks = lnp.astype(0.5 * (low + high), typeof(lnp.zeros(())).dtype)
        holds = none if omit else lnp.broadcast_to(lnp.any(none, 0, keepdims=True), (n, *rest))
        ranks = lnp.where(holds, np.nan, ranks) if inexact else ranks
    else:
        ranks = {"min": low, "max": high, "dense": lnp.cumsum(first, 0, dtype=typeof(place).dtype), "ordinal": place}[method]
    ranks = lnp.take_along_axis(ranks, back, 0)
    if axis is None:
        return ranks
    if is_axis_name(axis):
        return lax.dynamic_index_in_dim(ranks, lax.axis_index(axis), 0, keepdims=False)
    return lnp.moveaxis(ranks, 0, check_axis("rankdata", axis, len(typeof(source).shape)))


@public_api("axis", "ddof", "nan_policy", "keepdims", entries=_RANKS)
def sem(a: ArrayLike, axis: AxisLike = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Array:
    """The standard error of the mean: the standard deviation over the root of the number of elements.

    Args:
      a: real array `[...]`; integers and booleans become float.
      axis: an int, the name of a mapped axis, a tuple of them, or None for all axes; negative ones count from the end.
      ddof: how many degrees of freedom the standard deviation has less than elements.
      nan_policy: "propagate" gives NaN where one is; "omit" leaves NaNs out.
      keepdims: leave the axes in place with length 1.
    Returns:
      Float array without the axes, in the units of `a`; NaN of `ddof` elements and fewer.
    Raises: {TypeError, ShapeError, NotImplementedError, ValueError}

    Source: meaning of `scipy.stats.sem`.

    >>> sem(np.array([1., 2., 3., 4.]))
    Array(0.6454972, dtype=float32)
    """
    x = to_inexact("sem", a)
    if _check_nan_policy("sem", nan_policy):
        count = lnp.sum(~lnp.isnan(x), axis, keepdims=keepdims)
        out = lnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims)
    else:
        count = lnp.sum(lnp.ones_like(x, bool), axis, keepdims=keepdims)
        out = lnp.std(x, axis, ddof=ddof, keepdims=keepdims)
    return out / lnp.sqrt(lnp.astype(count, typeof(out).dtype))
