"""`lamina.lax`: the typed functions of `lamina_tracing.lax`, the solvers of `lamina_autodiff`, and `linalg`."""
from lamina_autodiff import custom_linear_solve, custom_root
from lamina_tracing.lax import *
from lamina_tracing.lax import __all__ as _typed

from . import linalg

__all__ = [*_typed, "custom_linear_solve", "custom_root", "linalg"]
