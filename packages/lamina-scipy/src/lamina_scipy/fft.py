"""Cosine transforms, named as `scipy.fft` names them."""
from lamina_numpy.extend import publish as _publish

from ._fft import dct, dctn, idct, idctn

__all__ = ["dct", "dctn", "idct", "idctn"]

_publish(globals())
