"""Longer procedures along an axis: differences, integrals, interpolation, convolution, polynomials, covariances."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from lamina_ir import dtypes

from .. import lax
from .._core.tracer import typeof
from .elementwise import where
from ._registry import as_array, axes_of, axis_of, cast, common, inexact, ndim_of, row, rows, shape_of, stretched
from .joining import concatenate
from .sorting import searchsorted
from .indexing import gathered
from .products import matmul

__all__: list[str] = []

_NONE = np._NoValue


def _part(x: Any, start: int, stop: int, axis: int) -> Any:
    return lax.slice_in_dim(x, start, max(start, stop), axis=axis)


@row("diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _NONE, append: Any = _NONE) -> Any:
    x = as_array(a)
    along = axis_of("diff", axis, x)
    ends = []
    for extra in (prepend, append):
        extra = None if extra is _NONE else as_array(extra)
        ends.append(extra if extra is None or ndim_of(extra) else stretched(
            extra, tuple([1 if i == along else m for i, m in enumerate(shape_of(x))])))
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    x = concatenate(parts, along) if len(parts) > 1 else x
    for _ in range(n):
        m = shape_of(x)[along]
        less = rows["not_equal" if typeof(x).dtype == dtypes.BOOL else "subtract"]
        x = less(_part(x, 1, m, along), _part(x, 0, m - 1, along))
    return x


@row("ediff1d")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    x = rows["ravel"](ary)
    parts = [p if p is None else rows["ravel"](p) for p in (to_begin, diff(x), to_end)]
    return concatenate([p for p in parts if p is not None], 0)


@row("trapezoid", "trapz")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = inexact(y)
    along = axis_of("trapezoid", axis, y)
    n = shape_of(y)[along]
    middle = rows["multiply"](rows["add"](_part(y, 1, n, along), _part(y, 0, n - 1, along)), 0.5)
    if x is not None:
        x = as_array(x)
        dx = diff(x, axis=-1 if ndim_of(x) == 1 else axis)
        if ndim_of(x) == 1:
            dx = lax.reshape(dx, [n - 1 if i == along else 1 for i in range(ndim_of(y))])
    return rows["sum"](rows["multiply"](middle, dx), along)


@row("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = inexact(f)
    axes = axes_of("gradient", axis, x)
    steps = list(varargs) or [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    if len(steps) != len(axes):
        raise TypeError(f"numpy.gradient: as many spacings as axes are needed, or one; got {len(varargs)} for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise ValueError(f"numpy.gradient: edge_order must be 1 or 2; got {edge_order!r}")
    found = [_slope(x, i, as_array(h), edge_order) for i, h in zip(axes, steps)]
    return found[0] if len(axes) == 1 else tuple(found)


def _slope(f: Any, axis: int, h: Any, edge_order: int) -> Any:
    n = shape_of(f)[axis]
    if n < edge_order + 1:
        raise ValueError(f"numpy.gradient: an axis needs edge_order + 1 = {edge_order + 1} elements; got {n}")
    steps = diff(h) if ndim_of(h) else stretched(h, (n - 1,))  # from each place to the next
    wide = lax.reshape(inexact(steps), [n - 1 if i == axis else 1 for i in range(ndim_of(f))])
    slopes = rows["divide"](diff(f, axis=axis), wide)
    m = n - 1
    a, b = _part(wide, 0, m - 1, axis), _part(wide, 1, m, axis)
    before, after = _part(slopes, 0, m - 1, axis), _part(slopes, 1, m, axis)
    inner = rows["divide"](rows["add"](rows["multiply"](before, b), rows["multiply"](after, a)), rows["add"](a, b))
    first, last = _part(slopes, 0, 1, axis), _part(slopes, m - 1, m, axis)
    if edge_order == 2:  # the parabola through the last three places
        first, last = _edge(slopes, wide, axis, 0), _edge(slopes, wide, axis, m - 1)
    return concatenate([first, inner, last], axis)


def _edge(slopes: Any, steps: Any, axis: int, at: int) -> Any:
    """The slope at an end, continued from the first two (or last two) steps."""
    near, far = (at, 1) if at == 0 else (at, at - 1)
    s, t = _part(slopes, near, near + 1, axis), _part(slopes, far, far + 1, axis)
    h, k = _part(steps, near, near + 1, axis), _part(steps, far, far + 1, axis)
    turn = rows["divide"](rows["subtract"](s, t), rows["add"](h, k))
    return rows["add"](s, rows["multiply"](turn, h))


@row("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is not None:
        raise NotImplementedError("numpy.interp of a traced value: period= is not supported; use numpy.mod on x and xp first")
    x, xp, fp = inexact(x), inexact(xp), inexact(fp)
    n = shape_of(xp)[0]
    at = rows["clip"](searchsorted(xp, x, "right"), 1, n - 1) if n > 1 else None
    if at is None:
        return stretched(gathered(fp, np.int32(0), 0), shape_of(x))
    at = lax.convert_element_type(at, np.dtype("int32"))
    one = lax.full_like(at, 1)
    x0, x1, f0, f1 = (gathered(v, i, 0) for v in (xp, fp) for i in (lax.sub(at, one), at))
    width = rows["subtract"](x1, x0)
    safe = where(rows["equal"](width, 0), typeof(width).dtype.type(1), width)
    share = rows["divide"](rows["subtract"](x, x0), safe)
    out = rows["add"](f0, rows["multiply"](share, rows["subtract"](f1, f0)))
    ends = [lax.index_in_dim(xp, i, 0, False) for i in (0, -1)], [lax.index_in_dim(fp, i, 0, False) for i in (0, -1)]
    out = where(rows["less"](x, ends[0][0]), ends[1][0] if left is None else left, out)
    return where(rows["greater"](x, ends[0][1]), ends[1][1] if right is None else right, out)


# --- convolution and polynomials -------------------------------------------------------------------------------------


@row("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """As a product with the matrix whose rows are shifts of the longer array."""
    x, y = common(rows["ravel"](a), rows["ravel"](v))
    if shape_of(x)[0] < shape_of(y)[0]:
        x, y = y, x
    n, m = shape_of(x)[0], shape_of(y)[0]
    if not m:
        raise ValueError("numpy.convolve: both arrays must have elements")
    full = lax.pad(x, typeof(x).dtype.type(0), [(m - 1, m - 1, 0)])
    windows = gathered(full, np.arange(n + m - 1)[:, None] + np.arange(m), 0)
    out = matmul(windows, lax.rev(y, (0,)))
    if mode == "full":
        return out
    if mode == "same":
        return _part(out, (m - 1) // 2, (m - 1) // 2 + n, 0)
    if mode == "valid":
        return _part(out, m - 1, n, 0)
    raise ValueError(f"numpy.convolve: mode must be 'full', 'same' or 'valid'; got {mode!r}")


@row("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    x, y = rows["ravel"](a), rows["conjugate"](rows["ravel"](v))
    if shape_of(x)[0] >= shape_of(y)[0] or mode != "same":
        return convolve(x, lax.rev(y, (0,)), mode)
    swapped = correlate(rows["conjugate"](y), rows["conjugate"](x), mode)  # NumPy centres on the longer one, and turns it round
    return lax.rev(rows["conjugate"](swapped), (0,))


@row("polyval")
def polyval(p: Any, x: Any) -> Any:
    p, x = as_array(p), as_array(x)
    out = rows["multiply"](x, 0)
    for i in range(shape_of(p)[0]):
        out = rows["add"](rows["multiply"](out, x), lax.index_in_dim(p, i, 0, False))
    return out


@row("polyder")
def polyder(p: Any, m: int = 1) -> Any:
    p = as_array(p)
    for _ in range(m):
        n = shape_of(p)[0]
        p = rows["multiply"](_part(p, 0, n - 1, 0), np.arange(n - 1, 0, -1, dtype=typeof(p).dtype))
    return p


@row("polyadd")
def polyadd(a1: Any, a2: Any) -> Any:
    x, y = common(rows["ravel"](a1), rows["ravel"](a2))
    n = max(shape_of(x)[0], shape_of(y)[0])
    x, y = (lax.pad(v, typeof(v).dtype.type(0), [(n - shape_of(v)[0], 0, 0)]) for v in (x, y))
    return rows["add"](x, y)


@row("polysub")
def polysub(a1: Any, a2: Any) -> Any:
    return polyadd(a1, lax.neg(as_array(a2)))


@row("polymul")
def polymul(a1: Any, a2: Any) -> Any:
    return convolve(a1, a2)


@row("vander")
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    x = as_array(x)
    n = shape_of(x)[0] if N is None else int(N)
    powers = [rows["power"](x, k) for k in (range(n) if increasing else range(n - 1, -1, -1))]
    return rows["stack"](powers, 1)


# --- covariances -----------------------------------------------------------------------------------------------------


@row("cov")
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
        aweights: Any = None, *, dtype: Any = None) -> Any:
    if fweights is not None or aweights is not None:
        raise NotImplementedError("numpy.cov of a traced value: fweights= and aweights= are not supported; weigh the products "
                                  "themselves, with numpy.average")
    x = rows["atleast_2d"](inexact(m, dtype))
    if not rowvar and shape_of(x)[0] != 1:
        x = rows["transpose"](x)
    if y is not None:
        other = rows["atleast_2d"](inexact(y, dtype))
        x = concatenate([x, rows["transpose"](other) if not rowvar and shape_of(other)[0] != 1 else other], 0)
    less = (0 if bias else 1) if ddof is None else ddof
    apart = rows["subtract"](x, rows["mean"](x, 1, keepdims=True))
    found = rows["divide"](matmul(apart, rows["conjugate"](rows["transpose"](apart))), float(shape_of(x)[1] - less))
    return rows["squeeze"](found)


@row("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if not ndim_of(c):
        return lax.div(c, c)
    size = lax.sqrt(rows["real"](rows["diagonal"](c)))
    return rows["divide"](c, rows["multiply"](lax.expand_dims(size, (1,)), lax.expand_dims(size, (0,))))


@row("unwrap")
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Any:
    x = inexact(p)
    along = axis_of("unwrap", axis, x)
    step = diff(x, axis=along)
    half = period / 2
    turned = rows["subtract"](rows["remainder"](rows["add"](step, half), period), half)
    turned = where(rows["logical_and"](rows["equal"](turned, -half), rows["greater"](step, 0)), half, turned)
    small = rows["less"](lax.abs(step), half if discont is None else max(discont, half))
    add = where(small, 0.0, rows["subtract"](turned, step))
    first = _part(x, 0, 1, along)
    rest = _part(x, 1, shape_of(x)[along], along)
    return concatenate([first, rows["add"](rest, cast(rows["cumsum"](add, along), typeof(x).dtype))], along)
