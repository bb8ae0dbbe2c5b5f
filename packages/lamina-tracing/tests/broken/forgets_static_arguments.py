"""Defect: static arguments keep the value of the first call."""
from lamina_tracing import _default
from lamina_tracing._default import *

__contract__ = 1


def jit(fun, static_argnums=None, **options):
    if not isinstance(static_argnums, int):
        return _default.jit(fun, static_argnums=static_argnums, **options)
    inner, first = _default.jit(fun, static_argnums=static_argnums, **options), []

    def called(*args, **kwargs):
        if len(args) > static_argnums:
            first[:] = first or [args[static_argnums]]
            args = [first[0] if i == static_argnums % len(args) else a for i, a in enumerate(args)]
        return inner(*args, **kwargs)
    return called
