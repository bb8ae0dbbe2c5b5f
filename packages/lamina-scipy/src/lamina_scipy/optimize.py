"""Minima of functions, named as `scipy.optimize` names them."""
from lamina_numpy.extend import publish as _publish

from ._optimize import OptimizeResults, minimize

__all__ = ["OptimizeResults", "minimize"]

_publish(globals())
