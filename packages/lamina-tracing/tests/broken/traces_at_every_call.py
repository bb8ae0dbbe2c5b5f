"""Correct but slow: nothing is cached. All conformance tests pass except those of cost."""
import functools

from lamina_tracing import _default
from lamina_tracing._default import *

__contract__ = 1


def jit(fun, **options):
    first = _default.jit(fun, **options)

    def called(*args, **kwargs):
        again = functools.wraps(fun)(lambda *a, **k: fun(*a, **k)) if callable(fun) else fun
        return _default.jit(again, **options)(*args, **kwargs)

    if isinstance(first, type) or not hasattr(fun, "__get__"):
        return called
    return functools.wraps(fun)(called)
