"""Cosine transforms: by one fast Fourier transform each."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import ignore_strict_promotion, public_api, to_inexact
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import check_axis, typeof

__all__ = ["dct", "dctn", "idct", "idctn"]

_COSINE = docstring_entries("""
    x: number array; the real and imaginary parts of complex numbers are transformed separately.
    type: 1, 2, 3 or 4.
    n: length of the transform: `x` is truncated or padded with zeros; None for that of `x`.
    axis: which axis; negative counts from the end.
    ShapeError: `axis` is out of range for `x` or empty; `n` is below 1, or below 2 for type 1.
    ValueError: `type` or `norm` is unknown.
    TypeError: `x` is neither an array nor a number, or `n` is not an integer.
    """)

_COSINES = docstring_entries("""
    x: number array; the real and imaginary parts of complex numbers are transformed separately.
    type: 1, 2, 3 or 4.
    s: length of the transform along each axis; None for those of `x`.
    axes: which axes; None for all, or with `s` for the last `len(s)`.
    norm: None or "backward" for plain sums, "forward" to divide them by `2 n` for each axis (type 1: `2 (n - 1)`),
      "ortho" for the transform that preserves norms.
    several: Float or complex array, with the lengths `s` along the axes; half precision is computed in float32.
    ShapeError: an axis is out of range for `x` or occurs twice; a length is below 1; `s` and `axes` differ in length.
    ValueError: `type` or `norm` is unknown.
    TypeError: `x` is neither an array nor a number.
    """)

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_NORMS = (None, "backward", "ortho", "forward")


@public_api("type", "n", "axis", "norm", entries=_COSINE)
def dct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the discrete cosine transform along an axis.

    Args:
      {x, type, n, axis}
      norm: None or "backward" for plain sums, "forward" to divide them by `2 n` (type 1: `2 (n - 1)`), "ortho" for the
        transform that preserves norms.
    Returns:
      Float or complex array of the shape of `x`, `n` along the axis; half precision is computed in float32.
    Raises: {ShapeError, ValueError, TypeError}

    Derivative: linear; the transpose of type 2 is type 3.
    Source: meaning of `scipy.fft.dct`; Makhoul, "A fast cosine transform in one and two dimensions" (1980).

    >>> dct(np.array([1., 2., 3.]), norm="ortho").round(3)
    Array([ 3.464, -1.414,  0.   ], dtype=float32)
    """
    return _transform_axis("dct", x, type, n, axis, norm, False)


@public_api("type", "n", "axis", "norm", entries=_COSINE)
def idct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Invert `dct` with the same settings.

    Args:
      {x}
      type: type of the transform to invert: 1, 2, 3 or 4.
      {n, axis}
      norm: norm of the transform to invert: None, "backward", "forward" or "ortho".
    Returns:
      Float or complex array of the shape of `x`, `n` along the axis; half precision is computed in float32.
    Raises: {ShapeError, ValueError, TypeError}

    Derivative: linear.
    Source: meaning of `scipy.fft.idct`.

    >>> idct(dct(np.array([1., 2., 4.]))).round(3)
    Array([1., 2., 4.], dtype=float32)
    """
    return _transform_axis("idct", x, type, n, axis, norm, True)


@public_api("type", "s", "axes", "norm", entries=_COSINES)
def dctn(x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
         norm: str | None = None) -> Array:
    """Return the discrete cosine transform along several axes.

    Args: {x, type, s, axes, norm}
    Returns: {several}
    Raises: {ShapeError, ValueError, TypeError}

    Derivative: linear.
    Source: meaning of `scipy.fft.dctn`.

    >>> dctn(np.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _transform_axes("dctn", x, type, s, axes, norm, False)


@public_api("type", "s", "axes", "norm", entries=_COSINES)
def idctn(x: ArrayLike, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Array:
    """Invert `dctn` with the same settings.

    Args:
      {x}
      type: type of the transform to invert: 1, 2, 3 or 4.
      {s, axes}
      norm: norm of the transform to invert: None, "backward", "forward" or "ortho".
    Returns: {several}
    Raises: {ShapeError, ValueError, TypeError}

    Derivative: linear.
    Source: meaning of `scipy.fft.idctn`.

    >>> idctn(dctn(np.array([[1., 2.], [3., 5.]]))).round(3)
    Array([[1., 2.],
           [3., 5.]], dtype=float32)
    """
    return _transform_axes("idctn", x, type, s, axes, norm, True)


def _transform_axes(call: str, x: Any, type: int, s: Any, axes: Any, norm: str | None, inverse: bool) -> Any:
    x = to_inexact(call, x)
    rank = len(typeof(x).shape)
    s = None if s is None else tuple(s) if isinstance(s, Sequence) else (s,)
    if axes is None:
        if s is not None and len(s) > rank:
            raise ShapeError(f"{call}: s has {len(s)} lengths; got {typeof(x).str_long()}")
        axes = range(rank) if s is None else range(rank - len(s), rank)
    elif not isinstance(axes, Sequence):
        axes = (axes,)
    places = [check_axis(call, a, rank, "axes") for a in axes]
    if len(set(places)) != len(places):
        raise ShapeError(f"{call}: an axis occurs twice in axes={tuple(axes)} of {typeof(x).str_long()}")
    if s is not None and len(s) != len(places):
        raise ShapeError(f"{call}: expected as many lengths in s as axes; got s={s} and axes={tuple(axes)}")
    for i, a in enumerate(places):
        x = _transform_axis(call, x, type, None if s is None else s[i], a, norm, inverse)
    return x


@ignore_strict_promotion
def _transform_axis(call: str, x: Any, type: int, n: Any, axis: int, norm: str | None, inverse: bool) -> Any:
    if type not in _INVERSE:
        raise ValueError(f"{call}: type must be 1, 2, 3 or 4; got {type!r}")
    if norm not in _NORMS:
        raise ValueError(f"{call}: norm must be None, 'backward', 'ortho' or 'forward'; got {norm!r}")
    x = to_inexact(call, x)
    t = typeof(x)
    if dtypes.is_complex(t.dtype):
        return lax.complex(*[_transform_axis(call, part, type, n, axis, norm, inverse) for part in (lax.real(x),
                                                                                                    lax.imag(x))])
    axis = check_axis(call, axis, len(t.shape))
    length = t.shape[axis]
    if n is not None and (not hasattr(n, "__index__") or n < 1):
        raise (ShapeError if hasattr(n, "__index__") else TypeError)(f"{call}: n must be a positive integer; got {n!r}")
    wanted = length if n is None else int(n)
    if wanted < (2 if type == 1 else 1):
        raise ShapeError(f"{call}: type {type} needs {2 if type == 1 else 1} elements or more along the axis; "
                         f"got {t.str_long()}, axis {axis}, n={n}")
    x = lnp.moveaxis(lnp.asarray(x, np.float32 if t.dtype.itemsize < 4 else t.dtype), axis, -1)
    x = x[..., :wanted]
    if wanted > length:
        x = lnp.pad(x, [(0, 0)] * (len(t.shape) - 1) + [(0, wanted - length)])
    scaled = norm == "forward" if not inverse else norm in (None, "backward")
    y = _transform_last(x, _INVERSE[type] if inverse else type, norm == "ortho")
    if scaled:
        y = y / (2 * (wanted - 1 if type == 1 else wanted))
    return lnp.moveaxis(y, -1, axis)


@ignore_strict_promotion
def _transform_last(x: Any, type: int, ortho: bool) -> Any:
    """One of the four transforms along the last axis, as sums or keeping lengths."""
    n, real = typeof(x).shape[-1], typeof(x).dtype
    k = np.arange(n)
    first = np.ones(n)
    if ortho and type in (1, 3):
        first[0] = first[-1 if type == 1 else 0] = 2 ** 0.5
        x = x * first.astype(real)
    if type == 1:
        y = lnp.fft.rfft(lnp.concatenate([x, lnp.flip(x[..., 1:-1], -1)], -1)).real
    elif type == 2:
        v = lnp.fft.fft(lnp.concatenate([x[..., ::2], lnp.flip(x[..., 1::2], -1)], -1))
        y = 2 * (v * _unit_roots(-k / (4 * n), real)).real
    elif type == 3:
        back = lnp.concatenate([lnp.zeros_like(x[..., :1]), lnp.flip(x[..., 1:], -1)], -1)
        v = lnp.fft.ifft(lax.complex(x, -back) * _unit_roots(k / (4 * n), real)).real * n
        order = np.where(k % 2 == 0, k // 2, n - 1 - k // 2)
        y = lnp.take(v, order.astype(np.int32), axis=-1)
    else:
        v = lnp.fft.fft(lax.complex(x, lnp.zeros_like(x)) * _unit_roots(-k / (4 * n), real), 2 * n)[..., :n]
        y = 2 * (v * _unit_roots(-(2 * k + 1) / (8 * n), real)).real
    if not ortho:
        return y
    last = np.ones(n)
    if type in (1, 2):
        last[0] = last[-1 if type == 1 else 0] = 0.5 ** 0.5
    return y * (last / (2 * (n - 1 if type == 1 else n)) ** 0.5).astype(real)


def _unit_roots(turns: Any, real: np.dtype) -> Any:
    """Unit complex numbers: computed in 64 bits, in the precision of `real`."""
    return np.exp(2j * np.pi * turns).astype(np.result_type(real, np.complex64))
