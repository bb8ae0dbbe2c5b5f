"""`numpy.fft`: discrete Fourier transforms along any axes, each one or several calls of `lax.fft`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes
from lamina_ir.extend import docstring_entries, fill_docstring
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, lax
from lamina_tracing.extend import as_int, check_axes, check_axis, check_no_axis_name, resolve_requested_dtype, typeof
from lamina_tracing.lax import FftType

from ._elementwise import ufuncs
from ._shape import joining, tiling
from ._core.promotion import cast, literal, to_inexact
from ._core.named_axes import along_axis
from ._core.public_api import public_api, publish
from ._creation.creation import arange

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
           "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]

_ONE_AXIS = docstring_entries("""
    a: number array.
    n: length to which the axis is truncated or padded with zeros; None for its own length.
    axis: the axis to transform.
    norm: which transform has the factor `1 / n`: "backward" (None) the inverse, "forward" this one, "ortho" its root in
      both.
    complex_n: Complex array with `n` elements along the axis.
    real_n: Real array with `n` elements along the axis.
    half: Complex array with `n // 2 + 1` elements along the axis.
    ValueError: `norm` is unknown, a length is below 1, or the axis is empty.
    ShapeError: `axis` is out of range for `a`.
    TypeError: `a` holds complex numbers.
    """)

_SEVERAL_AXES = docstring_entries("""
    a: number array.
    s: length of each axis, as `n` of `fft`; None for those of `a`.
    axes: the axes; None for all, or for the last `len(s)`.
    norm: which transform has the factor `1 / n`, n the number of elements along all axes: "backward" (None) the
      inverse, "forward" this one, "ortho" its root in both.
    result: Complex array of the shape of `a`, or with the lengths `s`.
    half: Complex array; the last of the axes has `n // 2 + 1` elements if its length is n.
    real_s: Real array; the last of the axes has `s[-1]` elements, by default `2 (m - 1)`.
    ValueError: `norm` is unknown, a length is below 1, or `s` and `axes` have different lengths.
    ShapeError: an axis is out of range for `a` or occurs twice.
    TypeError: `a` holds complex numbers.
    """)
_INVERSE_ONE_AXIS = {**_ONE_AXIS, **docstring_entries("""
    norm: which transform has the factor `1 / n`: "backward" (None) this one, "forward" the other one, "ortho" its
      root in both.
    """)}
_INVERSE_SEVERAL_AXES = {**_SEVERAL_AXES, **docstring_entries("""
    norm: which transform has the factor `1 / n`, n the number of elements along all axes: "backward" (None) this one,
      "forward" the other one, "ortho" its root in both.
    """)}
_TWO_AXES = docstring_entries("""
    axes: the two axes.
    ValueError: `axes` are not two, `norm` is unknown, a length is below 1, or `s` and `axes` have different lengths.
    """)

_FREQUENCIES = docstring_entries("""
    n: length of the transform, at least 1.
    d: spacing of the samples; the unit of frequency is its inverse.
    dtype: a float dtype; default float32 (float64 in 64-bit mode).
    """)

_SHIFT = docstring_entries("""
    x: array of any dtype.
    axes: the axes; None for all.
    """)

_AT_ONCE = 3  # axes that one operation transforms
_NORMS = (None, "backward", "ortho", "forward")


def _resized(x: Any, sizes: Sequence[int], axes: Sequence[int]) -> Any:
    """`x` cut off, or filled up with zeros, at the end of each axis."""
    t = typeof(x)
    pads = [(0, 0, 0)] * len(t.shape)
    for n, a in zip(sizes, axes):
        pads[a] = (0, n - t.shape[a], 0)
    if all(hi == 0 for _, hi, _ in pads):
        return x
    return lax.pad(x, np.zeros((), t.dtype), pads)


def _transform(call: str, kind: FftType, x: Any, s: Any, axes: Any, norm: str | None, argument: str = "axes") -> Any:
    if norm not in _NORMS:
        raise ValueError(f"{call}: norm must be None, 'backward', 'ortho' or 'forward'; got {norm!r}")
    x = to_inexact(call, x)
    t = typeof(x)
    real_in, real_out = kind == FftType.RFFT, kind == FftType.IRFFT
    if real_in and dtypes.is_complex(t.dtype):
        raise TypeError(f"{call}: expected real numbers; got {t.str_long()}. Use {call.replace('ih', 'i').replace('r', '', 1)}")
    ndim = len(t.shape)
    if axes is None:
        axes = tuple(range(ndim)) if s is None else tuple(range(ndim - len(s), ndim))
    axes = check_axes(call, axes, ndim, argument)
    wide = np.dtype("float32") if t.dtype.itemsize < 4 else t.dtype
    x = cast(x, wide if real_in else dtypes.complex_dtype(wide))
    if s is not None and len(s) != len(axes):
        raise ValueError(f"{call}: s must give a length for each of the axes {axes}; got {s}")
    if not axes:
        return x
    sizes = [t.shape[a] for a in axes] if s is None else [as_int(call, "n" if argument == "axis" else "s", n) for n in s]
    if s is None and real_out:
        sizes[-1] = 2 * (sizes[-1] - 1)
    if any(n < 1 for n in sizes):
        raise ValueError(f"{call}: every transformed axis needs at least one element; got lengths {tuple(sizes)} for "
                         f"{t.str_long()}")
    # sizes are those of the longer side; the half spectrum of n real numbers has n // 2 + 1. The transformed axes go last.
    x = _resized(x, [*sizes[:-1], sizes[-1] // 2 + 1 if real_out else sizes[-1]], axes)
    order = [a for a in range(ndim) if a not in axes] + list(axes)
    x = lax.transpose(x, order) if order != list(range(ndim)) else x
    x = _in_groups(kind, x, sizes)
    if order != list(range(ndim)):
        x = lax.transpose(x, tuple(int(i) for i in np.argsort(order)))
    return _normalised(x, norm, int(np.prod(sizes)), kind in (FftType.IFFT, FftType.IRFFT))


def _in_groups(kind: FftType, x: Any, sizes: list[int]) -> Any:
    """The transform of the last axes, at most three at a time; real forms take the last axes first, or last."""
    if len(sizes) <= _AT_ONCE:
        return lax.fft(x, kind, sizes)
    n = len(typeof(x).shape)
    first, last = sizes[:-_AT_ONCE], sizes[-_AT_ONCE:]
    k = len(sizes)
    turn = (*range(n - k), *range(n - _AT_ONCE, n), *range(n - k, n - _AT_ONCE))
    back = tuple(int(i) for i in np.argsort(turn))
    plain = FftType.IFFT if kind in (FftType.IFFT, FftType.IRFFT) else FftType.FFT
    if kind != FftType.IRFFT:
        x = lax.fft(x, kind, last)
    x = lax.transpose(_in_groups(plain, lax.transpose(x, turn), first), back)
    return lax.fft(x, kind, last) if kind == FftType.IRFFT else x


def _normalised(x: Any, norm: str | None, count: int, inverse: bool) -> Any:
    if norm in (None, "backward"):
        return x
    factor = {("ortho", False): count ** -0.5, ("ortho", True): count ** 0.5, ("forward", False): 1 / count,
              ("forward", True): float(count)}[norm, inverse]
    d = typeof(x).dtype
    return ufuncs.multiply(x, literal(factor, d) if not dtypes.is_complex(d) else np.asarray(factor, d))


def _one(call: str, kind: FftType, a: Any, n: int | None, axis: int, norm: str | None) -> Any:
    return _transform(call, kind, a, None if n is None else (n,), (axis,), norm, "axis")


@public_api("n", "axis", "norm", entries=_ONE_AXIS)
@along_axis()
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform along one axis: `sum_j a[j] exp(-2 pi i j k / n)`.

    Args: {a, n, axis, norm}
    Returns: {complex_n}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.fft`; lowered to StableHLO `fft`.

    >>> fft(np.array([1., 0., 0., 0.]))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one("fft", FftType.FFT, a, n, axis, norm)


@public_api("n", "axis", "norm", entries=_INVERSE_ONE_AXIS)
@along_axis()
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft` along one axis: `sum_k a[k] exp(2 pi i j k / n) / n`.

    Args: {a, n, axis, norm}
    Returns: {complex_n}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.ifft`; lowered to StableHLO `fft`.

    >>> ifft(np.array([1., 1., 1., 1.]))
    Array([1.+0.j, 0.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """
    return _one("ifft", FftType.IFFT, a, n, axis, norm)


@public_api("n", "axis", "norm", entries=_ONE_AXIS)
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """`fft` of real numbers: the frequencies 0, ..., n // 2, as the others are their conjugates.

    Args:
      a: real array.
      {n, axis, norm}
    Returns: {half}
    Raises: {TypeError, ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.rfft`; lowered to StableHLO `fft`.

    >>> rfft(np.array([1., 2., 1.]))
    Array([ 4. +0.j       , -0.5-0.8660254j], dtype=complex64)
    """
    return _one("rfft", FftType.RFFT, a, n, axis, norm)


@public_api("n", "axis", "norm", entries=_INVERSE_ONE_AXIS)
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`: real numbers from the first half of their frequencies.

    Args:
      a: number array; the frequencies 0, ..., n // 2.
      n: length of the result; None for `2 (m - 1)`, m the length of the axis.
      axis: the axis along which the transform runs.
      {norm}
    Returns: {real_n}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.irfft`; lowered to StableHLO `fft`.

    >>> irfft(np.array([4., 0., 0.]))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    return _one("irfft", FftType.IRFFT, a, n, axis, norm)


_OTHER_WAY = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


@public_api("n", "axis", "norm", entries=_ONE_AXIS)
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """`fft` of a signal that is conjugate-symmetric, given by its first half.

    Args:
      a: number array; the first half of the signal.
      n: length of the result; None for `2 (m - 1)`, m the length of the axis.
      {axis, norm}
    Returns: {real_n}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.hfft`; lowered to StableHLO `fft`.

    >>> hfft(np.array([1., 1., 1.]))
    Array([4., 0., 0., 0.], dtype=float32)
    """
    return _one("hfft", FftType.IRFFT, ufuncs.conj(to_inexact("hfft", a)), n, axis, _OTHER_WAY.get(norm, norm))


@public_api("n", "axis", "norm", entries=_INVERSE_ONE_AXIS)
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: the first half of a conjugate-symmetric signal.

    Args:
      a: real array.
      {n, axis, norm}
    Returns: {half}
    Raises: {TypeError, ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.ihfft`; lowered to StableHLO `fft`.

    >>> ihfft(np.array([4., 0., 0., 0.])).real
    Array([1., 1., 1.], dtype=float32)
    """
    return ufuncs.conj(_one("ihfft", FftType.RFFT, a, n, axis, _OTHER_WAY.get(norm, norm)))


@public_api("s", "axes", "norm", entries=_SEVERAL_AXES)
@along_axis(several=True, argument="axes")
def fftn(a: ArrayLike, s: Sequence[int] | None = None, axes: AxisLike = None, norm: str | None = None) -> Array:
    """`fft` along several axes.

    Args: {a, s, axes, norm}
    Returns: {result}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.fftn`; lowered to StableHLO `fft`, three axes at a time.

    >>> fftn(np.ones((2, 2))).real
    Array([[4., 0.],
           [0., 0.]], dtype=float32)
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm)


@public_api("s", "axes", "norm", entries=_INVERSE_SEVERAL_AXES)
@along_axis(several=True, argument="axes")
def ifftn(a: ArrayLike, s: Sequence[int] | None = None, axes: AxisLike = None, norm: str | None = None) -> Array:
    """The inverse of `fftn`.

    Args: {a, s, axes, norm}
    Returns: {result}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.ifftn`; lowered to StableHLO `fft`, three axes at a time.

    >>> ifftn(np.array([[4., 0.], [0., 0.]])).real
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm)


@public_api("s", "axes", "norm", entries=_SEVERAL_AXES)
def rfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: AxisLike = None, norm: str | None = None) -> Array:
    """`fftn` of real numbers: half of the frequencies along the last of the axes.

    Args:
      a: real array.
      {s, axes, norm}
    Returns: {half}
    Raises: {TypeError, ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.rfftn`; lowered to StableHLO `fft`, three axes at a time.

    >>> rfftn(np.ones((2, 4))).shape
    (2, 3)
    """
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm)


@public_api("s", "axes", "norm", entries=_INVERSE_SEVERAL_AXES)
def irfftn(a: ArrayLike, s: Sequence[int] | None = None, axes: AxisLike = None, norm: str | None = None) -> Array:
    """The inverse of `rfftn`.

    Args:
      a: number array, half of the frequencies along the last of the axes.
      {s, axes, norm}
    Returns: {real_s}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.irfftn`; lowered to StableHLO `fft`, three axes at a time.

    >>> irfftn(rfftn(np.ones((2, 4))))
    Array([[1., 1., 1., 1.],
           [1., 1., 1., 1.]], dtype=float32)
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


def _two(call: str, kind: FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    check_no_axis_name(call, "axes", axes)
    if len(axes) != 2:
        raise ValueError(f"{call}: expected two axes; got {axes}")
    return _transform(call, kind, a, s, axes, norm)


@public_api("s", "axes", "norm", entries={**_SEVERAL_AXES, **_TWO_AXES})
@along_axis(several=True, argument="axes")
def fft2(a: ArrayLike, s: Sequence[int] | None = None, axes: AxisLike = (-2, -1), norm: str | None = None) -> Array:
    """`fftn` along two axes.

    Args: {a, s, axes, norm}
    Returns: {result}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.fft2`; lowered to StableHLO `fft`, three axes at a time.

    >>> fft2(np.ones((2, 2))).real
    Array([[4., 0.],
           [0., 0.]], dtype=float32)
    """
    return _two("fft2", FftType.FFT, a, s, axes, norm)


@public_api("s", "axes", "norm", entries={**_INVERSE_SEVERAL_AXES, **_TWO_AXES})
@along_axis(several=True, argument="axes")
def ifft2(a: ArrayLike, s: Sequence[int] | None = None, axes: AxisLike = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of `fft2`.

    Args: {a, s, axes, norm}
    Returns: {result}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.ifft2`; lowered to StableHLO `fft`, three axes at a time.

    >>> ifft2(np.array([[4., 0.], [0., 0.]])).real
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _two("ifft2", FftType.IFFT, a, s, axes, norm)


@public_api("s", "axes", "norm", entries={**_SEVERAL_AXES, **_TWO_AXES})
def rfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: AxisLike = (-2, -1), norm: str | None = None) -> Array:
    """`rfftn` along two axes.

    Args:
      a: real array.
      {s, axes, norm}
    Returns: {half}
    Raises: {TypeError, ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.rfft2`; lowered to StableHLO `fft`, three axes at a time.

    >>> rfft2(np.ones((2, 4))).shape
    (2, 3)
    """
    return _two("rfft2", FftType.RFFT, a, s, axes, norm)


@public_api("s", "axes", "norm", entries={**_INVERSE_SEVERAL_AXES, **_TWO_AXES})
def irfft2(a: ArrayLike, s: Sequence[int] | None = None, axes: AxisLike = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of `rfft2`.

    Args:
      a: number array, half of the frequencies along the last of the axes.
      {s, axes, norm}
    Returns: {real_s}
    Raises: {ValueError, ShapeError}

    Derivative: linear.
    Source: meaning of `numpy.fft.irfft2`; lowered to StableHLO `fft`, three axes at a time.

    >>> irfft2(rfft2(np.ones((2, 2))))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _two("irfft2", FftType.IRFFT, a, s, axes, norm)


def _frequencies(call: str, places: Any, n: int, d: Any, dtype: Any) -> Any:
    kind = dtypes.canonical_float() if dtype is None else resolve_requested_dtype(dtype)
    if isinstance(d, (int, float)):
        return cast(places, kind) * literal(1 / (n * d), kind)
    return ufuncs.divide(cast(places, kind), ufuncs.multiply(cast(to_inexact(call, d), kind), literal(float(n), kind)))


def _count(call: str, n: Any) -> int:
    size = as_int(call, "n", n)
    if size < 1:
        raise ValueError(f"{call}: n must be at least 1; got {size}")
    return size


@fill_docstring(_FREQUENCIES)
def fftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None) -> Array:
    """The frequencies of `fft`'s results: 0, 1, ..., -2, -1 over `n d`.

    Args: {n, d, dtype}
    Returns:
      Float array of `n` frequencies, in cycles per unit of `d`.
    Raises:
      ValueError: `n` is no integer of at least 1.

    Source: meaning of `numpy.fft.fftfreq`.

    >>> fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    n = _count("fftfreq", n)
    half = (n - 1) // 2 + 1
    return _frequencies("fftfreq", joining.concatenate([arange(half), arange(-(n // 2), 0)]), n, d, dtype)


@fill_docstring(_FREQUENCIES)
def rfftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None) -> Array:
    """The frequencies of `rfft`'s results: 0, 1, ..., n // 2 over `n d`.

    Args: {n, d, dtype}
    Returns:
      Float array of `n // 2 + 1` frequencies, in cycles per unit of `d`.
    Raises:
      ValueError: `n` is no integer of at least 1.

    Source: meaning of `numpy.fft.rfftfreq`.

    >>> rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    n = _count("rfftfreq", n)
    return _frequencies("rfftfreq", arange(n // 2 + 1), n, d, dtype)


def _all_axes(call: str, x: Any, axes: Any) -> tuple[int, ...]:
    n = len(typeof(x).shape)
    if isinstance(axes, (list, tuple)):  # an axis that occurs twice is shifted twice
        return tuple([check_axis(call, a, n, "axes") for a in axes])
    return tuple(range(n)) if axes is None else check_axes(call, axes, n, "axes")


@public_api("axes", entries=_SHIFT)
@along_axis(several=True, argument="axes")
def fftshift(x: ArrayLike, axes: AxisLike = None) -> Array:
    """Frequency zero moved to the middle of the axes.

    Args: {x, axes}
    Returns:
      Array of the shape and dtype of `x`.
    Raises:
      ShapeError: an axis is outside of `x`.

    Derivative: linear; the transpose is `ifftshift`.
    Source: meaning of `numpy.fft.fftshift`.

    >>> fftshift(np.array([0., 1., -2., -1.]))
    Array([-2., -1.,  0.,  1.], dtype=float32)
    """
    where = _all_axes("fftshift", x, axes)
    return tiling.roll(x, tuple(typeof(x).shape[a] // 2 for a in where), where)


@public_api("axes", entries=_SHIFT)
@along_axis(several=True, argument="axes")
def ifftshift(x: ArrayLike, axes: AxisLike = None) -> Array:
    """The inverse of `fftshift`.

    Args: {x, axes}
    Returns:
      Array of the shape and dtype of `x`.
    Raises:
      ShapeError: an axis is outside of `x`.

    Derivative: linear; the transpose is `fftshift`.
    Source: meaning of `numpy.fft.ifftshift`.

    >>> ifftshift(np.array([-2., -1., 0., 1.]))
    Array([ 0.,  1., -2., -1.], dtype=float32)
    """
    where = _all_axes("ifftshift", x, axes)
    return tiling.roll(x, tuple(-(typeof(x).shape[a] // 2) for a in where), where)


publish(globals())
