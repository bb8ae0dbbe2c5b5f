"""The discrete Fourier transform over the last axes."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import ShapeError, dtypes, prims
from lamina_ir.prims import FftType

from .._core.array import Array
from ._util.operands import ArrayLike, as_ints, bind, typeof
from ._util.conversions import convert_element_type

__all__ = ["FftType", "fft"]


def _kind(fft_type: FftType | str | int) -> FftType:
    try:
        return FftType[fft_type.upper()] if isinstance(fft_type, str) else FftType(fft_type)
    except (KeyError, ValueError):
        raise ValueError(f"fft: fft_type must be one of {', '.join(t.name for t in FftType)}; got {fft_type!r}") from None


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The discrete Fourier transform over the last one to three axes.

    Args:
      x: complex array `[..., n1, ..., nk]`; for RFFT a real array; for IRFFT the last axis has length nk // 2 + 1.
      fft_type: an `FftType` or its name: FFT, IFFT (with the factor 1 / (n1 ... nk)), RFFT, IRFFT.
      fft_lengths: n1, ..., nk.
    Returns:
      Complex array of the shape of `x` (FFT, IFFT), `[..., nk // 2 + 1]` (RFFT), or float array `[..., nk]` (IRFFT).
    Raises:
      ShapeError: the last axes do not have these lengths.

    Derivative: linear. Source: StableHLO `fft`.

    >>> fft(np.ones(4, np.complex64), "FFT", (4,))
    Array([4.+0.j, 0.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """
    kind = _kind(fft_type)
    aval = typeof(x)
    if isinstance(fft_lengths, (int, np.integer)):
        raise ShapeError(f"fft: fft_lengths must be a sequence of lengths; got {fft_lengths!r}")
    if kind == FftType.RFFT:
        if dtypes.is_complex(aval.dtype):
            raise TypeError(f"fft: RFFT takes real numbers; got {aval.str_long()}. Use FFT")
        if not dtypes.is_float(aval.dtype):
            x = convert_element_type(x, dtypes.inexact_dtype_for(aval.dtype))
    elif not dtypes.is_complex(aval.dtype):
        x = convert_element_type(x, dtypes.complex_dtype(dtypes.inexact_dtype_for(aval.dtype)))
    return bind(prims.fft_p, x, fft_lengths=as_ints("fft", "fft_lengths", fft_lengths), fft_type=kind)
