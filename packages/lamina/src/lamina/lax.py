"""`lamina.lax`: the typed functions of `lamina_tracing.lax`; `lamina.lax.linalg` is its `factorizations`."""
from lamina_autodiff import custom_linear_solve, custom_root
from lamina_tracing.lax import *
from lamina_tracing.lax import __all__ as __all__
from lamina_tracing.lax import factorizations as linalg
