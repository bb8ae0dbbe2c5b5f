"""Spec of `fft`."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
The discrete Fourier transform over the last axes: y[k] = sum over j of x[j] exp(-2 pi i (j_1 k_1 / n_1 + j_2 k_2 / n_2 +
...)).
"""

SPECS = [
    op("fft", "x",
       """of the last axes as below; FFT and IFFT of c64, c128 give like x; RFFT of f32, f64 complex numbers; IRFFT of
       complex numbers real ones""",
       """FFT: y. IFFT: the same with +2 pi i, over n_1 n_2 .... RFFT: y of real x, of the last axis only k = 0, ..., n //
       2. IRFFT: the real array whose RFFT x is, n from `fft_lengths`; imaginary parts that such an RFFT has not are not
       read. Without elements, zeros.""", fft_type="an enum `FftType`",
       fft_lengths="n_1, n_2, ..., the lengths of the one to three last axes of the real or full array"),
]
