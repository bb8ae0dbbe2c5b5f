"""Interpolation on grids, named as `scipy.interpolate` names it."""
from lamina_numpy.extend import publish as _publish

from ._interpolate import RegularGridInterpolator

__all__ = ["RegularGridInterpolator"]

_publish(globals())
