"""`lamina.lax.linalg`: factorisations and their solves, from `lamina_tracing.lax.factorizations`."""
from lamina_tracing.lax.factorizations import *
from lamina_tracing.lax.factorizations import __all__ as __all__
