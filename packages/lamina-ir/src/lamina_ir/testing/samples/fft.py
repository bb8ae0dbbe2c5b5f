"""Samples for fft: the four forms, one to three axes, odd and even lengths."""
from ... import prims as p
from ...prims.fft import FftType
from ..sampling import complexes, floats, sample


def _fft(x, kind, *lengths):
    sample(p.fft_p, x, fft_type=kind, fft_lengths=lengths)


_fft(complexes(8), FftType.FFT, 8)
_fft(complexes(2, 5), FftType.IFFT, 5)
_fft(complexes(2, 3, 4), FftType.FFT, 3, 4)
_fft(complexes(2, 3, 4), FftType.IFFT, 2, 3, 4)
_fft(floats(2, 6), FftType.RFFT, 6)
_fft(floats(5), FftType.RFFT, 5)
_fft(floats(2, 3, 4), FftType.RFFT, 3, 4)
_fft(complexes(2, 4), FftType.IRFFT, 6)
_fft(complexes(3), FftType.IRFFT, 5)
_fft(complexes(3, 3), FftType.IRFFT, 3, 4)
_fft(complexes(2, 3, 1), FftType.IRFFT, 2, 3, 1)
_fft(complexes(2, 1), FftType.IRFFT, 0)
