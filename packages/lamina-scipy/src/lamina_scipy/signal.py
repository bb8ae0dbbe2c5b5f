"""Signals: convolutions, trends and spectra, named as `scipy.signal` names them."""
from lamina_numpy.extend import publish as _publish

from ._signal._convolution import convolve, convolve2d, correlate, correlate2d, fftconvolve
from ._signal._spectral import csd, istft, stft, welch
from ._signal._detrend import detrend

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch"]

_publish(globals())
