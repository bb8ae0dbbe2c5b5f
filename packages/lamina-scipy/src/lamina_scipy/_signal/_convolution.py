"""Convolutions and correlations along all axes, directly or by Fourier transforms."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import DTypeError, ShapeError, dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import public_api, to_inexact
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import check_axis, typeof

from .._util import check_promotion

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]

_CONVOLUTION = docstring_entries("""
    in1, in2: number arrays of equal rank.
    mode: "full" for all sums, "same" for the middle ones, in the shape of `in1`, "valid" for those in which one
      array is within the other along each axis.
    method: "direct", "fft", or "auto", which is "direct".
    precision: precision of the products, for "direct".
    result: Float or complex array in the dtype both promote to, also for integers; half precision is computed in
      float32 by "fft".
    ShapeError: the arrays differ in rank or have no elements; for "valid", neither is within the other.
    ValueError: `mode` or `method` is unknown.
    TypeError: `in1` or `in2` is neither an array nor a number.
    """)
_PLANE = {**_CONVOLUTION, **docstring_entries("""
    in1, in2: number arrays `[m, n]` and `[k, l]`.
    boundary: the elements beyond the edges of `in1`: "fill" for `fillvalue`, "wrap" for the matrix repeated, "symm" for
      the matrix reflected.
    fillvalue: a number.
    precision: precision of the products.
    result: Float or complex array in the dtype both promote to, also for integers.
    ShapeError: the arrays are not matrices or have no elements; for "valid", neither is within the other.
    ValueError: `mode` or `boundary` is unknown.
    """)}


@public_api("mode", "method", "precision", entries=_CONVOLUTION)
def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The convolution of two arrays along all axes.

    Args: {in1, in2, mode, method, precision}
    Returns: {result}
    Raises: {ShapeError, ValueError, TypeError}

    Derivative: linear in each.
    Source: meaning of `scipy.signal.convolve`.

    >>> convolve(np.array([1., 2., 3.]), np.array([0., 1., 0.5]))
    Array([0. , 1. , 2.5, 4. , 1.5], dtype=float32)
    """
    return _convolve("convolve", in1, in2, mode, method, precision, False)


@public_api("mode", "method", "precision", entries=_CONVOLUTION)
def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The cross-correlation of two arrays along all axes: `in1` with `in2` reversed and conjugated.

    Args:
      in1: number array.
      in2: number array of the same rank; its conjugate is used.
      {mode, method, precision}
    Returns: {result}
    Raises: {ShapeError, ValueError, TypeError}

    Derivative: linear in `in1` and in the conjugate of `in2`.
    Source: meaning of `scipy.signal.correlate`.

    >>> correlate(np.array([1., 2., 3.]), np.array([0., 1., 0.5]))
    Array([0.5, 2. , 3.5, 3. , 0. ], dtype=float32)
    """
    return _convolve("correlate", in1, in2, mode, method, precision, True)


@public_api("mode", "boundary", "precision", entries=_PLANE)
def convolve2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: ArrayLike = 0,
               precision: Any = None) -> Array:
    """The convolution of two matrices.

    Args: {in1, in2, mode, boundary, fillvalue, precision}
    Returns: {result}
    Raises: {ShapeError, ValueError, TypeError}

    Derivative: linear in each.
    Source: meaning of `scipy.signal.convolve2d`.

    >>> convolve2d(np.array([[1., 2.], [3., 4.]]), np.ones((2, 2)), "same", "wrap")
    Array([[10., 10.],
           [10., 10.]], dtype=float32)
    """
    return _convolve_2d("convolve2d", in1, in2, mode, boundary, fillvalue, precision, False)


@public_api("mode", "boundary", "precision", entries=_PLANE)
def correlate2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: ArrayLike = 0,
                precision: Any = None) -> Array:
    """The cross-correlation of two matrices.

    Args:
      in1: number array `[m, n]`.
      in2: number array `[k, l]`; its conjugate is used.
      {mode, boundary, fillvalue, precision}
    Returns: {result}
    Raises: {ShapeError, ValueError, TypeError}

    Derivative: linear in `in1` and in the conjugate of `in2`.
    Source: meaning of `scipy.signal.correlate2d`; as there, of complex matrices the "valid" sums of an `in1` that
      is within `in2` are the conjugates of those that "full" gives.

    >>> correlate2d(np.array([[1., 2.], [3., 4.]]), np.array([[0., 1.]]), "valid")
    Array([[2.],
           [4.]], dtype=float32)
    """
    return _convolve_2d("correlate2d", in1, in2, mode, boundary, fillvalue, precision, True)


@public_api("mode", "axes", entries=_CONVOLUTION)
def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Sequence[int] | None = None) -> Array:
    """The convolution of two arrays by Fourier transforms.

    Args:
      in1, in2: number arrays of equal rank; along axes not convolved their lengths are equal, or one of them is 1.
      {mode}
      axes: which axes; None for all.
    Returns:
      Float or complex array in the dtype both promote to, of integers too; half precision is computed in float32.
      Zeros, if any, where an array has no elements.
    Raises:
      ShapeError: the arrays differ in rank, have no elements for "valid" or given `axes`, or do not broadcast; one of
        `axes` is outside of them or occurs twice; neither is within the other, for "valid".
      ValueError: `mode` is another word.
      TypeError: `in1` or `in2` is neither an array nor a number.

    Derivative: linear in each.
    Source: meaning of `scipy.signal.fftconvolve`.

    >>> fftconvolve(np.array([1., 2., 3.]), np.array([0., 1., 0.5])).round(4) + 0
    Array([0. , 1. , 2.5, 4. , 1.5], dtype=float32)
    """
    if axes is None and mode in ("full", "same"):  # of nothing come sums of nothing
        in1, in2 = to_inexact("fftconvolve", in1), to_inexact("fftconvolve", in2)
        s, t = typeof(in1).shape, typeof(in2).shape
        if len(s) == len(t) and 0 in (*s, *t):
            shape = s if mode == "same" else [max(m + n - 1, 0) for m, n in zip(s, t)]
            return lnp.zeros(shape, lnp.result_type(in1, in2))
    x, y = _to_arrays("fftconvolve", in1, in2, mode)
    rank = len(typeof(x).shape)
    given = range(rank) if axes is None else axes if isinstance(axes, Sequence) else (axes,)
    places = tuple(check_axis("fftconvolve", a, rank, "axes") for a in given)
    if len(set(places)) != len(places):
        raise ShapeError(f"fftconvolve: an axis occurs twice in axes={tuple(given)}")
    return _convolve_fft("fftconvolve", x, y, mode, places)


def _to_arrays(call: str, in1: Any, in2: Any, mode: str) -> tuple[Any, Any]:
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{call}: mode must be 'full', 'same' or 'valid'; got {mode!r}")
    x, y = to_inexact(call, in1), to_inexact(call, in2)
    check_promotion(call, in1, in2)
    s, t = typeof(x), typeof(y)
    if len(s.shape) != len(t.shape) or 0 in s.shape or 0 in t.shape:
        raise ShapeError(f"{call}: expected in1 and in2 of equal rank, with elements; got {s.str_long()} and {t.str_long()}")
    d, _ = dtypes.promote((s.dtype, s.weak_type), (t.dtype, t.weak_type))
    return lnp.asarray(x, d), lnp.asarray(y, d)


def _convolve(call: str, in1: Any, in2: Any, mode: str, method: str, precision: Any, reverse: bool) -> Any:
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"{call}: method must be 'auto', 'direct' or 'fft'; got {method!r}")
    x, y = _to_arrays(call, in1, in2, mode)
    if reverse:
        y = lnp.conj(lnp.flip(y))
    if method == "fft":
        return _convolve_fft(call, x, y, mode, tuple(range(len(typeof(x).shape))))
    return _convolve_direct(call, x, y, mode, precision)


def _order_by_size(call: str, x: Any, y: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the outer array, then the one that is within it."""
    s, t = typeof(x).shape, typeof(y).shape
    if all(s[a] >= t[a] for a in axes):
        return x, y
    if all(s[a] <= t[a] for a in axes):
        return y, x
    raise ShapeError(f"{call}: mode='valid' needs one array that is within the other along each axis; "
                     f"got {typeof(x).str_long()} and {typeof(y).str_long()}")


def _convolve_direct(call: str, x: Any, y: Any, mode: str, precision: Any) -> Any:
    if not typeof(x).shape:
        return x * y
    if mode == "valid":
        x, y = _order_by_size(call, x, y, tuple(range(len(typeof(x).shape))))
    pads = [(0, 0) if mode == "valid" else (k - 1, k - 1) if mode == "full" else (k // 2, (k - 1) // 2)
            for k in typeof(y).shape]
    out = lax.conv_general_dilated(x[None, None], lnp.flip(y)[None, None], (1,) * len(pads), pads, precision=precision)
    return out[0, 0]


def _convolve_2d(call: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, precision: Any,
                 reverse: bool) -> Any:
    if boundary not in ("fill", "wrap", "symm"):
        raise ValueError(f"{call}: boundary must be 'fill', 'wrap' or 'symm'; got {boundary!r}")
    x, y = _to_arrays(call, in1, in2, mode)
    if len(typeof(x).shape) != 2:
        raise ShapeError(f"{call}: expected matrices; got {typeof(x).str_long()} and {typeof(y).str_long()}")
    if dtypes.is_complex(typeof(fillvalue).dtype) and not dtypes.is_complex(typeof(x).dtype):
        raise DTypeError(f"{call}: fillvalue is complex, but the matrices are real")
    if reverse:
        y = lnp.conj(lnp.flip(y))
    if mode != "valid":
        same = (lambda k: ((k - 1) // 2, k // 2)) if reverse else (lambda k: (k // 2, (k - 1) // 2))
        pads = [(k - 1, k - 1) if mode == "full" else same(k) for k in typeof(y).shape]
        how = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}[boundary]
        filled = {"constant_values": lnp.asarray(fillvalue, typeof(x).dtype)} if boundary == "fill" else {}
        x = lnp.pad(x, pads, how, **filled)
    out = _convolve_direct(call, x, y, "valid", precision)
    # SciPy correlates the larger matrix with the smaller then, and turns the result round without taking its conjugate.
    turned = reverse and mode == "valid" and any(a < b for a, b in zip(typeof(x).shape, typeof(y).shape))
    return lnp.conj(out) if turned else out


def _convolve_fft(call: str, x: Any, y: Any, mode: str, axes: tuple[int, ...]) -> Any:
    d = typeof(x).dtype
    s, t = typeof(x).shape, typeof(y).shape
    for a in range(len(s)):
        if a not in axes and s[a] != t[a] and 1 not in (s[a], t[a]):
            raise ShapeError(f"{call}: lengths along axis {a}, which is not convolved, must be equal or 1; got "
                             f"{typeof(x).str_long()} and {typeof(y).str_long()}")
    if mode == "valid":
        x, y = _order_by_size(call, x, y, axes)
        s, t = typeof(x).shape, typeof(y).shape
    if not axes:
        return x * y
    full = tuple(s[a] + t[a] - 1 for a in axes)
    work = np.float32 if d.itemsize < 4 else d
    x, y = lnp.astype(x, work), lnp.astype(y, work)
    if dtypes.is_complex(d):
        out = lnp.fft.ifftn(lnp.fft.fftn(x, full, axes) * lnp.fft.fftn(y, full, axes), full, axes)
    else:
        out = lnp.fft.irfftn(lnp.fft.rfftn(x, full, axes) * lnp.fft.rfftn(y, full, axes), full, axes)
    wanted = {"full": full, "same": tuple(s[a] for a in axes), "valid": tuple(s[a] - t[a] + 1 for a in axes)}[mode]
    for a, whole, size in zip(axes, full, wanted):
        out = lax.slice_in_dim(out, (whole - size) // 2, (whole - size) // 2 + size, axis=a)
    return lnp.astype(out, d)
