"""Transpose rule of Fourier transforms; the transform matrix is symmetric, so FFT and IFFT are their own transposes.

The real transforms store half of the frequencies of the last axis. Let h[k] be 1 for a frequency without a mirror image
(0, and n / 2 for even n), and 2 for a frequency that also represents its conjugate mirror image. N is the number of
elements transformed.
"""
from __future__ import annotations

from math import prod

import numpy as np
from lamina_ir import prims
from lamina_ir.prims import FftType
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from .._engine.rule_tables import transpose_rules

__all__: list[str] = []


def _multiplicity(n, count, shape, dtype, power=1):
    """Return `(h / N) ** power` along the last axis."""
    k = n // 2 + 1
    single = np.zeros(k, bool)  # frequencies without a mirror image
    single[0] = True
    if n % 2 == 0:
        single[-1] = True
    return lax.broadcast_in_dim(((np.where(single, 1, 2) / count) ** power).astype(dtype), shape, (len(shape) - 1,))


def fft_transpose(ct, x, *, fft_lengths, fft_type):
    if fft_type in (FftType.FFT, FftType.IFFT):
        return bind(prims.fft_p, ct, fft_lengths=fft_lengths, fft_type=fft_type)
    n, count = fft_lengths[-1], max(prod(fft_lengths), 1)
    dtype = typeof(ct).dtype
    if fft_type == FftType.RFFT:
        # x*[j] = Re(sum over k of ct[k] exp(-2 pi i j k / n)). IRFFT of conj(ct) has the additional factor h[k] / N.
        weights = _multiplicity(n, count, typeof(ct).shape, dtype, -1)
        return bind(prims.fft_p, lax.mul(lax.conj(ct), weights), fft_lengths=fft_lengths, fft_type=FftType.IRFFT)
    # IRFFT: x[k] contributes to element j with the factor h[k] / N exp(+2 pi i j k / n). So x*[k] = h[k] / N
    # conj(RFFT(ct))[k], since ct is real.
    spectrum = bind(prims.fft_p, ct, fft_lengths=fft_lengths, fft_type=FftType.RFFT)
    wide = typeof(spectrum)
    return lax.mul(lax.conj(spectrum), _multiplicity(n, count, wide.shape, wide.dtype))


transpose_rules.define(prims.fft_p, fft_transpose)
