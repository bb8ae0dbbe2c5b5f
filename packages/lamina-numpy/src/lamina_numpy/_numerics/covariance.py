"""Covariances and correlations of variables in rows."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import ShapeError, config, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._core.promotion import aval, cast, inexact_dtype, literal, promote_all, work_dtype
from .._core.public_api import public_api
from .._core.axes import insert_axes
from .._core.select import choose_by
from .._core.conversion import asarray
from .._elementwise.ufuncs import clip, conj, multiply, sqrt, true_divide
from .._shape.layout import moveaxis, reshape
from .._shape.joining import concatenate
from .._reductions.reductions import sum as total
from .._reductions.averages import mean
from .._products.products import matmul
from .._indexing.diagonals import diagonal

__all__ = ["corrcoef", "cov"]


def _promote_half(call: str, *given: Any) -> tuple[np.dtype | None, list[Any]]:
    """The dtype that variables promote to, if that is half precision, and they in float32; two of them, or one."""
    xs = [asarray(x) if isinstance(x, (list, tuple)) else x for x in given if x is not None]
    d = inexact_dtype(typeof(promote_all(call, xs)[0]).dtype, config.enable_x64.value)
    return (d, [cast(x, work_dtype(d)) for x in xs]) if work_dtype(d) != d else (None, xs)


@public_api("rowvar", "bias", "ddof")
def cov(m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
        fweights: ArrayLike | None = None, aweights: ArrayLike | None = None) -> Array:
    """Covariance matrix of variables.

    Args:
      m, y: number arrays `[variables, n]`, or `[n]` for one variable, or lists; `y` adds more variables, None none.
      rowvar: whether variables are rows; where False, columns of `[n, variables]`.
      bias: divide by n rather than n - 1.
      ddof: what is taken off the number of observations before dividing; None for 0 with `bias`, else 1.
      fweights: number array `[n]`: how often each observation counts; None for once.
      aweights: number array `[n]`: how heavily each observation counts; None for all alike.
    Returns:
      Float or complex array `[k, k]` of the k variables, or `[]` of one, in the units of two variables multiplied;
      NaN where there are no more observations than `ddof`.
    Raises:
      ValueError: `m` or `y` has more than two axes.
      ShapeError: the numbers of observations or weights differ.
      TypeError: `m` or `y` is neither an array nor a number.

    Source: meaning of `numpy.cov`, which gives infinities for too few observations.

    >>> cov(np.array([[1., 2., 3.], [3., 2., 1.]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    half, xs = _promote_half("cov", m, y)
    if half is not None:
        return cast(cov(xs[0], xs[1] if xs[1:] else None, rowvar, bias, ddof, fweights, aweights), half)
    rows = []
    for x in promote_all("cov", xs):
        t = aval("cov", x)
        if len(t.shape) > 2:
            raise ValueError(f"cov: expected at most two axes; got {t.str_long()}")
        x = cast(x, inexact_dtype(t.dtype, config.enable_x64.value))
        x = reshape(x, (1,) * (2 - len(t.shape)) + t.shape)
        rows.append(moveaxis(x, 0, 1) if not rowvar and len(t.shape) == 2 else x)
    x = rows[0] if len(rows) == 1 else concatenate(rows, 0)
    d = typeof(x).dtype
    n = typeof(x).shape[1]
    if ddof is None:
        ddof = 0 if bias else 1
    # C = sum_k w_k (x_k - m) (x_k - m)^H / scale with m the weighted mean; scale is n - ddof, and with weights sum w - ddof, or
    # sum w - ddof sum(w a) / sum w for aweights a, which are reliabilities of observations, not counts.
    w = None
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is not None:
            if aval("cov", weights).shape != (n,):
                raise ShapeError(f"cov: {name} must have one number for each of {n} observations; "
                                 f"got {typeof(weights).str_long()}")
            weights = cast(weights, dtypes.real_dtype(d))
            w = weights if w is None else multiply(w, weights)
    if w is None:
        center = x - mean(x, 1, None, None, True)
        scale: Any = n - ddof
        right = center
        scale = literal(scale if scale > 0 else np.nan, d)
    else:
        w_sum = total(w)
        center = x - insert_axes(true_divide(total(x * insert_axes(w, (0,)), 1), w_sum), (1,))
        right = center * insert_axes(w, (0,))
        if ddof == 0:
            scale = w_sum
        elif aweights is None:
            scale = w_sum - ddof
        else:
            scale = w_sum - ddof * total(w * cast(aweights, dtypes.real_dtype(d))) / w_sum
        scale = choose_by(scale > 0, scale, literal(np.nan, typeof(scale).dtype))
    out = true_divide(matmul(center, moveaxis(conj(right), 0, 1)), scale)
    return reshape(out, ()) if typeof(out).shape == (1, 1) else out


@public_api("rowvar")
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True) -> Array:
    """Correlation coefficients of variables.

    Args:
      x, y: number arrays `[variables, n]`, or `[n]` for one variable, or lists; `y` adds more variables, None none.
      rowvar: whether variables are rows; where False, columns of `[n, variables]`.
    Returns:
      Float or complex array `[k, k]` of the k variables, or `[]` of one, without units, both parts within -1 and 1;
      NaN for a variable that is constant.
    Raises:
      ValueError: `x` or `y` has more than two axes.
      ShapeError: the numbers of observations differ.
      TypeError: `x` or `y` is neither an array nor a number.

    Source: meaning of `numpy.corrcoef`.

    >>> corrcoef(np.array([[1., 2., 3.], [3., 1., 2.]]))
    Array([[ 1. , -0.5],
           [-0.5,  1. ]], dtype=float32)
    """
    half, xs = _promote_half("corrcoef", x, y)
    if half is not None:
        return cast(corrcoef(xs[0], xs[1] if xs[1:] else None, rowvar), half)
    c = cov(xs[0], xs[1] if xs[1:] else None, rowvar)
    if not typeof(c).shape:
        return true_divide(c, c)
    spread = sqrt(lax.real(diagonal(c)) if dtypes.is_complex(typeof(c).dtype) else diagonal(c))
    c = c / insert_axes(spread, (1,)) / insert_axes(spread, (0,))
    if dtypes.is_complex(typeof(c).dtype):
        return lax.complex(clip(lax.real(c), -1, 1), clip(lax.imag(c), -1, 1))
    return clip(c, -1, 1)
