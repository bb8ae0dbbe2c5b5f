"""Spec of `fft`."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
The discrete Fourier transform over the last axes: y[k] = sum over j of x[j] exp(-2 pi i (j_1 k_1 / n_1 + j_2 k_2 / n_2 +
...)).
"""

SPECS = [
    op("fft", "x",
       """FFT and IFFT of c64, c128: like x; RFFT of f32, f64: complex; IRFFT of complex: real; the lengths of the last axes
       follow from the transform""",
       """FFT: y. IFFT: the same with +2 pi i, divided by n_1 n_2 .... RFFT: y of real x, along the last axis only for k = 0,
       ..., n // 2. IRFFT: the real array whose RFFT is x, with n from `fft_lengths`; imaginary parts that are zero in every
       RFFT are not read. Arrays without elements give zeros.""", fft_type="an enum `FftType`",
       fft_lengths="n_1, n_2, ..., the lengths of the one to three last axes of the real or full array"),
]
