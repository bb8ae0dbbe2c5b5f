"""Integrals, named as `scipy.integrate` names them."""
from lamina_numpy import trapezoid

__all__ = ["trapezoid"]
