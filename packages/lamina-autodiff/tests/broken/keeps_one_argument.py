"""Defect: `argnums` is ignored; the first argument is differentiated."""
from lamina_autodiff import _default
from lamina_autodiff._default import *

__contract__ = 1


def grad(fun, argnums=0, **options):
    return _default.grad(fun, 0 if isinstance(argnums, int) and argnums >= 0 else argnums, **options)
