"""Reductions that ignore NaN."""
from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries
from lamina_ir.typing import Function
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax

from .._core.named_axes import axes_of
from .._core.promotion import aval, literal
from .._core.public_api import public_api
from .._core.select import choose_by
from .._elementwise.logic import logical_and
from ._docstrings import EXTREME, MEAN, SUM
from .reductions import Extreme, any, max, min, prod, sum
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


class Sum(Protocol):
    """The type of `nansum` and `nanprod`."""

    def __call__(self, a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
                 keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array: ...


class Mean(Protocol):
    """The type of `nanmean`."""

    def __call__(self, a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
                 keepdims: bool = False, where: ArrayLike | None = None) -> Array: ...


class Variance(Protocol):
    """The type of `nanvar` and `nanstd`."""

    def __call__(self, a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
                 ddof: float = 0, keepdims: bool = False, where: ArrayLike | None = None) -> Array: ...


_ARRAY = docstring_entries("""
    a: number array `[...]`; integers and booleans contain no NaN.
    """)
_MAY_BE_EMPTY = docstring_entries("""
    initial: a number that is included.
    ValueError: there are no elements along the axes and no `initial`.
    """)


def _make_public(of: Function, op: Function, returns: str, example: str, entries: dict[str, str],
                 errors: str = "") -> Any:
    """Return the public function made from `op`, the variant of the reduction `of` that ignores NaN."""
    name, code = f"nan{of.__name__}", op.__code__
    arguments = code.co_varnames[:code.co_argcount]
    doc = f"""`{of.__name__}` ignoring NaN.

    Args: {{{', '.join(arguments)}}}
    Returns:
      {returns}
    Raises: {{{errors}TypeError, ShapeError, UnboundAxisError, NotImplementedError}}

    Derivative: zero for elements that are NaN.
    Source: meaning of `numpy.{name}`.

    {example}
    """
    static = [argument for argument in arguments if argument not in ("a", "initial", "where")]
    return public_api(*static, name=name, doc=doc, entries={**entries, **_ARRAY})(op)


def _nan_sum(of: Function, returns: str, example: str) -> Sum:
    def op(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
           keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        return of(a, axis, dtype, out, keepdims, initial, _present(op.__name__, a, axis, where))
    return _make_public(of, op, returns, example, SUM)


def _nan_extreme(of: Function, worst: float, example: str) -> Extreme:
    def op(a: ArrayLike, axis: AxisLike = None, out: None = None, keepdims: bool = False,
           initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        d = aval(op.__name__, a).dtype
        if not dtypes.is_inexact(d):
            return of(a, axis, out, keepdims, initial, where)
        good = _present(op.__name__, a, axis, where)
        found = of(choose_by(good, a, literal(worst, d)), axis, out, keepdims, initial)
        if initial is not None:
            return found
        return choose_by(any(good, axis, None, keepdims), found, literal(np.nan, d))
    returns = "Array of the remaining axes, dtype and units of `a`; NaN (or `initial`) if all elements are NaN."
    return _make_public(of, op, returns, example, {**EXTREME, **_MAY_BE_EMPTY}, "ValueError, ")


def _nan_mean(of: Function, returns: str, example: str) -> Mean:
    def op(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None,
           keepdims: bool = False, where: ArrayLike | None = None) -> Array:
        return of(a, axis, dtype, out, keepdims, where=_present(op.__name__, a, axis, where))
    return _make_public(of, op, returns, example, MEAN)


def _nan_variance(of: Function, units: str, example: str) -> Variance:
    def op(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, out: None = None, ddof: float = 0,
           keepdims: bool = False, where: ArrayLike | None = None) -> Array:
        return of(a, axis, dtype, out, ddof, keepdims, where=_present(op.__name__, a, axis, where))
    returns = f"Real array of the remaining axes, in {units} of `a`; NaN if at most `ddof` elements count."
    return _make_public(of, op, returns, example, MEAN)


nansum = _nan_sum(sum, "Array of the remaining axes, in the units of `a`; 0 (or `initial`) if all elements are NaN.",
                  ">>> nansum(np.array([1., np.nan, 2.]))\n    Array(3., dtype=float32)")
nanprod = _nan_sum(prod, "Array of the remaining axes; 1 (or `initial`) if all elements are NaN.",
                   ">>> nanprod(np.array([2., np.nan, 3.]))\n    Array(6., dtype=float32)")
nanmax = _nan_extreme(max, -np.inf, ">>> nanmax(np.array([1., np.nan, 2.]))\n    Array(2., dtype=float32)")
nanmin = _nan_extreme(min, np.inf, ">>> nanmin(np.array([1., np.nan, 2.]))\n    Array(1., dtype=float32)")
nanmean = _nan_mean(mean, "Array of the remaining axes, in the units of `a`; NaN if all elements are NaN.",
                    ">>> nanmean(np.array([1., np.nan, 2.]))\n    Array(1.5, dtype=float32)")
nanvar = _nan_variance(var, "squared units", ">>> nanvar(np.array([1., np.nan, 3.]))\n    Array(1., dtype=float32)")
nanstd = _nan_variance(std, "units", ">>> nanstd(np.array([1., np.nan, 5.]))\n    Array(2., dtype=float32)")
