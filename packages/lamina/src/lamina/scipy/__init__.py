"""`lamina.scipy`: what SciPy has and is here so far."""
from . import special

__all__ = ["special"]
