"""Transposes of Fourier transforms; the transform matrix is symmetric, so FFT and IFFT are their own transposes.

For the real forms let h be 1 where a frequency stands for itself alone (0, and n / 2 for even n) and 2 where it stands
for two along the last axis; N is the number of elements transformed.
"""
from __future__ import annotations

from math import prod

import numpy as np
from lamina_ir import prims
from lamina_ir.prims import FftType
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..tables import transpose_rules

__all__: list[str] = []


def _multiplicity(n, count, shape, dtype, power=1):
    """`(h / N) ** power` along the last axis."""
    k = n // 2 + 1
    alone = np.zeros(k, bool)
    alone[0] = True
    if n % 2 == 0:
        alone[-1] = True
    return lax.broadcast_in_dim(((np.where(alone, 1, 2) / count) ** power).astype(dtype), shape, (len(shape) - 1,))


def fft_transpose(ct, x, *, fft_lengths, fft_type):
    if fft_type in (FftType.FFT, FftType.IFFT):
        return bind(prims.fft_p, ct, fft_lengths=fft_lengths, fft_type=fft_type)
    n, count = fft_lengths[-1], max(prod(fft_lengths), 1)
    dtype = typeof(ct).dtype
    if fft_type == FftType.RFFT:  # Re(sum over k of ct[k] exp(-2 pi i j k / n)): IRFFT's, of the conjugate, without its h / N
        weights = _multiplicity(n, count, typeof(ct).shape, dtype, -1)
        return bind(prims.fft_p, lax.mul(lax.conj(ct), weights), fft_lengths=fft_lengths, fft_type=FftType.IRFFT)
    # x[k] has the factor h[k] / N exp(+2 pi i j k / n) in element j: the conjugate of RFFT's, as ct is real
    spectrum = bind(prims.fft_p, ct, fft_lengths=fft_lengths, fft_type=FftType.RFFT)
    wide = typeof(spectrum)
    return lax.mul(lax.conj(spectrum), _multiplicity(n, count, wide.shape, wide.dtype))


transpose_rules.define(prims.fft_p, fft_transpose)
